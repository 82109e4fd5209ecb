"""What comes up between draft and final: every reason is reported, and a new draft settles it."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from billing.domain.errors import FourEyesError, InvoiceFinalError, PeriodNotReadyError
from billing.models import BillingPeriod, Charge, Invoice
from billing.selectors.documents.membership import charges_of_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.pricing.prices import set_price
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    ERIC,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START, bind, make_cluster
from tests.support.digest import ledger_digest

pytestmark = pytest.mark.django_db
NEXT_HOUR = MONTH_START + BOUND_HOURS * HOUR


def drafted(ledger: Ledger, *, actor: Any = DORA) -> Invoice:  # noqa: ANN401 - An Actor.
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    return draft_invoice(period_id=period.pk, actor=actor, at=AT, terms=SITE_TERMS)


def bind_more(ledger: Ledger) -> None:
    """An hour that nobody metered yet belongs to the organization, too."""
    bind(ledger.cluster, "more", ledger.llm, begin_at=NEXT_HOUR, end_at=NEXT_HOUR + HOUR)


def seal_more(ledger: Ledger) -> None:
    """A late window has use that accrual has not looked at."""
    bind_more(ledger)
    sealed_window(ledger.cluster, [Use(ledger.llm, 60)], start_at=NEXT_HOUR)


def seal_unpriced(ledger: Ledger) -> None:
    """A late window has use of a size without a price."""
    bind_more(ledger)
    sealed_window(ledger.cluster, [Use(ledger.llm, 60, size="large")], start_at=NEXT_HOUR)
    accrue_everything()


def charge_twice(_: Ledger) -> None:
    charge = Charge.objects.earliest("pk")
    charge.pk, charge.owner, charge.unit_seconds = None, "nobody", 5
    charge.save(force_insert=True)


REASONS: dict[str, tuple[Callable[[Ledger], None], str]] = {
    "windows_not_sealed": (
        bind_more,
        "1 metering window is not sealed, the first at 2026-10-01T03:00:00Z.",
    ),
    "windows_not_accrued": (seal_more, "1 sealed window is not accrued."),
    "accrual_exceptions_open": (
        seal_unpriced,
        "1 accrual exception holds 60 unit-seconds without a price.",
    ),
    "usage_not_charged": (charge_twice, "Usage and charges differ by -5 unit-seconds."),
}


@pytest.mark.parametrize("code", sorted(REASONS))
def test_what_came_up_since_the_draft_is_reported_and_nothing_is_changed(code: str) -> None:
    ledger = month_of_use([("llm", 3600)])
    draft = drafted(ledger)
    happen, message = REASONS[code]
    happen(ledger)
    before = ledger_digest()

    calls: tuple[Callable[[], Invoice], ...] = (
        lambda: finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS),
        lambda: drafted(ledger),
    )
    for call in calls:
        with pytest.raises(PeriodNotReadyError) as refused:
            call()
        assert [(p.code, p.message) for p in refused.value.problems] == [(code, message)]
    assert refused.value.code == "period_not_ready"
    assert ledger_digest() == before


def test_reasons_that_come_together_are_reported_together() -> None:
    ledger = month_of_use([("llm", 3600)])
    draft = drafted(ledger)
    seal_unpriced(ledger)
    other = make_cluster("later")
    bind(other, "later", ledger.llm, begin_at=MONTH_START, end_at=MONTH_START + 2 * HOUR)
    sealed_window(other, [], start_at=MONTH_START)
    before = ledger_digest()

    with pytest.raises(PeriodNotReadyError) as refused:
        finalize_invoice(
            invoice_id=draft.pk, actor=ERIC, at=MONTH_START + 2 * HOUR, terms=SITE_TERMS
        )

    assert [p.code for p in refused.value.problems] == [
        "period_not_over",
        "windows_not_sealed",
        "windows_not_accrued",
        "accrual_exceptions_open",
    ]
    assert ledger_digest() == before


def test_a_price_set_for_the_exception_and_a_new_draft_make_it_final() -> None:
    ledger = month_of_use([("llm", 3600)])
    first = drafted(ledger)
    seal_unpriced(ledger)
    set_price(
        price_book=ledger.book,
        size="large",
        unit_price=Decimal("6.00"),
        valid_from=MONTH_START,
        actor=DORA,
        at=AT,
    )
    accrue_everything()

    again = drafted(ledger)
    final = finalize_invoice(invoice_id=again.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    assert (again.pk, again.version) == (first.pk, 2)
    assert [(line.size, line.amount) for line in final.lines.order_by("position")] == [
        ("small", Decimal("2.00")),
        ("large", Decimal("0.10")),
    ]
    assert (first.total, final.total) == (Decimal("2.00"), Decimal("2.10"))


def test_a_late_window_is_on_the_draft_that_is_made_again_and_never_on_the_old_one() -> None:
    ledger = month_of_use([("llm", 3600)])
    first = drafted(ledger)
    seal_more(ledger)
    accrue_everything()

    again = drafted(ledger, actor=ERIC)
    final = finalize_invoice(invoice_id=again.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    assert (first.unit_seconds, final.unit_seconds) == (3600, 3660)
    assert final.total == Decimal("2.03")
    assert charges_of_invoice(Charge.objects.all(), final.pk).count() == 2
    with pytest.raises(InvoiceFinalError):
        drafted(ledger)


def test_four_eyes_follow_who_drafted_last() -> None:
    ledger = month_of_use([("llm", 3600)])
    draft = drafted(ledger)
    drafted(ledger, actor=ERIC)
    before = ledger_digest()

    with pytest.raises(FourEyesError):
        finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    assert ledger_digest() == before

    assert (
        finalize_invoice(invoice_id=draft.pk, actor=DORA, at=AT, terms=SITE_TERMS).finalized_by
        == "dora"
    )


def test_without_four_eyes_a_stale_draft_and_a_late_window_are_still_refused() -> None:
    ledger = month_of_use([("llm", 3600)])
    draft = drafted(ledger)
    bind_more(ledger)
    before = ledger_digest()

    with pytest.raises(PeriodNotReadyError):
        finalize_invoice(
            invoice_id=draft.pk, actor=DORA, at=AT, terms=replace(SITE_TERMS, is_four_eyes=False)
        )

    assert ledger_digest() == before
