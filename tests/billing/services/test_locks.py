"""A closing keeps no usage out, and accrual leaves only the organization that is being closed."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from billing.models import AccrualException, AccruedCorrection, AccruedWindow, BillingPeriod, Charge
from billing.selectors.locks import lock_organization, lock_period
from billing.services.accrual import accrue_windows
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import discard_draft, draft_invoice
from billing.services.periods import open_period
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import set_price
from billing.tasks import ACTOR, tick
from metering.models import MeteringWindow
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    TICK,
    Ledger,
    Use,
    make_book,
    make_ledger,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END
from tests.support.threads import in_thread


def accrue(window: MeteringWindow) -> int:
    return accrue_windows(window_ids=[window.pk], actor=TICK, at=AT).charges


def october(ledger: Ledger) -> BillingPeriod:
    return BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")


def charged() -> list[tuple[str, str]]:
    rows = Charge.objects.order_by("organization__slug", "window_start")
    return list(rows.values_list("organization__slug", "period__label"))


@pytest.mark.usefixtures("committed_db")
def test_usage_is_written_while_its_organization_drafts_and_finalizes() -> None:
    ledger = month_of_use([("llm", 3600)])
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, 1)", [MONTH_END])

    with transaction.atomic():
        draft = draft_invoice(period_id=october(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)
        window = in_thread(
            lambda: sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_END)
        )
        finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
        in_thread(
            lambda: sealed_window(ledger.cluster, [Use(ledger.vision)], start_at=MONTH_END + HOUR)
        )

    assert accrue(window) == 1
    assert charged() == [("acme", "2026-10"), ("acme", "2026-11")]


@pytest.mark.usefixtures("committed_db")
def test_a_period_that_is_being_closed_postpones_no_other_organization() -> None:
    acme, umbrella = make_ledger("acme"), make_ledger("umbrella")
    window = sealed_window(acme.cluster, [Use(acme.llm), Use(umbrella.llm)])
    open_period(organization=acme.organization, label="2026-10", actor=DORA, at=AT)

    with transaction.atomic():
        lock_period(october(acme).pk)
        lock_organization(acme.organization.pk)
        assert in_thread(lambda: accrue(window)) == 1

    assert charged() == [("umbrella", "2026-10")]
    assert not AccrualException.objects.exists()
    assert not AccruedWindow.objects.filter(is_complete=True).exists()
    assert tick(at=AT, actor=ACTOR).charges == 1
    assert charged() == [("acme", "2026-10"), ("umbrella", "2026-10")]
    assert AccruedWindow.objects.get().is_complete


@pytest.mark.usefixtures("committed_db")
def test_a_correction_of_an_organization_that_is_being_closed_waits() -> None:
    acme, umbrella = make_ledger("acme"), make_ledger("umbrella")
    window = sealed_window(acme.cluster, [Use(acme.llm), Use(umbrella.llm)])
    accrue(window)
    with transaction.atomic():
        of_acme, of_umbrella = correct(window, acme.llm, 60), correct(window, umbrella.llm, 60)

    with transaction.atomic():
        lock_period(october(acme).pk)
        assert in_thread(lambda: accrue_late(of_acme, of_umbrella)) == 1

    assert AccruedCorrection.objects.get().correction_id == of_umbrella.pk
    assert accrue_late(of_acme, of_umbrella) == 1
    assert AccruedCorrection.objects.filter(is_complete=True).count() == 2


@pytest.mark.usefixtures("committed_db")
def test_a_month_that_is_being_closed_keeps_later_months_out_of_nothing() -> None:
    ledger = make_ledger("acme")
    open_period(organization=ledger.organization, label="2026-10", actor=DORA, at=AT)
    window = sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_END + HOUR)

    with transaction.atomic():
        lock_period(october(ledger).pk)
        assert in_thread(lambda: accrue(window)) == 1

    assert charged() == [("acme", "2026-11")]


def _price(ledger: Ledger) -> None:
    values = {"size": "small", "price_group": "H100/whole", "valid_from": MONTH_END}
    set_price(price_book=ledger.book, unit_price=Decimal(9), actor=DORA, at=AT, **values)  # type: ignore[arg-type]


def _assign(ledger: Ledger) -> None:
    assign_price_book(
        organization=ledger.organization,
        price_book=make_book("other"),
        valid_from=MONTH_END,
        actor=DORA,
        at=AT,
    )


def _finalize(ledger: Ledger) -> None:
    draft = draft_invoice(period_id=october(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)
    finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def _discard(ledger: Ledger) -> None:
    draft = draft_invoice(period_id=october(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)
    discard_draft(invoice_id=draft.pk, actor=DORA, at=AT)


def _open(ledger: Ledger) -> None:
    open_period(organization=ledger.organization, label="2027-01", actor=DORA, at=AT)


@pytest.mark.django_db
@pytest.mark.parametrize("act", [_price, _assign, _finalize, _discard, _open])
def test_nothing_locks_rows_against_what_refers_to_them(act: Callable[[Ledger], None]) -> None:
    ledger = month_of_use([("llm", 3600)])

    with CaptureQueriesContext(connection) as executed:
        act(ledger)

    locks = [query["sql"] for query in executed if " FOR " in query["sql"]]
    assert any("FOR NO KEY UPDATE" in sql for sql in locks)
    assert not [sql for sql in locks if "FOR UPDATE" in sql]
