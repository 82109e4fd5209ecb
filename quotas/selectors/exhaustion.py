"""Exhaustion: when the trend of each project's daily peaks reaches its limit in force."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from metering.selectors.use_peaks import daily_peaks
from quotas.domain.exhaustion import HISTORY_DAYS, Exhaustion, expect_exhaustion
from quotas.models import LimitScope, QuotaLimit
from quotas.selectors.in_force import LimitInForce, limits_in_force


@dataclass(frozen=True)
class LimitForecast:
    """One limit in force, and when it is exhausted."""

    limit: LimitInForce
    exhaustion: Exhaustion


def forecasts_of(rows: Sequence[QuotaLimit], *, at: datetime) -> tuple[LimitForecast, ...]:
    """Return the forecasts of some limits, in their order, without those that have none.

    Two statements, whatever their number.
    """
    in_force = {
        limit.limit_id: limit
        for limit in limits_in_force(at=at, organization_ids={row.organization_id for row in rows})
    }
    asked = [in_force[row.pk] for row in rows if row.pk in in_force]
    found = expected_exhaustions(asked, at=at)
    return tuple(
        LimitForecast(limit, found[limit.limit_id]) for limit in asked if limit.limit_id in found
    )


def is_forecast(limit: LimitInForce) -> bool:
    """Whether a limit has a forecast: a project's number for every model and cluster.

    The usage ledger is read by project and size, so narrower limits have no history of their own.
    """
    return (
        limit.scope is LimitScope.PROJECT
        and limit.nominal_units is not None
        and not limit.model_group
        and limit.cluster_id is None
    )


def expected_exhaustions(limits: Iterable[LimitInForce], *, at: datetime) -> dict[UUID, Exhaustion]:
    """Return the forecast of each limit that has one, by limit; one statement.

    History is the 28 UTC days before today, from a project's first use among them on.
    """
    asked = [limit for limit in limits if is_forecast(limit)]
    today = at.date()
    begin = today - timedelta(days=HISTORY_DAYS)
    ids = {limit.project_id for limit in asked if limit.project_id is not None}
    peaks = daily_peaks(sorted(ids, key=str), begin=begin, end=today)
    first_uses = _first_uses(peaks)
    found = {}
    for limit in asked:
        assert limit.project_id is not None  # noqa: S101 - A project's limit; tells the type.
        assert limit.nominal_units is not None  # noqa: S101 - As above.
        days = _days(first_uses.get(limit.project_id), today)
        by_day = peaks.get((limit.project_id, limit.size), {})
        found[limit.limit_id] = expect_exhaustion(
            [by_day.get(day, 0) for day in days], limit_units=limit.nominal_units, today=today
        )
    return found


def _first_uses(peaks: Mapping[tuple[UUID, GPUSize], Mapping[date, int]]) -> dict[UUID, date]:
    firsts: dict[UUID, date] = {}
    for (project_id, _), by_day in peaks.items():
        first = min(by_day)
        firsts[project_id] = min(first, firsts.get(project_id, first))
    return firsts


def _days(first: date | None, today: date) -> Sequence[date]:
    if first is None:
        return ()
    return [first + timedelta(days=number) for number in range((today - first).days)]
