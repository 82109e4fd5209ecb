"""A month that cannot be drafted stops no other: it is parked, or tried after the others."""

from collections.abc import Iterable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.domain.errors import AmountTooLargeError
from billing.models import BillingPeriod, Invoice
from billing.selectors.months import undrafted_periods
from billing.services.invoicing import draft_invoice
from billing.tasks import ACTOR, settle_periods, tick
from tenants.models import Organization
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
PARKED = 150


def october(organization: Organization) -> BillingPeriod:
    return BillingPeriod.objects.get(organization=organization, label="2026-10")


def month_of(*uses: Use, ledgers: Iterable[Ledger]) -> None:
    """Accrue a month of ledgers that share a cluster, each with its own uses."""
    cluster = next(iter(ledgers)).cluster
    sealed_window(cluster, uses)
    seal_rest_of_month(cluster, hours=BOUND_HOURS)
    accrue_everything()


def drafted() -> list[str]:
    return sorted(Invoice.objects.values_list("organization__slug", flat=True))


@shared_rows
def dear_and_sound() -> tuple[Ledger, Ledger]:
    """An organization whose use costs more than a total can hold, and one after it."""
    dear = make_ledger("a-dear", bound_hours=BOUND_HOURS)
    sound = make_ledger("b-sound", bound_hours=BOUND_HOURS)
    make_price(dear.book, "9999999999", size="large")
    units = 2_000_000
    month_of(
        Use(dear.llm, 3600 * units, size="large", units=units),
        Use(sound.llm),
        ledgers=[dear, sound],
    )
    return dear, sound


@pytest.mark.usefixtures("dear_and_sound")
def test_a_total_beyond_the_ledger_stops_no_other_draft() -> None:
    tick(at=AT, actor=ACTOR)

    assert drafted() == ["b-sound"]


def test_a_total_beyond_the_ledger_is_refused_with_its_field_and_a_remedy(
    dear_and_sound: tuple[Ledger, Ledger],
) -> None:
    dear, _ = dear_and_sound

    with pytest.raises(AmountTooLargeError) as refusal:
        draft_invoice(period_id=october(dear.organization).pk, actor=DORA, at=AT, terms=SITE_TERMS)

    assert (refusal.value.code, refusal.value.field) == ("invoice_amount_too_large", "amount")
    assert refusal.value.remedy.startswith("Look for a wrong price or quantity")
    assert drafted() == []


def test_a_month_that_was_refused_is_tried_after_all_others(
    dear_and_sound: tuple[Ledger, Ledger],
) -> None:
    dear, sound = (october(ledger.organization).pk for ledger in dear_and_sound)
    in_order = sorted([dear, sound])
    assert list(undrafted_periods(ended_before=AT).ready_ids) == in_order

    settle_periods(at=AT, actor=ACTOR)
    Invoice.objects.all().delete()

    assert list(undrafted_periods(ended_before=AT).ready_ids) == [sound, dear]
    assert BillingPeriod.objects.get(pk=dear).draft_refused_at == AT


def test_parked_organizations_keep_no_sound_one_from_its_draft() -> None:
    parked = [
        make_ledger(f"parked-{number:03}", bound_hours=BOUND_HOURS) for number in range(PARKED)
    ]
    sound = make_ledger("sound", bound_hours=BOUND_HOURS)
    uses = [Use(ledger.llm, size=size) for ledger in parked for size in ("small", "large")]
    month_of(*uses, Use(sound.llm), ledgers=[sound])

    with CaptureQueriesContext(connection) as sweep:
        opened, drafts = settle_periods(at=AT, actor=ACTOR)

    assert (opened, drafts, drafted()) == (0, 1, ["sound"])
    assert undrafted_periods(ended_before=AT).parked == PARKED
    assert len(sweep) < PARKED


def test_a_month_is_parked_for_unsealed_hours_and_for_missing_prices() -> None:
    ledger = make_ledger("acme", bound_hours=BOUND_HOURS)
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()
    assert undrafted_periods(ended_before=AT).parked == 1

    sealed_window(ledger.cluster, [Use(ledger.llm, size="large")], start_at=MONTH_START + HOUR)
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    assert undrafted_periods(ended_before=AT).parked == 1

    make_price(ledger.book, size="large")
    accrue_everything()
    due = undrafted_periods(ended_before=AT)
    assert (due.ready_ids, due.parked) == ((october(ledger.organization).pk,), 0)
    assert tick(at=AT, actor=TICK).drafts == 1
