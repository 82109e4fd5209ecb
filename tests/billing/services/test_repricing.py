"""A month charged at wrong prices is reversed and charged anew, once, by two people."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction

from billing.domain.documents.invoicing import compose_lines, total_of
from billing.domain.errors import (
    NothingToRepriceError,
    ReasonMissingError,
    RepricingDecidedError,
    RepricingFourEyesError,
    RepricingStaleError,
    RepricingUnpricedError,
)
from billing.models import BillingPeriod, Charge, Price, PriceBookAssignment, Repricing
from billing.selectors.documents.invoices import charge_sums
from billing.selectors.verification import check_charges
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import set_price
from billing.services.repricing import approve_repricing, reject_repricing, reprice_period
from billing.tasks import tick
from metering.models import MeteringWindow
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    ERIC,
    HOUR,
    SMALL_GROUP,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_book,
    make_ledger,
    make_price,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


def put(ledger: Ledger, price: str, **fields: Any) -> Price:  # noqa: ANN401 - Any column.
    """Replace the price of any small unit in force in the month's first hour."""
    given = {"size": "small", "valid_from": MONTH_START, "reason": "Typed wrong.", **fields}
    if "price_group" not in given:
        rows = Price.objects.filter(price_book=ledger.book, size="small", price_group="*")
        in_force = rows.get(superseded_at__isnull=True, valid__contains=given["valid_from"])
        given["replaces"] = in_force.pk
    return set_price(price_book=ledger.book, unit_price=Decimal(price), actor=DORA, at=AT, **given)


def month(ledger: Ledger, label: str = "2026-10") -> BillingPeriod:
    return BillingPeriod.objects.get(organization=ledger.organization, label=label)


def ask(ledger: Ledger, **fields: Any) -> Repricing:  # noqa: ANN401 - Any argument.
    given = {"reason": "Typed wrong.", "is_four_eyes": True, "actor": DORA, "at": AT, **fields}
    return reprice_period(period_id=month(ledger).pk, **given)


def approve(repricing: Repricing, **fields: Any) -> Repricing:  # noqa: ANN401 - As above.
    given = {"is_four_eyes": True, "actor": ERIC, "at": AT, **fields}
    return approve_repricing(repricing_id=repricing.pk, **given)


def reprice(ledger: Ledger) -> None:
    approve(ask(ledger))


def net() -> dict[tuple[str, str], int]:
    """Return unit-seconds charged by size and price, without what was reversed."""
    sums: dict[tuple[str, str], int] = {}
    for charge in Charge.objects.all():
        key = (charge.size, f"{charge.unit_price:.2f}")
        sums[key] = sums.get(key, 0) + charge.unit_seconds
    return {key: total for key, total in sums.items() if total}


def due(ledger: Ledger, label: str) -> str:
    """Return what a month's invoice would come to."""
    lines = compose_lines(charge_sums(month(ledger, label)), currency="EUR")
    return str(total_of(lines, currency="EUR").amount)


@shared_rows
def ledger() -> Ledger:
    """An organization with an hour of a small unit at 2.00 and an hour without use."""
    made = make_ledger(bound_hours=BOUND_HOURS)
    sealed_window(made.cluster, [Use(made.llm), Use(made.vision, 1800)])
    accrue_everything()
    return made


def test_a_wrong_price_is_previewed_and_charged_anew_by_another_person(ledger: Ledger) -> None:
    put(ledger, "3.00")

    asked = ask(ledger)

    assert (asked.state, str(asked.before), str(asked.after)) == ("proposed", "3.00", "4.50")
    assert [(c["project"], c["right_price"], c["unit_seconds"]) for c in asked.changes] == [
        ("llm", "3", 3600),
        ("vision", "3", 1800),
    ]
    assert Charge.objects.count() == 2
    posted = approve(asked)
    assert posted.state == "posted"
    assert net() == {("small", "3.00"): 5400}
    made = Charge.objects.filter(repricing_id=asked.pk)
    assert sorted(made.values_list("unit_seconds", flat=True)) == [-3600, -1800, 1800, 3600]
    assert due(ledger, "2026-10") == "4.50"
    entries = AuditEntry.objects.filter(object_kind="repricing").order_by("pk")
    assert [(e.action, e.actor_label, e.facts["reason"]) for e in entries] == [
        ("billing:repricing:propose", "dora", "Typed wrong."),
        ("billing:repricing:post", "eric", "Typed wrong."),
    ]
    assert entries[1].facts["charges"] == 4


def test_repricing_there_and_back_charges_once_beside_use_without_a_price() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm), Use(ledger.llm, 600, size="large")])
    tick(at=AT, actor=TICK)
    put(ledger, "3.00")
    reprice(ledger)
    assert net() == {("small", "3.00"): 3600}

    tick(at=AT, actor=TICK)
    tick(at=AT, actor=TICK)
    put(ledger, "2.00")
    reprice(ledger)
    tick(at=AT, actor=TICK)

    assert net() == {("small", "2.00"): 3600}
    make_price(ledger.book, "9.00", size="large")
    tick(at=AT, actor=TICK)
    assert net() == {("small", "2.00"): 3600, ("large", "9.00"): 600}
    assert due(ledger, "2026-10") == "3.50"


def test_a_closed_month_stays_as_it_is_and_the_next_one_has_the_difference() -> None:
    ledger = month_of_use([("llm", 3599), ("vision", 1801)])
    draft = draft_invoice(period_id=month(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)
    final = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    put(ledger, "0.333")

    reprice(ledger)

    final.refresh_from_db()
    assert f"{final.total:.2f}" == "3.00"
    assert due(ledger, "2026-11") == "-2.50"
    assert net() == {("small", "0.33"): 5400}


def test_an_exact_price_left_out_reprices_its_group_alone(ledger: Ledger) -> None:
    window = sealed_window(
        ledger.cluster,
        [Use(ledger.llm, 60, price_group="A100/whole")],
        start_at=MONTH_START + HOUR,
    )
    accrue_everything()
    put(ledger, "9.00", price_group=SMALL_GROUP)

    reprice(ledger)

    assert net() == {("small", "2.00"): 60, ("small", "9.00"): 5400}
    assert Charge.objects.get(window_id=window.pk).price_group == "A100/whole"


def test_a_wrong_assignment_is_repriced_by_the_right_book(ledger: Ledger) -> None:
    right = make_book("right")
    make_price(right, "1.00")
    assign_price_book(
        organization=ledger.organization,
        price_book=right,
        valid_from=MONTH_START,
        replaces=PriceBookAssignment.objects.get().pk,
        reason="Another book was agreed.",
        actor=DORA,
        at=AT,
    )

    reprice(ledger)

    assert net() == {("small", "1.00"): 5400}


def test_corrections_before_and_after_a_repricing_are_charged_at_the_right_price(
    ledger: Ledger,
) -> None:
    window = sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + HOUR)
    accrue_everything()
    accrue_late(correct(window, ledger.llm, -600))
    put(ledger, "3.00")
    between = correct(window, ledger.llm, -60)
    accrue_late(between)
    reprice(ledger)
    accrue_late(correct(window, ledger.llm, -6))

    assert net() == {("small", "3.00"): 5400 + 3600 - 666}
    assert check_charges({}).differences == ()


def test_the_asker_of_a_repricing_does_not_approve_it(ledger: Ledger) -> None:
    put(ledger, "3.00")
    asked = ask(ledger)

    with pytest.raises(RepricingFourEyesError):
        approve(asked, actor=DORA)

    assert Charge.objects.count() == 2
    assert approve(asked, actor=DORA, is_four_eyes=False).state == "posted"


def test_without_four_eyes_it_is_posted_at_once(ledger: Ledger) -> None:
    put(ledger, "3.00")

    assert ask(ledger, is_four_eyes=False).state == "posted"

    assert net() == {("small", "3.00"): 5400}


@pytest.mark.parametrize("change", ["price", "use", "other repricing"])
def test_what_is_not_as_it_was_previewed_is_refused(ledger: Ledger, change: str) -> None:
    put(ledger, "3.00")
    asked, other = ask(ledger), ask(ledger)
    if change == "price":
        put(ledger, "4.00")
    elif change == "use":
        window = Charge.objects.earliest("pk").window_id
        accrue_late(correct(MeteringWindow.objects.get(pk=window), ledger.llm, -60))
        put(ledger, "5.00")
    else:
        approve(other)
    before = Charge.objects.count()

    with pytest.raises((RepricingStaleError, NothingToRepriceError)):
        approve(asked)

    assert Charge.objects.count() == before


def test_what_is_charged_rightly_is_not_repriced(ledger: Ledger) -> None:
    put(ledger, "2.00", valid_from=MONTH_START + HOUR)

    with pytest.raises(NothingToRepriceError) as refused:
        ask(ledger)

    assert refused.value.field == "period"
    assert not Repricing.objects.exists()


def test_a_month_without_a_right_price_is_refused_with_the_hour(ledger: Ledger) -> None:
    assign_price_book(
        organization=ledger.organization,
        price_book=make_book("empty"),
        valid_from=MONTH_START,
        replaces=PriceBookAssignment.objects.get().pk,
        reason="Another.",
        actor=DORA,
        at=AT,
    )

    with pytest.raises(RepricingUnpricedError) as refused:
        ask(ledger)

    assert f"small, {SMALL_GROUP}, at 2026-10-01T00:00:00Z." in refused.value.message
    assert refused.value.facts == {
        "size": "small",
        "price_group": SMALL_GROUP,
        "hour": MONTH_START.isoformat(),
    }


def test_a_rejected_repricing_changes_nothing_and_is_decided(ledger: Ledger) -> None:
    put(ledger, "3.00")
    asked = ask(ledger)
    with pytest.raises(ReasonMissingError):
        reject_repricing(repricing_id=asked.pk, note=" ", actor=ERIC, at=AT)

    rejected = reject_repricing(repricing_id=asked.pk, note="Not yet.", actor=ERIC, at=AT)

    assert (rejected.state, rejected.decision_note) == ("rejected", "Not yet.")
    assert net() == {("small", "2.00"): 5400}
    for decide in (
        approve,
        lambda row: reject_repricing(repricing_id=row.pk, note="No.", actor=ERIC, at=AT),
    ):
        with pytest.raises(RepricingDecidedError):
            decide(asked)


def test_nothing_is_repriced_without_a_reason(ledger: Ledger) -> None:
    put(ledger, "3.00")

    with pytest.raises(ReasonMissingError):
        ask(ledger, reason="")

    assert not Repricing.objects.exists()


COPY = """
INSERT INTO billing_charge
  (window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
   tier, price_id, unit_price, currency, unit_seconds, period_id, created_at, repricing_id)
SELECT window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
       tier, price_id, unit_price, currency, -1, period_id, created_at, %s
  FROM billing_charge LIMIT 1
"""


def _insert(repricing: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(COPY, [repricing])


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda _: _insert(new_id()), "is not there, or is decided"),
        (_insert, "changes quantities"),
        (lambda _: Charge.objects.update(repricing_id=new_id()), "permission denied"),
        (lambda row: Repricing.objects.filter(pk=row).update(reason="x"), "decided once"),
        (lambda row: Repricing.objects.filter(pk=row).delete(), "never deleted|permission denied"),
    ],
    ids=["unknown", "unbalanced", "marked", "edited", "deleted"],
)
def test_the_database_refuses_what_is_no_repricing(
    ledger: Ledger, change: Callable[[UUID], object], refusal: str
) -> None:
    put(ledger, "3.00")
    asked = ask(ledger)

    with pytest.raises(DatabaseError, match=refusal), transaction.atomic():
        change(asked.pk)

    assert Charge.objects.count() == 2
