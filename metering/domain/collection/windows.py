"""Windows: one UTC hour of one cluster, when each is due, and which state may follow which.

The policy has the limits metering works within; entry points fill it from the settings.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

WINDOW: Final = timedelta(hours=1)
HOURS_TOGETHER_MAX: Final = 6
"""Twelve would cost Prometheus a tenth less, and take twice the memory and the time of a lease."""
SCRAPES_AFTER_END: Final = 4
"""Scrapes that must lie between a window's end and its query, so that presence after it is
observed."""


def window_containing(moment: datetime) -> datetime:
    """Return the start of the hour a moment lies in.

    Raises:
        ValueError: The moment has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a window needs a time with a zone")
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def end_of(start_at: datetime) -> datetime:
    """Return the end of a window, which no longer belongs to it."""
    return start_at + WINDOW


def whole_hours(begin_at: datetime, *, until: datetime) -> tuple[datetime, ...]:
    """Return the start of every UTC hour that [begin_at, until) touches, oldest first.

    Raises:
        ValueError: A time has no zone.
    """
    if until.tzinfo is None:
        raise ValueError("a window needs a time with a zone")
    first = window_containing(begin_at)
    count = max(0, -((first - until) // WINDOW))
    return tuple(first + number * WINDOW for number in range(count))


def due_at(start_at: datetime, *, lateness_seconds: int, scrape_interval_seconds: int) -> datetime:
    """Return when a window may first be collected."""
    wait = max(lateness_seconds, SCRAPES_AFTER_END * scrape_interval_seconds)
    return end_of(start_at) + timedelta(seconds=wait)


class WindowState(StrEnum):
    """How far an hour's metering has come. `gap` and `quarantined` wait for a person."""

    OPEN = "open"
    COLLECTING = "collecting"
    COLLECTED = "collected"
    RECONCILED = "reconciled"
    SEALED = "sealed"
    GAP = "gap"
    QUARANTINED = "quarantined"


class DeviceState(StrEnum):
    """How far an hour's device figures have come, apart from its bill; the last two are final."""

    DUE = "due"
    COLLECTING = "collecting"
    SEALED = "sealed"
    UNAVAILABLE = "unavailable"


MOVES: Final[Mapping[WindowState, frozenset[WindowState]]] = {
    # A person may waive or re-meter an hour that is over its patience, in any state before.
    WindowState.OPEN: frozenset({WindowState.COLLECTING, WindowState.RECONCILED}),
    # Back to collecting is another worker taking over after the lease; back to open, a failure.
    WindowState.COLLECTING: frozenset(
        {
            WindowState.COLLECTING,
            WindowState.COLLECTED,
            WindowState.RECONCILED,
            WindowState.OPEN,
            WindowState.GAP,
            WindowState.QUARANTINED,
        }
    ),
    WindowState.COLLECTED: frozenset({WindowState.RECONCILED, WindowState.OPEN}),
    WindowState.RECONCILED: frozenset({WindowState.SEALED, WindowState.OPEN}),
    # A person accepts (open again) or waives (reconciled without usage).
    WindowState.GAP: frozenset({WindowState.OPEN, WindowState.RECONCILED}),
    WindowState.QUARANTINED: frozenset({WindowState.OPEN, WindowState.RECONCILED}),
    WindowState.SEALED: frozenset(),
}


def may_move(before: WindowState, *, after: WindowState) -> bool:
    """Whether a window in one state may come into another."""
    return after in MOVES[before]


def states_before(after: WindowState) -> tuple[WindowState, ...]:
    """Return the states from which a window may come into another, in the order of the enum."""
    return tuple(state for state in WindowState if after in MOVES[state])


BACKOFF_SECONDS_MIN: Final = 15


BACKOFF_SECONDS_MAX: Final = 900


BACKOFF_DOUBLINGS_MAX: Final = 6


JITTER_PERCENT: Final = 25


LOOK_AHEAD_DOUBLINGS_MAX: Final = 5


class GapPolicy(StrEnum):
    """What happens to an hour that was not observed well enough.

    `accept` bills what was observed, `waive` bills nothing, `last_known` bills what was held until
    half a scrape after its last sample, and on if it was observed again, and `hold` keeps the whole
    hour off the bill in exceptions.
    """

    ACCEPT = "accept"
    WAIVE = "waive"
    LAST_KNOWN = "last_known"
    HOLD = "hold"


@dataclass(frozen=True)
class MeteringPolicy:
    """Delays, retries and thresholds of metering.

    Attributes:
        lateness_seconds: How long after its end a window is first collected.
        hole_seconds_max: Longest hole in the observation of a window with which it is sealed
            without a decision.
        lease_seconds: How long a worker's lease lasts, by the database's clock.
        attempts_max: Expired leases before a window is quarantined.
        coverage_attempts_max: Incomplete responses before a window becomes a gap.
        gap_patience_seconds: Age from which an incomplete window becomes a gap at once, because
            late samples no longer come.
        gap_policy: The automatic decision about a gap; None needs a person's review.
        recheck_seconds: How long after its end a sealed window is rechecked, ascending.
        recheck_retention_seconds: Age from which a window is not rechecked, whatever the retention
            of the sources.
        device_patience_seconds: Time after the seal of a window from which missing device figures
            are marked unavailable.
        hours_together_max: Hours of a cluster's backlog that one worker observes together; 1 for
            each alone.
        pods_undivided_max: Records of a former hour above which a window is metered in parts.
        part_pods: Pods that a part should have.
        posts_late_usage: Whether later usage is posted by itself; otherwise it needs a person's
            approval.
    """

    lateness_seconds: int = 900
    hole_seconds_max: int = 180
    lease_seconds: int = 300
    attempts_max: int = 8
    coverage_attempts_max: int = 6
    gap_patience_seconds: int = 86_400
    gap_policy: GapPolicy | None = None
    recheck_seconds: tuple[int, ...] = (3_600, 21_600, 86_400)
    recheck_retention_seconds: int = 365 * 86_400
    device_patience_seconds: int = 14 * 86_400
    hours_together_max: int = HOURS_TOGETHER_MAX
    pods_undivided_max: int = 8_000
    part_pods: int = 6_000
    posts_late_usage: bool = True


DEFAULT_POLICY: Final = MeteringPolicy()


def backoff_seconds(*, failures: int, seed: str) -> int:
    """Return how long to wait after a failed attempt: doubling, bounded, spread by the seed.

    Args:
        failures: Failed attempts in a row, at least 1.
        seed: What spreads the retries of several windows; the same seed waits the same time.
    """
    base = BACKOFF_SECONDS_MIN << min(failures - 1, BACKOFF_DOUBLINGS_MAX)
    bounded = min(base, BACKOFF_SECONDS_MAX)
    digest = hashlib.sha256(f"{seed}/{failures}".encode()).digest()
    spread = int.from_bytes(digest[:4], "big") % (JITTER_PERCENT + 1)
    return bounded + bounded * spread // 100


def query_time(
    policy: MeteringPolicy,
    *,
    start_at: datetime,
    at: datetime,
    scrape_interval_seconds: int,
    failures: int,
) -> datetime:
    """Return the evaluation time of a query: soon after the window, later after each failure.

    A later query time may include a sample that shows whether a pod outlived an outage.

    Raises:
        ValueError: The window is not due yet.
    """
    due = due_at(
        start_at,
        lateness_seconds=policy.lateness_seconds,
        scrape_interval_seconds=scrape_interval_seconds,
    )
    if at < due:
        raise ValueError(
            f"the window of {start_at.isoformat()} is not due before {due.isoformat()}"
        )
    ahead = (due - end_of(start_at)) * (1 << min(failures, LOOK_AHEAD_DOUBLINGS_MAX))
    return min(at, end_of(start_at) + ahead)


def is_query_final(
    policy: MeteringPolicy, *, start_at: datetime, as_of: datetime, scrape_interval_seconds: int
) -> bool:
    """Whether an hour was queried as far ahead as it ever is."""
    last = query_time(
        policy,
        start_at=start_at,
        at=datetime.max.replace(tzinfo=UTC),
        scrape_interval_seconds=scrape_interval_seconds,
        failures=LOOK_AHEAD_DOUBLINGS_MAX,
    )
    return as_of >= last


def is_gap(policy: MeteringPolicy, *, start_at: datetime, at: datetime, failures: int) -> bool:
    """Whether an incomplete window now waits for a person instead of another attempt."""
    age = at - end_of(start_at)
    is_old = age >= timedelta(seconds=policy.gap_patience_seconds)
    return is_old or failures >= policy.coverage_attempts_max
