"""The guard: no question waits longer than its time, and a ledger that is away costs little."""

import time
from collections.abc import Callable

import pytest
from django.db import DataError, Error, OperationalError, connection, connections

from quotas.webhook.guard import Breaker, Guard, LedgerAwayError, is_away, is_busy

SECOND = 1_000_000_000
NEVER = 3_600 * SECOND


class Clock:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_after_a_failure_nobody_tries_for_a_moment_and_then_one() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    breaker.enter()
    breaker.failed()

    with pytest.raises(LedgerAwayError):
        breaker.enter()
    clock.now = SECOND
    breaker.enter()
    with pytest.raises(LedgerAwayError):
        breaker.enter()
    breaker.succeeded()
    breaker.enter()


@pytest.mark.usefixtures("committed_db")
def test_a_question_over_its_time_is_cut_and_the_next_one_answered() -> None:
    guard = Guard(SECOND // 4, time.monotonic_ns)

    def sleep() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(30)")

    begin = time.monotonic()
    with pytest.raises(Error):
        guard.ask(sleep)
    took = time.monotonic() - begin
    with pytest.raises(LedgerAwayError):
        guard.ask(one)

    guard.stop()
    assert took < 2
    assert Guard(NEVER, time.monotonic_ns).ask(one) == 1


@pytest.mark.usefixtures("committed_db")
def test_a_connection_that_died_in_between_is_replaced_without_a_word() -> None:
    guard = Guard(NEVER, time.monotonic_ns)
    assert guard.ask(one) == 1
    pid = guard.ask(own_pid)
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    other.close()

    answered = guard.ask(one)

    guard.stop()
    assert answered == 1


@pytest.mark.usefixtures("committed_db")
def test_a_statement_that_took_too_long_is_no_reason_to_stop_asking() -> None:
    guard = Guard(NEVER, time.monotonic_ns)
    asked: list[int] = []

    def too_long() -> None:
        asked.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 1")
            cursor.execute("SELECT pg_sleep(1)")

    with pytest.raises(OperationalError) as refused:
        guard.ask(too_long)
    with connection.cursor() as cursor:
        cursor.execute("RESET statement_timeout")

    assert is_busy(refused.value)
    assert len(asked) == 2
    assert guard.ask(one) == 1
    guard.stop()


@pytest.mark.usefixtures("committed_db")
def test_a_question_the_ledger_cannot_count_keeps_nobody_else_waiting() -> None:
    guard = Guard(NEVER, time.monotonic_ns)
    asked: list[int] = []

    def too_large() -> None:
        asked.append(1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 2147483647::int * 8")

    assert guard.ask(one) == 1
    pid = guard.ask(own_pid)
    with pytest.raises(DataError) as refused:
        guard.ask(too_large)
    answered = guard.ask(own_pid)

    guard.stop()
    assert not is_away(refused.value)
    assert len(asked) == 1
    assert answered == pid


@pytest.mark.parametrize(
    ("state", "away"),
    [
        (None, True),
        ("08006", True),
        ("57P01", True),
        ("57014", False),
        ("22003", False),
        ("42883", False),
        ("53100", False),
    ],
)
def test_only_a_lost_connection_is_a_ledger_that_is_away(
    state: str | None,
    away: bool,  # noqa: FBT001 - A table.
) -> None:
    error = OperationalError("reported")
    error.__cause__ = Reported(state)

    assert is_away(error) is away
    assert is_away(LedgerAwayError("a moment ago"))
    assert not is_away(DataError("cannot be sent"))


class Reported(Exception):  # noqa: N818 - Stands for the driver's own.
    """What the driver raises: an error with the server's state, None where it reported none."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def own_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
        return int(pid)


def one() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        (found,) = cursor.fetchone()
        return int(found)


@pytest.mark.usefixtures("committed_db")
def test_a_cut_that_fails_leaves_the_others_their_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = Guard(SECOND // 5, time.monotonic_ns)
    failed: list[object] = []

    def fail(descriptor: int) -> int:
        failed.append(descriptor)
        raise OSError("too many open files")

    def sleep(seconds: float) -> Callable[[], object]:
        def call() -> object:
            with connection.cursor() as cursor:
                return cursor.execute("SELECT pg_sleep(%s)", [seconds])

        return call

    with monkeypatch.context() as patched:
        patched.setattr("quotas.webhook.guard.os.dup", fail)
        instance.ask(sleep(0.6))
    begin = time.monotonic()
    with pytest.raises(Error):
        instance.ask(sleep(30))

    instance.stop()
    assert failed
    assert time.monotonic() - begin < 5
