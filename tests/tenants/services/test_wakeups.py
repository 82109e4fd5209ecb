"""Wake-ups over a real Valkey: one a kind and slot, whatever publishes, however long they wait."""

import time
from collections.abc import Iterator

import pytest
import redis
from celery import current_app
from celery._state import _task_stack  # As a worker enters a task.
from celery.beat import Scheduler
from kombu.exceptions import OperationalError
from kombu.messaging import Producer
from structlog.testing import capture_logs

from config.celery import app
from metering.tasks import meter_windows, tick_windows
from quotas.tasks import tick_live_use
from tenants.services import wakeups
from tenants.services.wakeups import WakeUp, keep_slot, queue_of, wake, wake_ages

KIND = "metering.meter_windows"


def test_a_wake_up_is_queued_once_for_each_slot(client: redis.Redis, producer: Producer) -> None:
    assert wake(KIND, producer=producer) is True
    assert wake(KIND, producer=producer) is False
    assert wake("metering.recheck_windows", producer=producer) is True

    assert client.llen("metering") == 2
    assert client.ttl(f"wake:{KIND}:0") > 0


def test_a_wake_up_carries_no_expiry_and_no_row(client: redis.Redis, producer: Producer) -> None:
    wake(KIND, producer=producer)

    (message,) = client.lrange("metering", 0, -1)
    assert b'"expires": null' in message
    assert b'"eta": null' in message
    assert b'"argsrepr": "[0]"' in message


def test_what_waits_longer_than_its_key_is_not_doubled(
    client: redis.Redis, producer: Producer
) -> None:
    wake(KIND, producer=producer)
    client.delete(f"wake:{KIND}:0")

    assert wake(KIND, producer=producer) is False
    assert client.llen("metering") == 1


def test_a_slot_is_not_taken_for_the_one_whose_worker_woke_it(
    client: redis.Redis, producer: Producer
) -> None:
    first = f"wake:{KIND}:0:first"
    meter_windows.push_request(id=first, root_id=first, called_directly=False)
    _task_stack.push(meter_windows)
    try:
        assert wake(KIND, slot=1, producer=producer) is True
    finally:
        _task_stack.pop()
        meter_windows.pop_request()
    (message,) = client.lrange("metering", 0, -1)
    assert f'"parent_id": "{first}"'.encode() in message

    assert wake(KIND, producer=producer) is True
    assert client.llen("metering") == 2


def test_a_lost_wake_up_costs_a_minute_at_most(client: redis.Redis, producer: Producer) -> None:
    wake(KIND, producer=producer)
    client.delete("metering")
    assert wake(KIND, producer=producer) is False
    assert 0 < client.ttl(f"wake:{KIND}:0") <= 60

    client.delete(f"wake:{KIND}:0")

    assert wake(KIND, producer=producer) is True


def test_a_valkey_that_lost_everything_costs_nothing(
    client: redis.Redis, producer: Producer
) -> None:
    wake(KIND, producer=producer)
    client.flushall()

    assert wake(KIND, producer=producer) is True


def test_a_further_slot_is_woken_only_while_nothing_waits(
    client: redis.Redis, producer: Producer
) -> None:
    assert wake(KIND, slot=1, producer=producer) is True
    assert wake(KIND, slot=2, producer=producer) is False

    assert client.llen("metering") == 1


def test_tasks_and_beats_publish_through_the_same_way(
    client: redis.Redis, producer: Producer
) -> None:
    tick_windows.apply_async(retry=False, ignore_result=True, producer=producer)
    tick_windows.apply_async(producer=producer)

    assert client.llen("celery") == 1


def test_ten_minutes_of_two_beats_without_a_worker_leave_one_message_a_kind(
    client: redis.Redis, producer: Producer
) -> None:
    app.loader.import_default_modules()
    beats = [Scheduler(app=app, lazy=True) for _ in range(2)]
    entries = {
        name: entry for name, entry in app.conf.beat_schedule.items() if entry["schedule"] <= 300
    }

    for second in range(0, 600, 15):
        if second % 60 == 0:
            # Keys run out by themselves every minute; here no time passes.
            client.delete(*client.scan_iter("wake:*"), "none")
        for beat in beats:
            for name, entry in entries.items():
                if second % entry["schedule"] == 0:
                    row = beat.Entry(**entry, name=name, app=app)
                    beat.apply_async(row, producer=producer, advance=False)

    waiting = {name: client.llen(name) for name in ("celery", "metering", "short")}
    assert sum(waiting.values()) == len(entries)
    assert waiting["short"] == 4


class Away:
    """A producer without a broker."""

    @property
    def channel(self) -> object:
        raise OperationalError("no broker")


def test_a_broker_that_is_away_is_logged_and_no_error() -> None:
    with capture_logs() as lines:
        assert wake(KIND, producer=Away()) is False  # type: ignore[arg-type]

    assert [(line["event"], line["kind"]) for line in lines] == [("wakeup.publish_failed", KIND)]


def test_a_valkey_that_takes_nothing_is_logged_and_no_error(
    client: redis.Redis, producer: Producer
) -> None:
    client.config_set("maxmemory", 1)
    try:
        with capture_logs() as lines:
            assert wake(KIND, producer=producer) is False
    finally:
        client.config_set("maxmemory", 0)

    assert [line["event"] for line in lines] == ["wakeup.publish_failed"]


def test_a_slot_is_kept_while_a_row_takes_its_time_and_none_is_taken_by_that(
    client: redis.Redis, producer: Producer
) -> None:
    client.set(f"busy:{KIND}:1", "owner", ex=1)

    for slot in (0, 1):
        keep_slot(KIND, slot=slot, producer=producer)

    assert client.get(f"busy:{KIND}:1") == b"owner"
    assert 230 < client.ttl(f"busy:{KIND}:1") <= app.conf.task_time_limit
    assert client.exists(f"busy:{KIND}:0", f"taken:{queue_of(KIND)}") == 0


def test_a_slot_that_cannot_be_kept_for_a_broker_that_is_away_is_logged() -> None:
    with capture_logs() as lines:
        keep_slot(KIND, producer=Away())  # type: ignore[arg-type]

    assert [(line["event"], line["kind"]) for line in lines] == [("wakeup.renew_failed", KIND)]


def test_each_kind_has_its_queue() -> None:
    assert queue_of(KIND) == "metering"
    assert queue_of("quotas.tick_live_use") == "short"
    assert queue_of("billing.tick_accrual") == "celery"


def test_when_a_queue_was_last_served_is_known(client: redis.Redis) -> None:
    now, _ = client.time()
    client.set("taken:metering", now - 7)

    ages = wake_ages(client, ("metering", "short"))

    assert ages["short"] is None
    assert ages["metering"] in {7, 8}


class Counting(WakeUp):
    """A kind of work of this test alone: it yields once a row."""

    name = "tests.counting"
    slots = 2

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.done: list[int] = []

    def run(self) -> Iterator[int]:
        for row in range(self.rows):
            self.done.append(row)
            yield row


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Let a task be called as by a message, and return what it clears and wakes."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(wakeups, "wake", lambda _, *, slot: found.append(("wake", slot)))
    monkeypatch.setattr(wakeups, "require_clock", lambda _: None)
    monkeypatch.setattr(wakeups, "_clear", lambda _, *, slot: found.append(("clear", slot)))
    monkeypatch.setattr(wakeups, "_enter", lambda *_, **__: True)
    monkeypatch.setattr(wakeups, "_leave", lambda *_, **__: False)
    return found


def deliver(task: WakeUp, slot: int = 0) -> None:
    """Call a task as a worker does for a message."""
    task.bind(current_app)
    task.push_request(called_directly=False, is_eager=False)
    try:
        task(slot)
    finally:
        task.pop_request()


def test_a_worker_clears_the_key_before_the_first_row_and_ends_when_none_is_left(
    woken: list[tuple[str, int]],
) -> None:
    task = Counting(rows=3)

    deliver(task)

    assert task.done == [0, 1, 2]
    assert woken == [("clear", 0), ("wake", 1)]


def test_the_last_slot_wakes_no_other(woken: list[tuple[str, int]]) -> None:
    deliver(Counting(rows=2), slot=1)

    assert woken == [("clear", 1)]


def test_nothing_due_wakes_no_other(woken: list[tuple[str, int]]) -> None:
    deliver(Counting(rows=0))

    assert woken == [("clear", 0)]


def test_a_worker_whose_time_is_up_queues_itself_behind_the_others(
    woken: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0, 4, 9, 11])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    task = Counting(rows=9)

    deliver(task)

    assert task.done == [0, 1, 2]
    assert woken == [("clear", 0), ("wake", 1), ("wake", 0)]


def test_one_row_that_takes_longer_than_a_slice_is_done_and_wakes_a_further_slot(
    woken: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0, 500])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    task = Counting(rows=9)

    deliver(task)

    assert task.done == [0]
    assert woken == [("clear", 0), ("wake", 1), ("wake", 0)]


def test_called_directly_a_kind_of_work_is_done_whole_without_a_broker(
    woken: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(range(0, 9_000, 100))
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    task = Counting(rows=9)
    task.bind(current_app)

    task()

    assert task.done == list(range(9))
    assert woken == []


def test_what_has_a_backlog_may_have_many_workers_and_live_use_one() -> None:
    assert (meter_windows.slots, tick_live_use.slots) == (64, 1)
