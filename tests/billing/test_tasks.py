"""A round finds what is due in the tables and the clock, and finding nothing is fine."""

from datetime import timedelta

import pytest
from django.db import connections

from billing.models import AccruedWindow, BillingPeriod, Charge, Invoice
from billing.selectors.pending import pending_window_ids
from billing.tasks import ACTOR, TickResult, tick, tick_accrual, tick_periods
from tests.support.billing.ledger import (
    BOUND_HOURS,
    HOUR,
    TICK,
    Use,
    make_ledger,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.builders import AT, MONTH_END, MONTH_START

NOTHING = TickResult(windows=0, charges=0, exceptions=0, periods=0, drafts=0)


@pytest.mark.django_db
def test_a_round_accrues_and_drafts_a_month_that_is_over_and_complete() -> None:
    ledger = make_ledger(bound_hours=BOUND_HOURS)
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)

    done = tick(at=AT, actor=ACTOR)

    assert done == TickResult(windows=3, charges=1, exceptions=0, periods=0, drafts=1)
    invoice = Invoice.objects.get()
    assert (invoice.state, invoice.drafted_by) == ("draft", "billing.tick")
    assert invoice.document["issuer"]["name"] == "GPU Platform"
    assert tick(at=AT + HOUR, actor=ACTOR) == NOTHING


@pytest.mark.django_db
def test_a_month_is_not_drafted_before_the_lateness_allowance() -> None:
    ledger = make_ledger(bound_hours=BOUND_HOURS)
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)

    assert tick(at=MONTH_END + timedelta(seconds=899), actor=ACTOR).drafts == 0
    assert tick(at=MONTH_END + timedelta(seconds=900), actor=ACTOR).drafts == 1


@pytest.mark.django_db
def test_a_month_that_waits_for_a_price_is_left_and_found_again() -> None:
    ledger = make_ledger(bound_hours=1)
    sealed_window(ledger.cluster, [Use(ledger.llm), Use(ledger.llm, size="large")])

    first = tick(at=AT, actor=ACTOR)
    second = tick(at=AT + HOUR, actor=ACTOR)
    make_price(ledger.book, size="large")
    third = tick(at=AT + 2 * HOUR, actor=ACTOR)

    assert (first.exceptions, first.drafts) == (1, 0)
    assert second == NOTHING
    assert (third.charges, third.drafts) == (1, 1)


@pytest.mark.django_db
def test_this_months_periods_are_opened() -> None:
    make_ledger()

    assert tick(at=AT, actor=ACTOR).periods == 1
    assert BillingPeriod.objects.get().label == "2026-11"


@pytest.mark.django_db
def test_new_windows_go_before_those_that_waited_for_a_price() -> None:
    ledger = make_ledger()
    waiting = sealed_window(ledger.cluster, [Use(ledger.llm, size="large")])
    tick(at=AT, actor=TICK)
    assert pending_window_ids(limit=10) == []
    fresh = sealed_window(ledger.cluster, start_at=MONTH_START + HOUR)
    make_price(ledger.book, size="large")

    assert pending_window_ids(limit=10) == [fresh.pk, waiting.pk]
    assert pending_window_ids(limit=1) == [fresh.pk]


@pytest.mark.django_db
def test_the_celery_tasks_are_doorbells_of_the_same_rounds() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)])

    tick_accrual()
    tick_periods()

    assert AccruedWindow.objects.count() == 1
    assert Charge.objects.count() == 1
    assert (tick_accrual.name, tick_periods.name) == (
        "billing.tick_accrual",
        "billing.tick_periods",
    )


@pytest.mark.usefixtures("committed_db")
def test_a_batch_that_cannot_have_its_locks_is_left_to_the_next_round() -> None:
    ledger = make_ledger()
    tick(at=AT, actor=ACTOR)
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    blocker = connections["default"].copy()
    with blocker.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT id FROM tenants_organization FOR UPDATE")

    blocked = tick(at=AT, actor=ACTOR)
    blocker.close()

    assert blocked.charges == 0
    assert tick(at=AT, actor=ACTOR).charges == 1
