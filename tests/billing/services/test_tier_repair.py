"""A wrong tier schedule is withdrawn while its months are open, and else replaced with a reason."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from billing.domain.errors import (
    ReasonMissingError,
    ReplacedTierError,
    TierInForceError,
    TierOverlapError,
    TierWithdrawnError,
)
from billing.domain.pricing.tier_schedule import TierSpan
from billing.models import Invoice, TierSchedule
from billing.services.crediting import void_invoice
from billing.services.pricing.tiers import publish_tiers, withdraw_tiers
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, MONTH_END, bind
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@shared_rows
def ledger() -> Ledger:
    """October with 3 h of one project at 2.00."""
    return month_of_use([("llm", 3600)] * 3)


def publish(ledger: Ledger, percent: int, **changes: Any) -> TierSchedule:  # noqa: ANN401
    """Publish so many percent above 1 unit-hour."""
    repair = {name: changes.pop(name) for name in ("replaces", "reason") if name in changes}
    rule = make_rule((0, 0), (1, percent), **changes)
    return publish_tiers(price_book=ledger.book, rule=rule, actor=DORA, at=AT, **repair)


def tiers_of(invoice: Invoice) -> list[str]:
    amounts = invoice.lines.filter(kind="tier").values_list("amount", flat=True)
    return [f"{amount:.2f}" for amount in amounts.order_by("position")]


def test_a_schedule_of_open_months_is_withdrawn_and_their_drafts_lose_it(ledger: Ledger) -> None:
    schedule = publish(ledger, 50)
    assert tiers_of(draft(ledger.organization, "2026-10")) == ["-2.00"]

    done = withdraw_tiers(schedule_id=schedule.pk, reason="Wrong.", actor=DORA, at=AT)

    assert done.withdrawn_at == AT
    assert tiers_of(draft(ledger.organization, "2026-10")) == []
    with pytest.raises(TierWithdrawnError):
        withdraw_tiers(schedule_id=schedule.pk, reason="Wrong.", actor=DORA, at=AT)


def test_of_a_closed_month_it_is_replaced_and_a_void_invoice_has_the_right_one(
    ledger: Ledger,
) -> None:
    wrong = publish(ledger, 50)
    final = finalize(draft(ledger.organization, "2026-10"))

    with pytest.raises(TierInForceError) as refused:
        withdraw_tiers(schedule_id=wrong.pk, reason="Typed wrong.", actor=DORA, at=AT)
    right = publish(ledger, 5, replaces=wrong.pk, reason="Typed wrong.")

    assert refused.value.facts == {"month": "2026-10"}
    wrong.refresh_from_db()
    assert (wrong.superseded_from, right.replaces_id) == ("2026-10", wrong.pk)
    assert tiers_of(final) == ["-2.00"]
    note, replacement = void_invoice(
        invoice_id=final.pk, reason="Tiers.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    assert (tiers_of(note), tiers_of(replacement)) == (["2.00"], ["-0.20"])
    finalize(replacement)


def test_of_a_fiscal_year_the_next_document_has_the_difference(ledger: Ledger) -> None:
    wrong = publish(ledger, 50, span=TierSpan.FISCAL_YEAR)
    finalize(draft(ledger.organization, "2026-10"))
    bind(ledger.cluster, "nov", ledger.llm, begin_at=MONTH_END, end_at=MONTH_END + HOUR)
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_END)
    accrue_everything()

    publish(ledger, 5, span=TierSpan.FISCAL_YEAR, replaces=wrong.pk, reason="Typed wrong.")

    november = draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)
    # 2.00 of October is given back; 5 % of the 6.00 above one unit-hour of four are 0.30.
    assert sorted(tiers_of(november)) == ["-0.30", "2.00"]


def test_from_a_later_month_on_the_earlier_ones_keep_the_replaced_one(ledger: Ledger) -> None:
    wrong = publish(ledger, 50)

    publish(ledger, 5, first_month="2026-11", replaces=wrong.pk, reason="New contract.")

    assert tiers_of(draft(ledger.organization, "2026-10")) == ["-2.00"]


def test_what_names_no_reason_or_another_schedule_changes_nothing(ledger: Ledger) -> None:
    wrong = publish(ledger, 50, last_month="2026-12")

    with pytest.raises(ReasonMissingError):
        publish(ledger, 5, replaces=wrong.pk)
    with pytest.raises(ReplacedTierError) as later:
        publish(ledger, 5, first_month="2027-01", replaces=wrong.pk, reason="Wrong.")
    with pytest.raises(TierOverlapError):
        publish(ledger, 5, last_month="2026-11")

    assert later.value.facts == {"month": "2027-01"}
    wrong.refresh_from_db()
    assert (wrong.superseded_from, TierSchedule.objects.count()) == ("", 1)


def test_the_database_keeps_schedules_and_supersedes_each_once(ledger: Ledger) -> None:
    wrong = publish(ledger, 50)
    publish(ledger, 5, replaces=wrong.pk, reason="Typed wrong.")

    for change in ("last_month = '2028-01'", "superseded_from = '2026-12'"):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"UPDATE billing_tierschedule SET {change} WHERE id = '{wrong.pk}'")  # noqa: S608 - Constants.
