"""Start times: forecasts of free units from known grants and usual pod lifetimes."""

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from metering.selectors.allocations.held import pod_lives
from quotas.domain.headroom.start import (
    ExpectedEnd,
    LimitCourse,
    LimitHeadroom,
    first_fit,
    remaining_seconds,
)
from quotas.selectors.limits.in_force import GrantTerm, LimitInForce, grant_terms
from quotas.selectors.limits.units_now import PodNow

HORIZON: Final = timedelta(days=30)
MEDIAN_PERCENT: Final = 50
SURE_PERCENT: Final = 90

Bound = Sequence[tuple[LimitInForce, LimitHeadroom]]
"""The limits that bind in one cluster, with what each leaves."""


@dataclass(frozen=True)
class StartTime:
    """When it would fit, if no other workload starts before.

    Attributes:
        median_at: Median; None when no known event frees enough units.
        sure_at: 90th percentile; None when that is beyond 30 days.
        basis: "known_changes" when only grants and the month's end decide, "usual_lifetimes" when
            the expected ends of running pods do.
        pods_without_estimate: Running pods of a kind that ended too rarely for an estimate.
    """

    median_at: datetime | None
    sure_at: datetime | None
    basis: str
    pods_without_estimate: int


def start_time(
    places: Sequence[Bound],
    pods: Sequence[PodNow],
    *,
    units: int,
    is_burst: bool,
    at: datetime,
    next_month: datetime,
) -> StartTime | None:
    """Return the earliest estimate over all clusters; None when there is none; two statements.

    Args:
        places: One per possible cluster.
        pods: Pods of the same kind of units: nominal or burst.
        units: Requested units.
        is_burst: Grants change nominal limits only.
        at: Now, UTC.
        next_month: When allowances begin anew.
    """
    limit_ids = {limit.limit_id for bound in places for limit, _ in bound}
    terms = () if is_burst else grant_terms(limit_ids, at=at)
    lives = pod_lives({pod.use.project_id for pod in pods}, at=at)
    courses = [
        [_course(limit, headroom, terms, at=at) for limit, headroom in bound] for bound in places
    ]

    def earliest(percent: int | None) -> datetime | None:
        found = [
            _not_before(
                first_fit(
                    course,
                    [] if percent is None else _ends(bound, pods, lives, percent=percent, at=at),
                    units=units,
                    at=at,
                    until=at + HORIZON,
                ),
                next_month if any(headroom.is_allowance_used for _, headroom in bound) else None,
            )
            for bound, course in zip(places, courses, strict=True)
        ]
        return min((one for one in found if one is not None), default=None)

    median = earliest(MEDIAN_PERCENT)
    if median is None:
        return None
    return StartTime(
        median_at=median,
        sure_at=earliest(SURE_PERCENT),
        basis="known_changes" if earliest(None) == median else "usual_lifetimes",
        pods_without_estimate=sum(
            _remaining(pod, lives, percent=MEDIAN_PERCENT, at=at) is None for pod in pods
        ),
    )


def _not_before(found: datetime | None, earliest: datetime | None) -> datetime | None:
    return found if found is None or earliest is None else max(found, earliest)


def _course(
    limit: LimitInForce, headroom: LimitHeadroom, terms: Iterable[GrantTerm], *, at: datetime
) -> LimitCourse:
    own = [term for term in terms if term.limit_id == limit.limit_id]
    begins = [(term.begin_at, term.units) for term in own if term.begin_at > at]
    ends = [(term.end_at, -term.units) for term in own if term.end_at is not None]
    return LimitCourse(headroom.headroom_units, tuple(sorted([*begins, *ends])))


def _ends(
    bound: Bound,
    pods: Iterable[PodNow],
    lives: Mapping[tuple[UUID, str], Sequence[int]],
    *,
    percent: int,
    at: datetime,
) -> list[ExpectedEnd]:
    found = []
    for pod in pods:
        seconds = _remaining(pod, lives, percent=percent, at=at)
        if seconds is not None:
            counted = frozenset(
                place for place, (limit, _) in enumerate(bound) if limit.key.counts(pod.use)
            )
            found.append(ExpectedEnd(at + timedelta(seconds=seconds), pod.use.units, counted))
    return found


def _remaining(
    pod: PodNow, lives: Mapping[tuple[UUID, str], Sequence[int]], *, percent: int, at: datetime
) -> int | None:
    """Return what is left by pods of its kind in its project, else by all pods of its project."""
    age = max(0, int((at - pod.begin_at).total_seconds()))
    alike = lives.get((pod.use.project_id, pod.kind), ())
    found = remaining_seconds(age_seconds=age, lives=alike, percent=percent)
    if found is not None:
        return found
    return remaining_seconds(
        age_seconds=age, lives=_of_project(pod.use.project_id, lives), percent=percent
    )


def _of_project(project_id: UUID, lives: Mapping[tuple[UUID, str], Collection[int]]) -> list[int]:
    every: list[int] = []
    for (owner, _), seconds in lives.items():
        if owner == project_id:
            for one in seconds:
                insort(every, one)
    return every
