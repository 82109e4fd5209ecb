"""Forecasts: projects that will use up their limit, and projects that never use theirs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteThresholds
from metering.selectors.collection.usage import daily_peaks, peak_units
from quotas.domain.headroom.headroom import HISTORY_DAYS, Exhaustion, expect_exhaustion
from quotas.models import LimitScope, QuotaLimit
from quotas.selectors.limits.in_force import LimitInForce, limits_in_force, with_units_in_force


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
        assert limit.project_id is not None  # noqa: S101 - A project's limit; narrows the type.
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


PERCENTILE: Final = 95


@dataclass(frozen=True)
class HoardedQuota:
    """A project's limit, and the units it used in all but its busiest hours.

    Attributes:
        limit_units: In force: what it lent away is not kept from anybody.
    """

    organization: str
    project: str
    project_id: UUID
    size: GPUSize
    limit_units: int
    peak_units: int

    @property
    def spare_units(self) -> int:
        """Return what others could have used."""
        return self.limit_units - self.peak_units


def hoarded_quotas(
    limits: QuerySet[QuotaLimit], *, at: datetime, thresholds: WasteThresholds
) -> tuple[HoardedQuota, ...]:
    """Return the projects' limits of which more than a share is never used; two statements.

    Only limits for every model and cluster are checked: the usage ledger has peaks per size. A
    limit that was changed within the period is left out. Most spare units first.

    Args:
        limits: The limits an actor sees; those of projects count.
        at: End of the period.
        thresholds: How long that is, and which share is too much.
    """
    hours = thresholds.hoarding_hours
    before = at.replace(minute=0, second=0, microsecond=0)
    peaks = peak_units(before=before, hours=hours, percent=PERCENTILE)
    limits_now: QuerySet[Any] = with_units_in_force(
        limits.filter(
            scope=LimitScope.PROJECT,
            model_group="",
            cluster=None,
            limit_units__gte=1,
            changed_at__lte=at - timedelta(hours=hours),
        ),
        at=at,
    )
    rows = limits_now.values_list(
        "organization__slug", "project__slug", "project_id", "size", "limit_units", "granted"
    )
    found = [
        HoardedQuota(
            organization=organization,
            project=project,
            project_id=project_id,
            size=GPUSize(size),
            limit_units=max(0, units + granted),
            peak_units=peaks.get((project_id, GPUSize(size)), 0),
        )
        for organization, project, project_id, size, units, granted in rows
    ]
    hoarded = [one for one in found if _is_hoarded(one, ratio=thresholds.hoarding_ratio)]
    return tuple(
        sorted(hoarded, key=lambda one: (-one.spare_units, one.organization, one.project, one.size))
    )


def _is_hoarded(quota: HoardedQuota, *, ratio: Decimal) -> bool:
    return quota.spare_units > ratio * quota.limit_units
