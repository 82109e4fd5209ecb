"""Turns: a fault of one stops no other, and what comes back at every tick is counted."""

from datetime import timedelta

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from structlog.testing import capture_logs

from tenants.models import SweepCrash
from tenants.selectors.clock import crashes_by_event
from tenants.services.turns import count_crash, for_each_isolated, report_crash, run_isolated
from tests.support.builders import AT, make_organization

EVENT = "tests.things.crashed"
LATER = AT + timedelta(minutes=1)

pytestmark = pytest.mark.django_db


def one_over(number: int) -> int:
    return 10 // number


def test_one_that_crashes_does_not_keep_the_others_from_their_turn() -> None:
    with capture_logs() as lines:
        done = for_each_isolated([1, 0, 2], one_over, event=EVENT, at=AT)

    assert done == 15
    assert [(line["event"], line["log_level"], line["key"]) for line in lines] == [
        (EVENT, "error", "0")
    ]
    assert isinstance(lines[0]["exc_info"], ZeroDivisionError)
    assert lines[0]["exc_info"].__traceback__ is not None


def test_where_nothing_crashes_nothing_is_reported_and_nothing_is_asked() -> None:
    with CaptureQueriesContext(connection) as statements, capture_logs() as lines:
        done = for_each_isolated([1, 2], one_over, event=EVENT, at=AT)

    assert (done, lines, len(statements)) == (15, [], 0)


def test_a_fault_that_comes_back_is_one_row_that_counts() -> None:
    for at in (AT, LATER, LATER + timedelta(minutes=1)):
        for_each_isolated(["a", "b"], lambda _: one_over(0), event=EVENT, at=at)
    for_each_isolated(["c"], int, event=EVENT, at=AT)

    row = SweepCrash.objects.get()
    assert (row.event, row.count, row.last_key) == (EVENT, 7, "c")
    assert (row.first_at, row.last_at) == (AT, LATER + timedelta(minutes=1))
    assert row.last_error == "ValueError"
    assert str(row) == f"{EVENT}: 7"


def test_each_event_is_counted_alone_and_exported_without_a_key() -> None:
    report_crash(ValueError("acme owes"), event=EVENT, key="acme-7", at=AT)
    for _ in range(2):
        count_crash(KeyError("llm"), event="tests.others.crashed", key="", at=AT)

    page = Client().get("/metrics", SERVER_PORT=str(settings.METRICS_PORT)).content.decode()

    assert crashes_by_event() == {EVENT: 1, "tests.others.crashed": 2}
    assert f'gpu_ledger_sweep_crashes_total{{event="{EVENT}"}} 1.0' in page
    assert 'gpu_ledger_sweep_crashes_total{event="tests.others.crashed"} 2.0' in page
    assert not any(word in page for word in ("acme", "llm"))


def test_after_a_fault_the_given_answer_is_returned_and_what_was_begun_is_taken_back() -> None:
    @transaction.atomic
    def begin() -> str:
        make_organization("begun")
        raise ArithmeticError

    answer = run_isolated(begin, otherwise="nothing", event=EVENT, key=7, at=AT)

    assert answer == "nothing"
    assert crashes_by_event() == {EVENT: 1}
    assert not type(make_organization()).objects.filter(slug="begun").exists()


def test_a_long_key_and_a_long_name_are_cut() -> None:
    long = type("E" * 300, (Exception,), {})

    count_crash(long(), event=EVENT, key="k" * 300, at=AT)

    row = SweepCrash.objects.get()
    assert (row.last_key, row.last_error) == ("k" * 200, "E" * 200)


def test_without_a_database_the_sweep_ends_with_the_fault_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away() -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(connection, "cursor", away)
    turns: list[int] = []

    def crash(number: int) -> int:
        turns.append(number)
        return one_over(0)

    with capture_logs() as lines, pytest.raises(DatabaseError, match="away"):
        for_each_isolated([0, 1], crash, event=EVENT, at=AT)

    assert turns == [0]
    assert [(line["event"], line["key"]) for line in lines] == [(EVENT, "0")]


def test_who_stops_the_process_stops_the_sweep() -> None:
    def stop(_: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        for_each_isolated([1], stop, event=EVENT, at=AT)

    assert not SweepCrash.objects.exists()


def test_the_end_of_a_tasks_time_is_nobodys_fault_and_ends_the_sweep() -> None:
    turns: list[str] = []

    def take_long(key: str) -> int:
        turns.append(key)
        raise SoftTimeLimitExceeded

    with capture_logs() as lines, pytest.raises(SoftTimeLimitExceeded):
        for_each_isolated(["acme", "umbrella"], take_long, event=EVENT, at=AT)

    assert (turns, lines) == (["acme"], [])
    assert not SweepCrash.objects.exists()
