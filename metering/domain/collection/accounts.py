"""Accounts: what one source reports of one pod's resource, how surely, and its coverage."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from metering.domain.allocations.timeline import EndKind, Life, gap_between
from metering.domain.collection.windows import seconds_between


@dataclass(frozen=True)
class OpenInterval:
    """[begin_at, end_at); `end_at` None means without an end."""

    begin_at: datetime
    end_at: datetime | None


@dataclass(frozen=True)
class SourceAccount:
    """What one source reports.

    Attributes:
        units: The effective request.
        known_until_at: The last moment at which the source observed it; bounds only an open life.
    """

    life: Life
    units: int
    known_until_at: datetime

    @property
    def end_not_before(self) -> datetime:
        """Return the earliest moment at which it may have ended."""
        life = self.life
        if life.end_at is None:
            return max(life.begin_at, self.known_until_at)
        if life.end_kind is EndKind.VANISHED:
            return max(life.begin_at, life.end_at - timedelta(seconds=life.slack_seconds))
        return life.end_at

    @property
    def end_not_after(self) -> datetime | None:
        """Return the latest moment at which it may have ended; None while unknown."""
        life = self.life
        return None if life.end_at is None else life.end_at + timedelta(seconds=life.slack_seconds)

    @property
    def span(self) -> OpenInterval:
        """Return the time this source alone would have billed."""
        return OpenInterval(self.life.begin_at, self.life.end_at)


@dataclass(frozen=True)
class ObservedIntervals:
    """When each source would have observed a pod: spans in order, none of which meet."""

    kubernetes: Sequence[OpenInterval] = ()
    prometheus: Sequence[OpenInterval] = ()


def visible_seconds(account: SourceAccount, *, spans: Sequence[OpenInterval]) -> int:
    """Return how many seconds of a life a source covered."""
    end_at = account.life.end_at or account.end_not_before
    return sum(
        overlap_seconds(span, begin_at=account.life.begin_at, end_at=end_at) for span in spans
    )


def intervals_of_ticks(
    ticks: Sequence[datetime], *, scrape_interval_seconds: int
) -> tuple[OpenInterval, ...]:
    """Return the spans between scrapes that have no gap between them, in order."""
    gap = gap_between(scrape_interval_seconds)
    holes = [(before, after) for before, after in pairwise(ticks) if after - before > gap]
    begins = [*ticks[:1], *(after for _, after in holes)]
    ends = [*(before for before, _ in holes), *ticks[-1:]]
    return tuple(OpenInterval(begin, end) for begin, end in zip(begins, ends, strict=True))


def overlap_seconds(span: OpenInterval, *, begin_at: datetime, end_at: datetime) -> int:
    """Return how many seconds of [begin_at, end_at) lie in a span."""
    until = end_at if span.end_at is None else min(span.end_at, end_at)
    return seconds_between(max(span.begin_at, begin_at), until)
