"""Slots over a real Valkey: how many workers are at a kind of work, and on whose clock."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
import redis
import time_machine
from celery import current_app
from celery._state import _task_stack  # As a worker enters a task.
from kombu.connection import Connection
from kombu.pools import ProducerPool
from structlog.testing import capture_logs

from config.celery import QUEUES, TASK_TIME_LIMIT_SECONDS, app
from config.monitoring.health import worker_problem
from embedded.valkey import EmbeddedValkey
from tenants.domain.refusals import ClockOffError
from tenants.services import slot_leases, wakeups
from tenants.services.wakeups import REST_SECONDS, WakeUp, wake, wake_ages

pytestmark = pytest.mark.django_db

KIND = "quotas.tick_live_use"
BUSY, AGAIN, KEY = f"busy:{KIND}:0", f"again:{KIND}:0", f"wake:{KIND}:0"


@pytest.fixture(autouse=True)
def pool(
    valkey: EmbeddedValkey,
    client: object,  # noqa: ARG001 - Empty.
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Let Celery publish to the test's Valkey."""
    connections = Connection(valkey.url()).Pool(2)  # type: ignore[no-untyped-call]
    found = ProducerPool(connections, limit=2)  # type: ignore[no-untyped-call]
    monkeypatch.setattr(app.amqp, "_producer_pool", found)
    yield
    found.force_close_all()  # type: ignore[no-untyped-call]
    connections.force_close_all()


class Probe(WakeUp):
    """A kind of work of these tests alone, which calls something for each of its rows."""

    name = KIND

    def __init__(self, *calls: Callable[[], object]) -> None:
        self.calls = calls
        self.done = 0

    def run(self) -> Iterator[int]:
        for call in self.calls:
            call()
            self.done += 1
            yield self.done


def deliver(task: WakeUp, *, message_id: str = "one") -> None:
    """Call a task as a worker does for a message."""
    task.bind(current_app)
    task.push_request(called_directly=False, is_eager=False, id=message_id, args=[0])
    _task_stack.push(task)
    try:
        task(0)
    finally:
        _task_stack.pop()
        task.pop_request()


def test_a_slot_is_leased_while_its_worker_works_and_no_longer(client: redis.Redis) -> None:
    seconds_left: list[int] = []

    deliver(Probe(lambda: seconds_left.append(client.ttl(BUSY))))

    assert seconds_left in ([TASK_TIME_LIMIT_SECONDS], [TASK_TIME_LIMIT_SECONDS - 1])
    assert not client.exists(BUSY)
    assert client.llen("short") == 0


def test_a_long_row_renews_its_slot_and_what_else_it_leases(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_leases, "RENEW_SECONDS", 0.01)
    renewed = Event()
    seconds_left: list[int] = []

    def work() -> None:
        client.expire(BUSY, 5)
        with slot_leases.renewed_slot(KIND, renewed.set):
            assert renewed.wait(timeout=10)
        seconds_left.append(client.ttl(BUSY))

    deliver(Probe(work))

    assert TASK_TIME_LIMIT_SECONDS - 2 <= seconds_left[0] <= TASK_TIME_LIMIT_SECONDS
    assert not client.exists(BUSY)


def test_a_wake_up_that_meets_a_busy_slot_is_dropped_and_queued_anew_at_the_end(
    client: redis.Redis,
) -> None:
    second = Probe(lambda: None)

    deliver(Probe(lambda: deliver(second, message_id="two"), lambda: client.llen("short")))

    assert second.done == 0
    assert client.llen("short") == 1
    assert client.exists(KEY) == 1
    assert not client.exists(AGAIN, BUSY)


class WideProbe(Probe):
    """A kind of work that several workers may be at."""

    slots = 2


def test_a_wake_up_that_meets_the_slot_of_a_killed_worker_goes_on_to_the_next(
    client: redis.Redis,
) -> None:
    client.set(BUSY, "of a worker that was killed")
    work = WideProbe(lambda: None)

    deliver(work)

    assert work.done == 0
    assert client.llen("short") == 1
    assert client.exists(f"wake:{KIND}:1") == 1


class LeasingProbe(WideProbe):
    """A kind of work that wakes another worker once it has leased its first row."""

    def run(self) -> Iterator[int]:
        wakeups.wake_beside()
        return super().run()


def test_another_worker_is_woken_while_the_first_row_is_done(client: redis.Redis) -> None:
    waiting: list[int] = []

    deliver(LeasingProbe(lambda: waiting.append(client.llen("short"))))

    assert waiting == [1]
    assert client.exists(f"wake:{KIND}:1") == 1
    assert client.llen("short") == 1


def test_no_other_worker_is_woken_without_a_further_slot_or_a_worker(client: redis.Redis) -> None:
    class OnlySlot(LeasingProbe):
        slots = 1

    deliver(OnlySlot(lambda: None))
    LeasingProbe(lambda: None)()
    wakeups.wake_beside()

    assert client.llen("short") == 0


def test_many_wake_ups_that_meet_a_busy_slot_queue_one(client: redis.Redis) -> None:
    def meet() -> None:
        for number in range(5):
            wake(KIND)
            client.delete("short")
            deliver(Probe(lambda: None), message_id=f"met-{number}")

    deliver(Probe(meet))

    assert client.llen("short") == 1


def test_a_worker_that_crashes_releases_its_slot_and_wakes_another(client: redis.Redis) -> None:
    def crash() -> None:
        deliver(Probe(lambda: None), message_id="two")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliver(Probe(crash))

    assert not client.exists(BUSY)
    assert client.llen("short") == 1


def test_the_message_of_a_worker_that_was_killed_enters_its_own_slot(client: redis.Redis) -> None:
    client.set(BUSY, "one", ex=TASK_TIME_LIMIT_SECONDS)
    task = Probe(lambda: None)

    deliver(task, message_id="one")

    assert task.done == 1
    assert not client.exists(BUSY)


def test_a_worker_whose_lease_ended_leaves_the_next_ones_alone(client: redis.Redis) -> None:
    def overtake() -> None:
        client.set(BUSY, "next", ex=TASK_TIME_LIMIT_SECONDS)

    deliver(Probe(overtake))

    assert client.get(BUSY) == b"next"


def test_a_worker_whose_time_is_up_releases_its_slot_before_it_queues_itself(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "SLICE_SECONDS", 0)
    second = Probe()

    deliver(Probe(lambda: None, lambda: None))
    assert client.llen("short") == 1
    deliver(second, message_id="two")

    assert not client.exists(BUSY, AGAIN, KEY)


def test_work_is_done_when_valkey_takes_nothing(client: redis.Redis) -> None:
    task = Probe(lambda: None)
    client.config_set("maxmemory", 1)
    try:
        with capture_logs() as lines:
            deliver(task)
    finally:
        client.config_set("maxmemory", 0)

    assert task.done == 1
    assert [line["event"] for line in lines] == ["wakeup.lease_failed"]


def test_a_process_on_a_wrong_clock_leaves_its_wake_up_to_another_and_rests(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    wake(KIND)
    client.delete("short")  # The message is taken.
    task = Probe(lambda: None)

    with (
        time_machine.travel(datetime.now(tz=UTC) + timedelta(hours=1)),
        pytest.raises(ClockOffError),
    ):
        deliver(task)

    assert task.done == 0
    assert rests == [REST_SECONDS]
    assert client.llen("short") == 1
    ages = wake_ages(client, QUEUES)
    assert ages == {"celery": None, "metering": None, "short": None}
    assert worker_problem(ages).startswith("No worker has served celery, metering, short")

    client.delete("short")
    deliver(task)

    assert task.done == 1
    assert wake_ages(client, ("short",))["short"] in {0, 1}
