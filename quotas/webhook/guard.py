"""Guard: no query waits longer than the API server waits for the answer.

PostgreSQL's own timeouts do not fire when the server hangs. So a separate thread closes connections
that are over the deadline, and after a failed connection no new one is tried for a short time, so
that an unavailable database delays one request and not all.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import structlog
from django.db import DataError, Error, IntegrityError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import ConnStatus
from psycopg.pq.abc import PGconn

logger = structlog.get_logger(__name__)

Answer = TypeVar("Answer")
PAUSE_NANOSECONDS = 1_000_000_000
"""How long no connection is tried after one failed."""
LOOK_SECONDS = 0.05
"""How often the deadlines are checked: an answer may be late by that time."""
BUSY_STATES = frozenset({"55P03", "57014", "40P01", "40001"})
"""The database is available, but busy: lock, statement, deadlock, serialization."""
AWAY_CLASSES = ("08", "57P")
"""SQLSTATE prefixes of a lost connection, or of a server that stops or starts."""


class LedgerAwayError(OperationalError):
    """Raised without a query: the database was unavailable a moment ago."""


class TooLateError(OperationalError):
    """Raised without a query: the request waited for a thread until its deadline."""


class Breaker:
    """Circuit breaker: while the database is unavailable, one query at a time probes it.

    Args:
        clock: Returns nanoseconds that only grow.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        """Start closed."""
        self._clock = clock
        self._closed_until: int | None = None
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Let a question through.

        Raises:
            LedgerAwayError: The ledger was away less than a second ago.
        """
        if self._closed_until is None:
            return
        with self._lock:
            now = self._clock()
            # Since the look outside the lock another one may have found the ledger back.
            if now < (self._closed_until or 0):
                raise LedgerAwayError("The ledger was away a moment ago.")
            # This thread probes; others are refused until it has a result.
            self._closed_until = now + PAUSE_NANOSECONDS

    def failed(self) -> None:
        """Take note that the ledger is away."""
        with self._lock:
            self._closed_until = self._clock() + PAUSE_NANOSECONDS

    def succeeded(self) -> None:
        """Take note that the ledger answered."""
        self._closed_until = None


class Watchdog:
    """Closes database connections whose query is over its deadline.

    Args:
        clock: Returns nanoseconds that only grow.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        """Watch nothing; the thread begins with the first question, after any fork."""
        self._clock = clock
        self._deadlines: dict[object, tuple[int, BaseDatabaseWrapper]] = {}
        self._begun = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @contextmanager
    def within(self, nanoseconds: int, wrapper: BaseDatabaseWrapper) -> Iterator[None]:
        """Run a block; cut the connection when it takes longer."""
        self._begin()
        key = object()
        self._deadlines[key] = (self._clock() + nanoseconds, wrapper)
        try:
            yield
        finally:
            self._deadlines.pop(key, None)

    def stop(self) -> None:
        """End the thread; the next question begins another."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._stopped.clear()

    def _begin(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        with self._begun:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._look, name="admission-deadlines", daemon=True
                )
                self._thread.start()

    def _look(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            now = self._clock()
            for key, (deadline, wrapper) in list(self._deadlines.items()):
                if now >= deadline and self._deadlines.get(key) == (deadline, wrapper):
                    self._cut(wrapper)

    @staticmethod
    def _cut(wrapper: BaseDatabaseWrapper) -> None:
        """Close one connection; a failure does not affect the others."""
        connection = wrapper.connection
        if connection is None:
            return
        try:
            cut_socket(connection.pgconn)
        except Exception:
            logger.exception("admission.disconnect_failed")


def cut_socket(connection: PGconn) -> None:
    """Shut a connection's socket, so that the thread waiting on it fails at once."""
    if connection.status != ConnStatus.OK:
        return
    # Where there is no descriptor left this raises, and is tried again.
    copy = socket.socket(fileno=os.dup(connection.socket))
    try:
        copy.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It was closed in between, which is what is wanted.
        return
    finally:
        copy.close()


def own_connection() -> BaseDatabaseWrapper:
    """Return the connection of this thread."""
    return connections["default"]


class Guard:
    """Queries the database within a deadline, with one retry after a stale connection.

    Args:
        nanoseconds: The whole time of one question, without connecting.
        clock: Returns nanoseconds that only grow.
    """

    def __init__(self, nanoseconds: int, clock: Callable[[], int]) -> None:
        """Start closed."""
        self._nanoseconds = nanoseconds
        self._clock = clock
        self._breaker = Breaker(clock)
        self._watchdog = Watchdog(clock)

    def ask(self, question: Callable[[], Answer], *, begin: int | None = None) -> Answer:
        """Return the result of a query; it may run twice, so it must be idempotent.

        Args:
            question: Queries the database, on the connection of this thread.
            begin: When the request arrived, by the clock; None for now.

        Raises:
            django.db.Error: The database is unavailable or too slow, or the request waited too long
                before the query.
        """
        now = self._clock()
        begin = now if begin is None else begin
        if now >= begin + self._nanoseconds:
            raise TooLateError("Its time was over before it was asked.")
        self._breaker.enter()
        was_open = own_connection().connection is not None
        try:
            return self._once(question, begin)
        except Error as error:
            early = self._clock() - now < self._nanoseconds // 4
            may_help = is_busy(error) or (was_open and is_away(error))
            if not early or not may_help:
                self._note(error)
                raise
        try:
            return self._once(question, begin)
        except Error as error:
            self._note(error)
            raise

    def stop(self) -> None:
        """End what runs beside."""
        self._watchdog.stop()

    def _once(self, question: Callable[[], Answer], begin: int) -> Answer:
        wrapper = own_connection()
        left = max(0, begin + self._nanoseconds - self._clock())
        try:
            with self._watchdog.within(left, wrapper):
                answer = question()
        except Error as error:
            if is_away(error):
                wrapper.close()
            raise
        self._breaker.succeeded()
        return answer

    def _note(self, error: Error) -> None:
        """Pause new tries if the database is unavailable; any other error is an answer."""
        if is_away(error):
            self._breaker.failed()
        else:
            self._breaker.succeeded()


def is_busy(error: Error) -> bool:
    """Whether the database is available, but did not answer in time."""
    return _state_of(error) in BUSY_STATES


def is_away(error: Error) -> bool:
    """Whether the database did not answer: only then new tries pause."""
    state = _state_of(error)
    if not state:
        # An error before sending has no SQLSTATE either, and says nothing about the database.
        return not is_about_question(error)
    return state.startswith(AWAY_CLASSES)


def is_about_question(error: Error) -> bool:
    """Whether the query itself is the cause: a retry would fail too."""
    return isinstance(error, DataError | IntegrityError)


def _state_of(error: Error) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""
