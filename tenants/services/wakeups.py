"""Wake-ups: messages which say that a kind of work may be due, at most one a worker slot.

PostgreSQL says what is due; a message carries no row. Its publisher deduplicates it, so that it
needs no expiry: however slow the workers are, as many messages wait as there are kinds of work,
and each of them makes a worker do what it can in its time. A worker leases the slot for as long as
it works, so that no kind occupies more workers than it has slots. See ADR 0030.
"""

import atexit
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from threading import Lock, Thread
from typing import Any, ClassVar, Final
from uuid import uuid4

import structlog
from celery import Task, current_app, current_task
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError
from kombu.messaging import Producer
from redis import Redis
from redis.exceptions import RedisError

from tenants.domain.refusals import ClockOffError
from tenants.services.clock import require_clock

SLICE_SECONDS: Final = 10
"""A worker begins no further row after this; it queues itself again behind the other kinds."""
KEY_SECONDS: Final = 60
"""A wake-up that was lost with its key set, such as by a power cut of Valkey, is late by this."""
INSPECTED_MAX: Final = 1_000
"""Far more than there are kinds of work; beyond are only messages that are not ours."""
REST_SECONDS: Final = 30
"""For so long a process whose clock is far off takes no other wake-up: others are there for it."""
CLOSING_SECONDS_MAX: Final = 2
"""A broker that answers takes a wake-up within milliseconds; no ending process waits longer."""

log = structlog.get_logger(__name__)

# Each script is one step in Valkey: nothing happens between what it reads and what it writes.
_ENTER: Final = """
redis.call('SET', KEYS[3], redis.call('TIME')[1])
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  redis.call('SET', KEYS[2], 1, 'EX', ARGV[2])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('DEL', KEYS[2])
return 1
"""
_LEAVE: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
return redis.call('DEL', KEYS[2])
"""


class WakeUp(Task):  # type: ignore[misc] # Celery has no types.
    """A kind of work. Its function does what is due, and yields after each row it has done.

    A function that yields nothing is one bounded sweep. `slots` says how many workers may be at it
    at once; all but the first are woken only while a worker is free.
    """

    abstract = True
    typing = False  # The message's only argument is its slot, which functions do not take.
    slots: ClassVar[int] = 1

    def __call__(self, slot: int = 0) -> None:
        """Do what is due until nothing is left or the time is up; called directly, do all of it.

        The key goes before the tables are read: what becomes due from then on is published anew. A
        wake-up that meets a worker in its slot is dropped, or goes on to the next slot while a
        worker is free; the worker in the slot queues another when it ends.

        Raises:
            ClockOffError: The clock of this process is far off the database's.
        """
        if self.request.called_directly or self.request.is_eager:
            require_clock(timezone.now)  # noqa: TID251 - Here every task is entered.
            self._do_due(slot=None)
            return
        _clear(self.name, slot=slot)
        self._require_clock(slot=slot)
        # A message that comes again, because its worker died, has the same id.
        owner = self.request.id or str(uuid4())
        if not _enter(self.name, slot=slot, owner=owner):
            # The worker in the slot may have been killed: no other would be woken for minutes.
            self.wake_next(slot=slot)
            return
        is_left = False
        try:
            is_left = self._do_due(slot=slot)
        finally:
            is_awaited = _leave(self.name, slot=slot, owner=owner)
            if is_left or is_awaited:
                wake(self.name, slot=slot)

    def _require_clock(self, *, slot: int) -> None:
        """Leave a wake-up to another process, and rest, while the clock of this one is far off.

        A process that works on nothing is always free, and would take most of all wake-ups.
        """
        try:
            require_clock(timezone.now)  # noqa: TID251 - Here every message is entered.
        except ClockOffError:
            wake(self.name, slot=slot)
            time.sleep(REST_SECONDS)
            raise

    def _do_due(self, *, slot: int | None) -> bool:
        """Do row after row; return whether the time was up before the last.

        Args:
            slot: Of which message; None for all that is due, however long it takes.
        """
        until = time.monotonic() + SLICE_SECONDS
        with _rows(self.run()) as rows:
            for number, _ in enumerate(rows):
                if slot is None:
                    continue
                if number == 0:
                    self.wake_next(slot=slot)
                if time.monotonic() >= until:
                    return True
        return False

    def wake_next(self, *, slot: int) -> None:
        """Wake a worker for the slot after this one, if there is one."""
        if slot + 1 < self.slots:
            wake(self.name, slot=slot + 1)

    def apply_async(
        self,
        args: Iterable[int] | None = None,
        kwargs: object = None,  # noqa: ARG002 - Celery's signature.
        task_id: str | None = None,  # noqa: ARG002 - As above.
        producer: Producer | None = None,
        **_: Any,  # noqa: ANN401 - As above.
    ) -> None:
        """Publish, deduplicated; beat and all other senders of tasks use this."""
        wake(self.name, slot=next(iter(args or ()), 0), producer=producer)


@contextmanager
def _rows(done: Iterator[object] | None) -> Iterator[Iterable[object]]:
    if done is None:
        yield ()
        return
    with closing(done) as rows:  # type: ignore[type-var] # Functions that yield make generators.
        yield rows


def wake(kind: str, *, slot: int = 0, producer: Producer | None = None) -> bool:
    """Queue a wake-up unless one is queued for that slot; return whether it was queued.

    A key deduplicates for a minute; after that the queue itself is checked, so that an old wake-up
    is not doubled. An unreachable broker is logged and no error: the tables keep the work.

    Args:
        kind: Name of the task.
        slot: Which worker slot; all but the first are only queued while nothing waits.
        producer: The connection to use; None for one of the process's pool.
    """
    key = _key(kind, slot)
    try:
        with current_app.producer_or_acquire(producer) as publisher:
            client = publisher.channel.client
            queue = queue_of(kind)
            if slot and client.llen(queue):
                return False
            if not client.set(key, 1, nx=True, ex=KEY_SECONDS) or _waits(client, queue, key=key):
                return False
            current_app.send_task(
                kind,
                args=[slot],
                task_id=f"{key}:{uuid4()}",
                producer=publisher,
                retry=False,
                ignore_result=True,
            )
    except (OperationalError, RedisError) as error:
        log.warning("wakeup.publish_failed", kind=kind, reason=type(error).__name__)
        return False
    return True


def wake_beside() -> None:
    """Wake a worker for the slot after that of the running task; nothing outside of a worker.

    A function that leases rows calls it with the first one: other workers then begin while that
    row is done, not after it.
    """
    task = current_task._get_current_object()  # noqa: SLF001 - As Celery resolves its proxies.
    if isinstance(task, WakeUp) and not (task.request.called_directly or task.request.is_eager):
        task.wake_next(slot=next(iter(task.request.args or ()), 0))


def queue_of(kind: str) -> str:
    """Return the name of the queue in which wake-ups of a kind wait."""
    return str(current_app.amqp.router.route({}, kind)["queue"].name)


def wake_ages(client: Redis, queues: Iterable[str]) -> dict[str, int | None]:
    """Return how many seconds ago a worker last took a wake-up, by queue; None where none did."""
    now, _ = client.time()
    taken = {queue: client.get(_taken_key(queue)) for queue in queues}
    return {queue: None if at is None else max(0, now - int(at)) for queue, at in taken.items()}


def _clear(kind: str, *, slot: int) -> None:
    """Clear the key of a wake-up: from now on another may be queued."""
    try:
        with current_app.producer_or_acquire() as publisher:
            publisher.channel.client.delete(_key(kind, slot))
    except (OperationalError, RedisError) as error:
        log.warning("wakeup.clear_failed", kind=kind, reason=type(error).__name__)


def _enter(kind: str, *, slot: int, owner: str) -> bool:
    """Lease a slot, and note that its queue is served; return whether it was free.

    Where another worker has it, that worker is to queue one more wake-up when it ends. A lease ends
    with Celery's time limit, when no task is at it any more. Without Valkey the slot counts as
    free: no further message comes, and rows are leased in PostgreSQL.
    """
    keys = (_busy_key(kind, slot), _again_key(kind, slot), _taken_key(queue_of(kind)))
    seconds = int(current_app.conf.task_time_limit)
    try:
        with current_app.producer_or_acquire() as publisher:
            client = publisher.channel.client
            return bool(client.eval(_ENTER, len(keys), *keys, owner, seconds))
    except (OperationalError, RedisError) as error:
        log.warning("wakeup.lease_failed", kind=kind, reason=type(error).__name__)
        return True


def keep_slot(kind: str, *, slot: int = 0, producer: Producer | None = None) -> None:
    """Lease a slot for longer, for a row that takes more time than most tasks may.

    Args:
        kind: Name of the task, which has the slot.
        slot: Which worker slot.
        producer: The connection to use; None for one of the process's pool.
    """
    try:
        with current_app.producer_or_acquire(producer) as publisher:
            client = publisher.channel.client
            client.expire(_busy_key(kind, slot), int(current_app.conf.task_time_limit))
    except (OperationalError, RedisError) as error:
        log.warning("wakeup.renew_failed", kind=kind, reason=type(error).__name__)


def _leave(kind: str, *, slot: int, owner: str) -> bool:
    """Release a slot unless another worker has it now; return whether a wake-up met this one."""
    keys = (_busy_key(kind, slot), _again_key(kind, slot))
    try:
        with current_app.producer_or_acquire() as publisher:
            return bool(publisher.channel.client.eval(_LEAVE, len(keys), *keys, owner))
    except (OperationalError, RedisError) as error:
        log.warning("wakeup.release_failed", kind=kind, reason=type(error).__name__)
        return False


def _waits(client: Redis, queue: str, *, key: str) -> bool:
    """Whether a wake-up with that key is in the queue; its own id begins with the key."""
    return any(
        _id_of(message).startswith(f"{key}:")
        for message in client.lrange(queue, 0, INSPECTED_MAX - 1)
    )


def _id_of(message: bytes | str) -> str:
    """Return the id of a queued task, which also names those that published it; "" for others."""
    try:
        return str(json.loads(message)["properties"]["correlation_id"])
    except (ValueError, KeyError, TypeError):
        return ""


def _key(kind: str, slot: int) -> str:
    return f"wake:{kind}:{slot}"


def _busy_key(kind: str, slot: int) -> str:
    return f"busy:{kind}:{slot}"


def _again_key(kind: str, slot: int) -> str:
    return f"again:{kind}:{slot}"


def _taken_key(queue: str) -> str:
    return f"taken:{queue}"


def wake_after_commit(kind: str) -> None:
    """Queue a wake-up soon after the transaction commits, and nothing when it rolls back."""
    transaction.on_commit(lambda: PUBLISHER.publish(kind))


class BackgroundPublisher:
    """Publishes in a thread: a request does not wait for an unreachable broker.

    A client of the broker takes seconds to give up. One wake-up is enough for each kind. The thread
    ends when nothing waits, and with `close`; what is not published by then is left to beat.
    """

    def __init__(self) -> None:
        """Nothing waits."""
        self.reset()

    def reset(self) -> None:
        """Start empty: in a forked process no thread runs, and no lock is ever released."""
        self._lock = Lock()
        self._waiting: dict[str, None] = {}
        self._thread: Thread | None = None
        self._is_open = True
        self._is_logged = False

    def publish(self, kind: str) -> None:
        """Have a wake-up published soon; after `close` it is left to beat."""
        with self._lock:
            if not self._is_open:
                return
            self._waiting[kind] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._publish_all, name="wake-ups", daemon=True)
                self._thread.start()

    @property
    def is_publishing(self) -> bool:
        """Whether its thread is at work."""
        return self._thread is not None

    def wait(self) -> None:
        """Wait until every wake-up so far was published or dropped."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self, *, seconds_max: int = CLOSING_SECONDS_MAX) -> None:
        """Publish no more, end the thread, and log how many were left; twice is nothing.

        Args:
            seconds_max: How long the one that is being published is waited for.
        """
        with self._lock:
            if self._is_logged:
                return
            self._is_open = False
            left = len(self._waiting)
            self._waiting.clear()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=seconds_max)
        with self._lock:
            is_stuck = self._thread is not None
            self._is_logged = True
        if left or is_stuck:
            log.warning("wakeup.unsent", wakeups=left + is_stuck)

    def _publish_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                kind = next(iter(self._waiting))
                del self._waiting[kind]
            try:
                wake(kind)
            except Exception:
                # A mistake with one kind must not leave the others in a thread that has ended.
                log.exception("wakeup.crashed", kind=kind)


PUBLISHER: Final = BackgroundPublisher()
# Handlers of this kind run while threads and logs are still there.
atexit.register(PUBLISHER.close)
os.register_at_fork(after_in_child=PUBLISHER.reset)
