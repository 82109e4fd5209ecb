"""Reconciliation: merging what two independent sources report about one pod's resource.

The Kubernetes API gives exact times, but observes nothing while the watch is down; Prometheus can
be queried again, but observes only at its scrapes. Where both agree within a tolerance, the API's
seconds are billed. Where they do not, only what both report is billed and the rest is held for
review. Lives are compared whole and clipped to a window afterwards, so that consecutive windows add
up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from metering.domain.allocations.timeline import (
    EndKind,
    Interval,
    Life,
    OpenInterval,
    clip,
    gap_between,
    overlap_seconds,
    seconds_between,
)


class SourceAccount(msgspec.Struct, frozen=True):
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


TOLERANCE_SCRAPES: Final = 2
TOLERANCE_WINDOW_PARTS: Final = 200
"""One two-hundredth of a window is 0.5 %."""


class Side(StrEnum):
    """The source of the evidence."""

    KUBERNETES = "kubernetes"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True)
class Accepted:
    """The evidence a person accepted: what one source reported then, even if it changes later.

    Attributes:
        life: None when the source reported that the pod did not exist.
        units: What was held; 0 when it did not exist.
    """

    side: Side
    life: Life | None
    units: int


class SourceVerdict(StrEnum):
    """How two sources compare about one pod's one resource in one window."""

    AGREED = "agreed"
    KUBERNETES_EXPLAINED = "kubernetes_only_explained"
    KUBERNETES_ONLY = "kubernetes_only"
    RECOVERED = "recovered"
    PROMETHEUS_ONLY = "prometheus_only"
    DIFFERS = "differs"
    REQUEST_DIFFERS = "request_differs"
    ACCEPTED = "accepted"


class Reconciled(msgspec.Struct, frozen=True):
    """Two merged accounts, over all time.

    Attributes:
        units: What is held; the API's value where it has one.
        billed: What is billed; None for nothing.
        disputed: What one source reports and the other contradicts; held, not billed.
        fallback: What the API alone would bill; shows whether Prometheus changed anything.
        is_request_different: Whether the two report different requests.
    """

    verdict: SourceVerdict
    units: int
    billed: Life | None
    disputed: tuple[OpenInterval, ...] = ()
    fallback: Life | None = None
    is_request_different: bool = False


class WindowShare(msgspec.Struct, frozen=True):
    """The part of a reconciled life inside one window."""

    verdict: SourceVerdict
    units: int
    interval: Interval | None
    held_seconds: int
    is_request_different: bool = False


def tolerance_seconds(*, window_seconds: int, scrape_interval_seconds: int) -> int:
    """Return by how much two sources may differ about one pod and still agree."""
    return max(
        TOLERANCE_SCRAPES * scrape_interval_seconds, window_seconds // TOLERANCE_WINDOW_PARTS
    )


def reconcile(
    *,
    kubernetes: SourceAccount | None,
    prometheus: SourceAccount | None,
    eyes: ObservedIntervals,
    tolerance: int,
    short_seconds: int,
    accepted: Accepted | None = None,
) -> Reconciled:
    """Return what is billed of a pod's resource, what is held, and why.

    Args:
        kubernetes: What the API's ledger contains; None when it has no record.
        prometheus: What the scrapes show; None when they never showed it.
        eyes: When either source would have observed it.
        tolerance: Seconds by which they may differ; see `tolerance_seconds`.
        short_seconds: A life visible for less than this may be missed by a source.
        accepted: The evidence a person accepted; then only that is billed.

    Raises:
        ValueError: Neither source reports it, and no decision exists.
    """
    if accepted is not None:
        return Reconciled(SourceVerdict.ACCEPTED, accepted.units, billed=accepted.life)
    if kubernetes is None and prometheus is None:
        raise ValueError("there is nothing to reconcile")
    if kubernetes is None:
        assert prometheus is not None  # noqa: S101 - Excluded above; narrows the type.
        return _prometheus_only(prometheus, eyes=eyes, short_seconds=short_seconds)
    if prometheus is None:
        return _kubernetes_only(kubernetes, eyes=eyes, short_seconds=short_seconds)
    return _compare(kubernetes, prometheus, tolerance=tolerance)


def share_of(found: Reconciled, *, start_at: datetime, end_at: datetime) -> WindowShare:
    """Return the part inside [start_at, end_at).

    What is not disputed there is agreed there, whatever another window holds.
    """
    interval = (
        None if found.billed is None else clip(found.billed, start_at=start_at, end_at=end_at)
    )
    held = 0
    for span in found.disputed:
        held += overlap_seconds(span, begin_at=start_at, end_at=end_at)
    return WindowShare(
        verdict=_verdict_inside(
            found, interval=interval, held=held, start_at=start_at, end_at=end_at
        ),
        units=found.units,
        interval=interval,
        held_seconds=held,
        is_request_different=found.is_request_different,
    )


def _kubernetes_only(
    account: SourceAccount, *, eyes: ObservedIntervals, short_seconds: int
) -> Reconciled:
    life = _until_missed(account, spans=eyes.prometheus, short_seconds=short_seconds)
    verdict = SourceVerdict.KUBERNETES_ONLY
    if visible_seconds(account, spans=eyes.prometheus) < short_seconds:
        is_known = life == account.life
        verdict = SourceVerdict.KUBERNETES_EXPLAINED if is_known else SourceVerdict.RECOVERED
    return Reconciled(verdict, account.units, billed=life, fallback=account.life)


def _until_missed(
    account: SourceAccount, *, spans: Sequence[OpenInterval], short_seconds: int
) -> Life:
    """Return a life cut at the API's last observation, if no later scrape shows it.

    Without this a pod that ended while the watch was down would be billed until the watch is back.
    """
    lost_at = account.end_not_before.replace(microsecond=0)
    after = [max(span.begin_at, lost_at) for span in spans if (span.end_at or lost_at) > lost_at]
    seen = sum(
        seconds_between(max(span.begin_at, lost_at), span.end_at or lost_at) for span in spans
    )
    if account.life.end_at is not None or seen < short_seconds:
        return account.life
    return replace(
        account.life,
        end_at=lost_at,
        end_kind=EndKind.VANISHED_IN_GAP,
        slack_seconds=seconds_between(lost_at, after[0]),
    )


def _prometheus_only(
    account: SourceAccount, *, eyes: ObservedIntervals, short_seconds: int
) -> Reconciled:
    visible = visible_seconds(account, spans=eyes.kubernetes)
    end_at = account.life.end_at or account.end_not_before
    was_blind = visible < seconds_between(account.life.begin_at, end_at) or not eyes.kubernetes
    if was_blind and visible < short_seconds:
        return Reconciled(SourceVerdict.RECOVERED, account.units, billed=account.life)
    return Reconciled(
        SourceVerdict.PROMETHEUS_ONLY, account.units, billed=None, disputed=(account.span,)
    )


def _compare(kubernetes: SourceAccount, prometheus: SourceAccount, *, tolerance: int) -> Reconciled:
    is_different = kubernetes.units != prometheus.units
    agreed = SourceVerdict.REQUEST_DIFFERS if is_different else SourceVerdict.AGREED
    if _distance_seconds(kubernetes, prometheus) > tolerance:
        billed, disputed = _intersection(kubernetes.life, prometheus.life)
        return Reconciled(
            SourceVerdict.DIFFERS,
            kubernetes.units,
            billed=billed,
            disputed=disputed,
            fallback=kubernetes.life,
            is_request_different=is_different,
        )
    life = _refined(kubernetes, prometheus)
    return Reconciled(
        agreed if is_different or life == kubernetes.life else SourceVerdict.RECOVERED,
        kubernetes.units,
        billed=life,
        fallback=kubernetes.life,
        is_request_different=is_different,
    )


def _distance_seconds(one: SourceAccount, other: SourceAccount) -> int:
    """Return how far two accounts are apart at least, begin and end added up."""
    begin = abs(one.life.begin_at - other.life.begin_at) // timedelta(seconds=1)
    return begin + max(_seconds_after(one, other), _seconds_after(other, one))


def _seconds_after(later: SourceAccount, earlier: SourceAccount) -> int:
    """Return by how much one must have ended after the other; 0 when it need not have."""
    latest = earlier.end_not_after
    return 0 if latest is None else seconds_between(latest, later.end_not_before)


def _refined(kubernetes: SourceAccount, prometheus: SourceAccount) -> Life:
    """Return the API's life, its end narrowed by Prometheus' samples."""
    if _width(kubernetes) <= _width(prometheus):
        narrow, wide = kubernetes, prometheus
    else:
        narrow, wide = prometheus, kubernetes
    life = replace(narrow.life, begin_at=kubernetes.life.begin_at)
    low = max(narrow.end_not_before, wide.end_not_before)
    high = _earlier(narrow.end_not_after, wide.end_not_after)
    if life.end_at is None or high is None or high < low or narrow.life.slack_seconds == 0:
        return life
    end_at = low if life.end_kind is EndKind.VANISHED_IN_GAP else min(max(life.end_at, low), high)
    slack = max(seconds_between(end_at, high), seconds_between(low, end_at))
    return replace(life, end_at=end_at, slack_seconds=slack)


def _width(account: SourceAccount) -> timedelta:
    latest = account.end_not_after
    return timedelta.max if latest is None else latest - account.end_not_before


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return min(one, other)


def _intersection(one: Life, other: Life) -> tuple[Life | None, tuple[OpenInterval, ...]]:
    """Return what two lives share, and what only one of them has."""
    first, second = sorted((one, other), key=lambda life: life.begin_at)
    short, long = sorted((one, other), key=lambda life: (life.end_at is None, life.end_at or 0))
    begin_at = second.begin_at
    if short.end_at is not None and short.end_at <= begin_at:
        return None, (
            OpenInterval(one.begin_at, one.end_at),
            OpenInterval(other.begin_at, other.end_at),
        )
    shared = replace(short, begin_at=begin_at)
    disputed = [OpenInterval(first.begin_at, begin_at)] if first.begin_at < begin_at else []
    if short.end_at is not None and short.end_at != long.end_at:
        disputed.append(OpenInterval(short.end_at, long.end_at))
    return shared, tuple(disputed)


def _verdict_inside(
    found: Reconciled,
    *,
    interval: Interval | None,
    held: int,
    start_at: datetime,
    end_at: datetime,
) -> SourceVerdict:
    if found.verdict is SourceVerdict.DIFFERS and held == 0:
        return SourceVerdict.REQUEST_DIFFERS if found.is_request_different else SourceVerdict.AGREED
    if found.verdict is SourceVerdict.RECOVERED and found.fallback is not None:
        alone = clip(found.fallback, start_at=start_at, end_at=end_at)
        return SourceVerdict.AGREED if alone == interval else SourceVerdict.RECOVERED
    return found.verdict
