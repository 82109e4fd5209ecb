"""Two sources' accounts in tests: times in seconds from `HOUR`, and both made one."""

from datetime import UTC, datetime, timedelta

from metering.domain.allocations.timeline import EndKind, Life, OpenInterval
from metering.domain.collection.reconciliation import (
    Accepted,
    ObservedIntervals,
    Reconciled,
    SourceAccount,
    SourceVerdict,
    WindowShare,
    reconcile,
    share_of,
)

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
TOLERANCE = 60
SHORT = 60
LAST_LOOK = 4500
"""Both sources have looked until here, in seconds from the hour's start."""


def at(seconds: int) -> datetime:
    """Return the time so many seconds after the hour began."""
    return HOUR + timedelta(seconds=seconds)


def span(begin: int, end: int | None) -> OpenInterval:
    """Return a span."""
    return OpenInterval(at(begin), None if end is None else at(end))


OPEN_EYES = (span(-600, LAST_LOOK),)


def reported(
    begin: int,
    end: int | None,
    kind: EndKind | None = None,
    *,
    slack: int = 0,
    units: int = 1,
    known_until: int = LAST_LOOK,
) -> SourceAccount:
    """Return what a source shows: an exact end unless set otherwise, or an open one."""
    how = kind or (EndKind.OPEN if end is None else EndKind.EXACT)
    life = Life(at(begin), None if end is None else at(end), how, slack)
    return SourceAccount(life=life, units=units, known_until_at=at(known_until))


def compare(
    kubernetes: SourceAccount | None,
    prometheus: SourceAccount | None,
    *,
    watch: tuple[OpenInterval, ...] = OPEN_EYES,
    scrapes: tuple[OpenInterval, ...] = OPEN_EYES,
    accepted: Accepted | None = None,
) -> Reconciled:
    """Return both accounts made one, with eyes open all the time unless set otherwise."""
    return reconcile(
        kubernetes=kubernetes,
        prometheus=prometheus,
        eyes=ObservedIntervals(kubernetes=watch, prometheus=scrapes),
        tolerance=TOLERANCE,
        short_seconds=SHORT,
        accepted=accepted,
    )


def share(found: Reconciled, start: int = 0, end: int = 3600) -> WindowShare:
    """Return the part inside a window."""
    return share_of(found, start_at=at(start), end_at=at(end))


def billed(found: Reconciled) -> tuple[SourceVerdict, int, int]:
    """Return verdict, billed seconds and held seconds within the hour."""
    part = share(found)
    return part.verdict, part.interval.seconds if part.interval else 0, part.held_seconds
