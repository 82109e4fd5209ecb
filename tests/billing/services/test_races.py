"""Two callers at once: anyone who comes second waits, looks again, and changes nothing twice."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from typing import TypeVar

import pytest
from django.db import connection, connections, transaction

from billing.domain.errors import (
    AssignmentInUseError,
    DraftStaleError,
    PeriodNotReadyError,
    PriceInUseError,
)
from billing.models import AccruedWindow, BillingPeriod, Charge, Invoice, InvoiceLine, Price
from billing.selectors.documents.membership import billed_charges
from billing.services.accrual import AccrualResult, accrue_windows
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.periods import open_period
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import set_price
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    TICK,
    Use,
    add_usage,
    make_book,
    make_ledger,
    make_window,
    month_of_use,
    seal,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START, bind
from tests.support.threads import in_thread

pytestmark = pytest.mark.usefixtures("committed_db")
Result = TypeVar("Result")
WAIT_SECONDS = 10
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def apart(pool: ThreadPoolExecutor, call: Callable[[], Result]) -> "Future[Result]":
    """Call in another thread, whose connection is closed after it."""

    def closed() -> Result:
        try:
            return call()
        finally:
            connections.close_all()

    return pool.submit(closed)


def wait_until_blocked() -> None:
    """Return once another connection waits for a lock of this one."""
    for _ in range(WAIT_SECONDS * 20):
        with connection.cursor() as cursor:
            cursor.execute(WAITING)
            if cursor.fetchone()[0]:
                return
        time.sleep(0.05)
    pytest.fail("Nobody waits for a lock.")


def second_while(first: Callable[[], object], second: Callable[[], Result]) -> Result:
    """Return what the second does that begins while the first has not committed yet."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            first()
            waiting = apart(pool, second)
            wait_until_blocked()
        return waiting.result(WAIT_SECONDS)


def test_a_window_accrued_twice_at_once_is_charged_once() -> None:
    ledger = make_ledger()
    open_period(organization=ledger.organization, label="2026-10", actor=DORA, at=AT)
    open_period(organization=ledger.organization, label="2026-11", actor=DORA, at=AT)
    window = sealed_window(ledger.cluster, [Use(ledger.llm), Use(ledger.vision)])

    def accrue() -> AccrualResult:
        return accrue_windows(window_ids=[window.pk], actor=TICK, at=AT)

    second = second_while(accrue, accrue)

    assert second.windows == 0
    assert Charge.objects.count() == 2
    assert AccruedWindow.objects.get().is_complete
    assert AuditEntry.objects.filter(action="billing:charge:accrue").count() == 1


def test_a_window_that_is_sealed_while_others_are_added_up_is_charged_whole() -> None:
    ledger = make_ledger()
    first = sealed_window(ledger.cluster, [Use(ledger.llm)])
    late = make_window(ledger.cluster, MONTH_START + HOUR)
    add_usage(late, [Use(ledger.llm, 1800)])

    def seal_late(
        execute: Callable[..., object], sql: str, params: object, many: object, context: object
    ) -> object:
        """Let a worker seal the second window just before windows are stored."""
        if "INSERT INTO billing_accruedwindow" in sql:
            in_thread(lambda: seal(late))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(seal_late):
        accrue_windows(window_ids=[first.pk, late.pk], actor=TICK, at=AT)
    accrue_windows(window_ids=[first.pk, late.pk], actor=TICK, at=AT)

    charged = dict(Charge.objects.values_list("window_id", "unit_seconds"))
    assert charged == {first.pk: 3600, late.pk: 1800}
    added_up = AccruedWindow.objects.values_list("window_id", "usage_unit_seconds", "is_complete")
    assert sorted(added_up) == [(first.pk, 3600, True), (late.pk, 1800, True)]


def test_many_workers_over_the_same_windows_charge_each_once() -> None:
    ledger = make_ledger()
    windows = [
        sealed_window(
            ledger.cluster,
            [Use(ledger.llm, owner=f"user-{n}") for n in range(5)],
            start_at=MONTH_START + hour * HOUR,
        ).pk
        for hour in range(12)
    ]

    def accrue(turn: int) -> None:
        order = windows[turn:] + windows[:turn]
        for first in range(0, 12, 4):
            accrue_windows(window_ids=order[first : first + 4], actor=TICK, at=AT)

    with ThreadPoolExecutor(max_workers=6) as pool:
        for done in [apart(pool, lambda turn=turn: accrue(turn)) for turn in range(6)]:  # type: ignore[misc]
            done.result(WAIT_SECONDS)

    assert Charge.objects.count() == 60
    assert AccruedWindow.objects.filter(is_complete=True).count() == 12
    assert BillingPeriod.objects.count() == 2


def test_a_price_set_while_its_hours_are_charged_waits_and_is_refused() -> None:
    ledger = make_ledger()
    window = sealed_window(ledger.cluster, [Use(ledger.llm)])

    def price() -> Price:
        return set_price(
            price_book=ledger.book,
            size="small",
            price_group="H100/1g.10gb",
            unit_price=Decimal(9),
            valid_from=MONTH_START,
            actor=DORA,
            at=AT,
        )

    with pytest.raises(PriceInUseError):
        second_while(lambda: accrue_windows(window_ids=[window.pk], actor=TICK, at=AT), price)

    assert Price.objects.count() == 1
    assert Charge.objects.get().unit_price == Decimal(2)


def test_a_book_assigned_while_hours_are_charged_waits_and_is_refused() -> None:
    ledger = make_ledger()
    other = make_book("other")
    window = sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 5 * HOUR)

    with pytest.raises(AssignmentInUseError):
        second_while(
            lambda: accrue_windows(window_ids=[window.pk], actor=TICK, at=AT),
            lambda: assign_price_book(
                organization=ledger.organization,
                price_book=other,
                valid_from=MONTH_START + HOUR,
                actor=DORA,
                at=AT,
            ),
        )

    assert ledger.organization.price_book_assignments.count() == 1


def test_charges_priced_while_a_price_is_set_have_the_new_price() -> None:
    ledger = make_ledger()
    window = sealed_window(ledger.cluster, [Use(ledger.llm)])

    second_while(
        lambda: set_price(
            price_book=ledger.book,
            size="small",
            price_group="H100/1g.10gb",
            unit_price=Decimal(9),
            valid_from=MONTH_START,
            actor=DORA,
            at=AT,
        ),
        lambda: accrue_windows(window_ids=[window.pk], actor=TICK, at=AT),
    )

    assert Charge.objects.get().unit_price == Decimal(9)


def test_a_charge_that_arrives_while_the_period_is_closed_stops_the_closing() -> None:
    ledger = month_of_use([("llm", 3600)])
    period = BillingPeriod.objects.get(label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    late = sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 9 * HOUR)

    with pytest.raises(DraftStaleError):
        second_while(
            lambda: accrue_windows(window_ids=[late.pk], actor=TICK, at=AT),
            lambda: finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS),
        )

    assert Invoice.objects.get().state == "draft"
    assert set(Charge.objects.values_list("period__label", flat=True)) == {"2026-10"}
    assert not billed_charges(Charge.objects.all()).exists()


def test_a_charge_that_arrives_behind_the_closing_goes_to_the_next_period() -> None:
    ledger = month_of_use([("llm", 3600)])
    period = BillingPeriod.objects.get(label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    late_at = MONTH_START + 9 * HOUR
    bind(ledger.cluster, "late", ledger.vision, begin_at=late_at, end_at=late_at + HOUR)
    late = sealed_window(ledger.cluster, [Use(ledger.vision)], start_at=late_at)
    with pytest.raises(PeriodNotReadyError):
        finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    accrue_windows(window_ids=[late.pk], actor=TICK, at=AT)
    again = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    finalize_invoice(invoice_id=again.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    later = sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 10 * HOUR)
    accrue_windows(window_ids=[later.pk], actor=TICK, at=AT)

    assert InvoiceLine.objects.count() == 2
    posted = Charge.objects.order_by("window_start").values_list("period__label", flat=True)
    assert list(posted) == ["2026-10", "2026-10", "2026-11"]


def test_two_drafters_at_once_make_one_draft() -> None:
    month_of_use([("llm", 3600)])
    period = BillingPeriod.objects.get(label="2026-10")

    second = second_while(
        lambda: draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS),
        lambda: draft_invoice(period_id=period.pk, actor=ERIC, at=AT, terms=SITE_TERMS),
    )

    assert (second.version, second.drafted_by) == (2, "eric")
    assert (Invoice.objects.count(), InvoiceLine.objects.count()) == (1, 1)
