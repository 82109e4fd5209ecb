"""Coverage of a watch: which seconds it observed.

The watch was healthy within its spans. A gap between two spans lost nothing when the second was
resumed from a stored resourceVersion, because the server sent every event since then; a gap that
ended with a new list is blind, because objects created and deleted in it left no trace.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from metering.domain.collection.windows import seconds_between

HEARTBEAT_SECONDS: Final = 10
"""How often a healthy watch writes a heartbeat."""
HEALTHY_FOR: Final = timedelta(seconds=3 * HEARTBEAT_SECONDS)
"""After so long without a heartbeat the watch no longer counts as healthy."""


class WatchInterval(Protocol):
    """A time in which the watch was healthy; see models.WatchSpan."""

    @property
    def begin_at(self) -> datetime:
        """Return the first heartbeat."""
        ...

    @property
    def until_at(self) -> datetime:
        """Return the last heartbeat."""
        ...

    @property
    def is_resumed(self) -> bool:
        """Return whether nothing was lost between the span before and this one."""
        ...


class Stretch(NamedTuple):
    """Some time, the end excluded."""

    begin_at: datetime
    end_at: datetime


def blind_stretches(
    spans: Sequence[WatchInterval], *, begin_at: datetime, end_at: datetime
) -> tuple[Stretch, ...]:
    """Return the parts of [begin_at, end_at) the watch did not observe, oldest first.

    Args:
        spans: Oldest first, with the last one before and the first one after, so that a gap at
            either edge can be distinguished from a resumed one.
        begin_at: Start of the range, included.
        end_at: Its end, excluded.
    """
    blind = []
    seen_until = begin_at
    for position, span in enumerate(spans):
        is_joined = span.is_resumed and position > 0
        if not is_joined and span.begin_at > seen_until:
            blind.append(Stretch(seen_until, min(span.begin_at, end_at)))
        seen_until = max(seen_until, span.until_at)
        if seen_until >= end_at:
            return tuple(stretch for stretch in blind if stretch.begin_at < stretch.end_at)
    blind.append(Stretch(seen_until, end_at))
    return tuple(stretch for stretch in blind if stretch.begin_at < stretch.end_at)


def covered_seconds(spans: Sequence[WatchInterval], *, begin_at: datetime, end_at: datetime) -> int:
    """Return how many seconds of [begin_at, end_at) the watch observed, rounded down."""
    unseen = sum(
        (
            stretch.end_at - stretch.begin_at
            for stretch in blind_stretches(spans, begin_at=begin_at, end_at=end_at)
        ),
        timedelta(0),
    )
    return max(0, seconds_between(begin_at + unseen, end_at))
