"""Accrual is done by window and organization: what waits for a price costs the others nothing."""

from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from billing.models import AccrualException, AccruedUsage, AccruedWindow, Charge, Price
from billing.selectors.closing import readiness_of
from billing.selectors.pending import pending_window_ids
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import set_price
from billing.tasks import ACTOR, BATCH_RECORDS_MAX, accrue_pending, tick
from metering.models import MeteringWindow
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry, Organization, SweepCrash
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    SMALL_GROUP,
    Ledger,
    Use,
    add_usage,
    make_book,
    make_ledger,
    make_price,
    make_window,
    seal,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def acme() -> Ledger:
    return make_ledger("acme")


@shared_rows
def umbrella() -> Ledger:
    return make_ledger("umbrella")


def accrued(organization: Organization) -> list[tuple[int, int, int]]:
    """Return used, charged and unpriced unit-seconds of each window, in order."""
    rows = AccruedUsage.objects.filter(organization=organization).order_by("window_start")
    return [
        (row.used_unit_seconds, row.charged_unit_seconds, row.unpriced_unit_seconds) for row in rows
    ]


def charged(ledger: Ledger) -> dict[tuple[str, str], int]:
    """Return unit-seconds by size and unit price of all charges."""
    rows = Charge.objects.filter(organization=ledger.organization)
    return {(c.size, f"{c.unit_price:.2f}"): c.unit_seconds for c in rows}


def statements_of_a_tick() -> list[str]:
    with CaptureQueriesContext(connection) as executed:
        done = tick(at=AT, actor=ACTOR)
    assert (done.windows, done.charges, done.exceptions) == (0, 0, 0)
    return [query["sql"] for query in executed]


def large(ledger: Ledger, unit_price: str = "9.00") -> Price:
    return set_price(
        price_book=ledger.book,
        size="large",
        unit_price=Decimal(unit_price),
        valid_from=MONTH_START,
        actor=DORA,
        at=AT,
    )


def test_one_organization_without_a_price_adds_nothing_to_later_ticks(
    acme: Ledger, umbrella: Ledger
) -> None:
    sealed_window(acme.cluster, [Use(acme.llm), Use(umbrella.llm)])
    tick(at=AT, actor=ACTOR)
    idle = len(statements_of_a_tick())

    for hour in range(1, 4):
        uses = [Use(acme.llm), Use(umbrella.llm, 60), Use(umbrella.llm, 40, size="large")]
        sealed_window(acme.cluster, uses, start_at=MONTH_START + hour * HOUR)
    tick(at=AT, actor=ACTOR)

    assert len(statements_of_a_tick()) == idle
    assert pending_window_ids(limit=9) == []
    assert accrued(acme.organization) == [(3600, 3600, 0)] * 4
    assert accrued(umbrella.organization) == [(3600, 3600, 0)] + [(100, 60, 40)] * 3


def test_only_a_price_of_its_own_book_brings_unpriced_use_back(
    acme: Ledger, umbrella: Ledger
) -> None:
    window = sealed_window(acme.cluster, [Use(acme.llm, size="large")])
    tick(at=AT, actor=ACTOR)

    large(umbrella)
    assert pending_window_ids(limit=9) == []
    large(acme)

    assert pending_window_ids(limit=9) == [window.pk]
    assert tick(at=AT, actor=ACTOR).charges == 1
    assert accrued(acme.organization) == [(3600, 3600, 0)]


def test_only_its_own_assignment_brings_unpriced_use_back(acme: Ledger, umbrella: Ledger) -> None:
    before = MONTH_START - HOUR
    window = sealed_window(acme.cluster, [Use(acme.llm)], start_at=before)
    book = make_book("before")
    make_price(book, "5.00", begin_at=before)
    tick(at=AT, actor=ACTOR)
    values = {"price_book": book, "valid_from": before, "actor": DORA, "at": AT}

    assign_price_book(organization=umbrella.organization, **values)  # type: ignore[arg-type]
    assert pending_window_ids(limit=9) == []
    assign_price_book(organization=acme.organization, **values)  # type: ignore[arg-type]

    assert pending_window_ids(limit=9) == [window.pk]
    assert tick(at=AT, actor=ACTOR).charges == 1
    assert not AccrualException.objects.filter(resolved_at=None).exists()


def test_a_retry_after_a_new_price_does_not_charge_the_rest_of_the_window_again(
    acme: Ledger,
) -> None:
    """The small unit's new price is not that of its charge, which the key of charges admits."""
    sealed_window(acme.cluster, [Use(acme.llm, 60), Use(acme.llm, 40, size="large")])
    tick(at=AT, actor=ACTOR)
    make_price(acme.book, "7.00", price_group=SMALL_GROUP)

    first, second = (tick(at=AT, actor=ACTOR).charges for _ in range(2))
    large(acme)
    third = tick(at=AT, actor=ACTOR).charges

    assert (first, second, third) == (0, 0, 1)
    assert charged(acme) == {("small", "2.00"): 60, ("large", "9.00"): 40}
    assert accrued(acme.organization) == [(100, 100, 0)]


def test_readiness_adds_up_what_accrual_stored_and_reads_no_usage(acme: Ledger) -> None:
    sealed_window(acme.cluster, [Use(acme.llm, 60), Use(acme.llm, 40, size="large")])
    tick(at=AT, actor=ACTOR)
    period = acme.organization.billing_periods.get(label="2026-10")

    with CaptureQueriesContext(connection) as executed:
        readiness = readiness_of(period, at=AT)

    assert (readiness.used_unit_seconds, readiness.charged_unit_seconds) == (100, 60)
    assert (readiness.held_unit_seconds, readiness.unaccrued_windows) == (40, 0)
    assert not [query for query in executed if "metering_sealed_usage" in query["sql"]]


def _window_of(cluster_of: Ledger, hour: int, *, records: int) -> MeteringWindow:
    window = make_window(cluster_of.cluster, MONTH_START + hour * HOUR)
    window.record_count = records
    window.save(update_fields=["record_count"])
    add_usage(window, [Use(cluster_of.llm)])
    return seal(window)


def test_a_batch_has_a_limit_of_records_and_a_larger_window_its_own(acme: Ledger) -> None:
    half = BATCH_RECORDS_MAX // 2
    for hour, records in enumerate([half, half, 1, 20 * BATCH_RECORDS_MAX, 1, 1]):
        _window_of(acme, hour, records=records)

    tick(at=AT, actor=ACTOR)

    entries = AuditEntry.objects.filter(action="billing:charge:accrue").order_by("pk")
    assert [entry.facts["windows"] for entry in entries] == [2, 1, 1, 2]
    assert AccruedWindow.objects.filter(is_complete=True).count() == 6


def test_an_organization_that_fails_stops_no_other_of_its_window(
    acme: Ledger, umbrella: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_zurich(name: str) -> ZoneInfo:
        if name == "Europe/Zurich":
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)

    monkeypatch.setattr("billing.services.periods.ZoneInfo", without_zurich)
    sealed_window(acme.cluster, [Use(acme.llm), Use(umbrella.llm)])
    Organization.objects.filter(pk=acme.organization.pk).update(time_zone="Europe/Zurich")

    accrue_pending(at=AT, actor=ACTOR)
    assert accrued(acme.organization) == [(3600, 0, 3600)]
    assert accrued(umbrella.organization) == [(3600, 3600, 0)]
    assert SweepCrash.objects.get().event == "billing.accrual.failed"

    Organization.objects.filter(pk=acme.organization.pk).update(time_zone="UTC")
    assert tick(at=AT, actor=ACTOR).charges == 1
    assert accrued(acme.organization) == [(3600, 3600, 0)]


def test_use_of_an_unknown_organization_is_not_added_up(acme: Ledger) -> None:
    unknown = AccruedUsage(
        window_id=1,
        organization_id=new_id(),
        window_start=MONTH_START,
        used_unit_seconds=1,
        charged_unit_seconds=0,
        unpriced_unit_seconds=1,
        price_mark=0,
        accrued_at=AT,
    )

    with pytest.raises(IntegrityError, match="no organization"), transaction.atomic():
        unknown.save()

    unknown.organization = acme.organization
    unknown.save()
