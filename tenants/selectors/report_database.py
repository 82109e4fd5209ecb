"""The database of reports and exports: a replica where one keeps up, else the primary.

Entry points choose it once an answer, and say as of when the answer is. Permission is decided on
the primary, and whatever writes or decides reads the primary. See docs/adr/0109-*.md.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections

AS_OF_HEADER: Final = "Data-As-Of"
"""Of answers that are files."""
REPLICA: Final = "replica"
"""Its alias among Django's databases; there is none by default."""
PAUSE_SECONDS: Final = 15
"""For so long a process does not try a replica that did not answer: each attempt may take 3 s."""

Item = TypeVar("Item")
log = structlog.get_logger(__name__)

_PRIMARY: Final = "SELECT clock_timestamp(), pg_current_wal_insert_lsn()::text"
# All that was committed up to the time of the last transaction that was replayed is there. Where
# the replica has replayed as much as the primary had written, that is of the primary's moment.
_REPLICA: Final = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN NULL
            WHEN pg_last_wal_replay_lsn() >= %s::pg_lsn THEN %s::timestamptz
            ELSE pg_last_xact_replay_timestamp() END
"""


@dataclass(frozen=True)
class ReportDatabase:
    """The database of one answer.

    Attributes:
        alias: Among Django's databases.
        as_of: All that was committed until then is in the answer.
    """

    alias: str
    as_of: datetime

    @classmethod
    def primary(cls, *, at: datetime) -> Self:
        """Return the one that everything else reads and writes."""
        return cls(DEFAULT_DB_ALIAS, at)

    @property
    def is_replica(self) -> bool:
        """Whether it may be behind the primary."""
        return self.alias == REPLICA

    @property
    def stated_as_of(self) -> datetime | None:
        """What an answer in JSON states, so that it is the same as long as its figures are.

        None of the primary, which has all until the moment of the answer. Of a replica the whole
        minute until which it has all.
        """
        return self.as_of.replace(second=0, microsecond=0) if self.is_replica else None

    @property
    def headers(self) -> dict[str, str]:
        """Return the header of a file that is read from it."""
        return {AS_OF_HEADER: self.as_of.astimezone(UTC).isoformat(timespec="milliseconds")}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Send all statements of this thread to it until the end of the block, which may nest."""
        before = connections[DEFAULT_DB_ALIAS]
        connections[DEFAULT_DB_ALIAS] = connections[self.alias] if self.is_replica else before
        try:
            yield
        finally:
            connections[DEFAULT_DB_ALIAS] = before

    def stream(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield what is read from it while it is made, and nothing else: not what is done between.

        Its transaction may last from the first item to the last.
        """
        iterator = iter(items)
        try:
            while True:
                with self.reading():
                    try:
                        item = next(iterator)
                    except StopIteration:
                        return
                yield item
        finally:
            if close := getattr(iterator, "close", None):
                with self.reading():
                    close()


@dataclass(frozen=True)
class ReplicaState:
    """What a replica answered.

    Attributes:
        now: By the primary's clock.
        as_of: All that was committed until then is there.
    """

    now: datetime
    as_of: datetime

    @property
    def lag(self) -> timedelta:
        """How far it is behind."""
        return max(self.now - self.as_of, timedelta(0))


class ReplicaAwayError(Exception):
    """Raised when a replica cannot be read; the text says why."""


class _Pause:
    """Until when, by the process's monotonic clock, a replica that did not answer is not tried."""

    until = 0.0


def report_database(*, at: datetime) -> ReportDatabase:
    """Return the replica where there is one that keeps up, else the primary.

    Within a transaction it is the primary, whose own rows are to be read.

    Args:
        at: The present moment, of which an answer of the primary is.
    """
    primary = ReportDatabase.primary(at=at)
    if REPLICA not in connections or connection.in_atomic_block:
        return primary
    if time.monotonic() < _Pause.until:
        return primary
    try:
        state = replica_state()
    except ReplicaAwayError as error:
        _Pause.until = time.monotonic() + PAUSE_SECONDS
        log.warning("reports.replica.away", reason=str(error))
        return primary
    if state.lag.total_seconds() > settings.REPLICA_LAG_SECONDS_MAX:
        log.warning("reports.replica.behind", lag_seconds=int(state.lag.total_seconds()))
        return primary
    return ReportDatabase(REPLICA, state.as_of)


def has_replica() -> bool:
    """Whether a replica is set."""
    return REPLICA in connections


def replica_state() -> ReplicaState:
    """Return how far the replica has come.

    Raises:
        ReplicaAwayError: It does not answer, has replayed nothing yet, or is a primary itself.
    """
    now, position = _row(DEFAULT_DB_ALIAS, _PRIMARY, [])
    try:
        (as_of,) = _row(REPLICA, _REPLICA, [position, now])
    except Error as error:
        connections[REPLICA].close()
        raise ReplicaAwayError(f"It does not answer ({type(error).__name__}).") from error
    if as_of is None:
        raise ReplicaAwayError("It is no replica, or has replayed no transaction yet.")
    return ReplicaState(now, as_of)


def _row(alias: str, statement: str, values: Sequence[str | datetime]) -> tuple[Any, ...]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, values)
        row: tuple[Any, ...] = cursor.fetchone()
        return row
