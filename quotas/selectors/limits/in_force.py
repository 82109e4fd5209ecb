"""Limits in force: what each comes to at a time, with grants, suspensions and used allowances."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.tally import TallyKey
from quotas.models import LimitScope, QuotaCounter, QuotaGrant, QuotaLimit, QuotaSuspension


@dataclass(frozen=True)
class LimitInForce:
    """One limit as it binds at a time.

    Attributes:
        model_group: "" for every model.
        cluster_id: None for every cluster.
        nominal_units: Its units and the grants of that time; None is unlimited.
        burst_units: What preemptible pods may hold beyond.
        is_suspended: The holder, or one above it, may start nothing: what is held stays held.
    """

    limit_id: UUID
    scope: LimitScope
    organization_id: UUID
    project_id: UUID | None
    user_id: int | None
    username: str | None
    size: GPUSize
    model_group: str
    cluster_id: UUID | None
    nominal_units: int | None
    burst_units: int
    overcommit_percent: int
    monthly_unit_hours: int | None
    is_suspended: bool

    @property
    def key(self) -> TallyKey:
        """What it counts."""
        return TallyKey(
            self.organization_id,
            self.project_id,
            self.username,
            self.size,
            self.model_group,
            self.cluster_id,
        )


def limits_in_force(
    *,
    at: datetime,
    organization_ids: Iterable[UUID] | None = None,
    size: GPUSize | None = None,
) -> tuple[LimitInForce, ...]:
    """Return every limit as it binds at a time, organizations first, by primary key; one statement.

    Args:
        at: When, UTC: decides which grants and suspensions count.
        organization_ids: Only these organizations; None for all.
        size: Only this size; None for all.
    """
    rows = with_units_in_force(QuotaLimit.objects.select_related("user"), at=at)
    if organization_ids is not None:
        rows = rows.filter(organization_id__in=list(organization_ids))
    if size is not None:
        rows = rows.filter(size=size.value)
    return tuple(_in_force(row) for row in rows.order_by("scope", "pk"))


def with_units_in_force(rows: QuerySet[QuotaLimit], *, at: datetime) -> QuerySet[QuotaLimit]:
    """Return limits with what their grants add at a time, and whether they are suspended then.

    As `granted`, which is signed, and `suspended`.
    """
    suspended = QuotaSuspension.objects.filter(
        Q(project=None) | Q(project=OuterRef("project_id")),
        Q(end_at=None) | Q(end_at__gt=at),
        organization=OuterRef("organization_id"),
        begin_at__lte=at,
    )
    return rows.annotate(
        granted=Coalesce(Sum("grants__units", filter=Q(grants__valid__contains=at)), 0),
        suspended=Exists(suspended),
    )


def _in_force(row: QuotaLimit) -> LimitInForce:
    granted: int = row.granted  # type: ignore[attr-defined] # Annotated above.
    return LimitInForce(
        limit_id=row.pk,
        scope=LimitScope(row.scope),
        organization_id=row.organization_id,
        project_id=row.project_id,
        user_id=row.user_id,
        username=None if row.user is None else row.user.username,
        size=GPUSize(row.size),
        model_group=row.model_group,
        cluster_id=row.cluster_id,
        nominal_units=None if row.limit_units is None else max(0, row.limit_units + granted),
        burst_units=row.burst_units,
        overcommit_percent=row.overcommit_percent,
        monthly_unit_hours=row.monthly_unit_hours,
        is_suspended=row.suspended,  # type: ignore[attr-defined] # Annotated above.
    )


@dataclass(frozen=True)
class GrantTerm:
    """One grant on top of a limit.

    Attributes:
        units: Below zero is lent away.
        end_at: UTC; None is until it is ended.
        reason: "request", "loan" or "manual".
    """

    limit_id: UUID
    units: int
    begin_at: datetime
    end_at: datetime | None
    reason: str

    def is_in_force(self, at: datetime) -> bool:
        """Whether it counts at a time."""
        return self.begin_at <= at and (self.end_at is None or at < self.end_at)


def grant_terms(limit_ids: Collection[UUID], *, at: datetime) -> tuple[GrantTerm, ...]:
    """Return the grants of some limits that count at a time or later; one statement.

    Sorted by end; those without an end last.
    """
    # Sorted below: the order of the table would join each limit and its organization.
    rows = (
        QuotaGrant.objects.order_by()
        .filter(
            Q(valid__endswith=None) | Q(valid__endswith__gt=at),
            valid__isempty=False,
            limit_id__in=list(limit_ids),
        )
        .values_list("limit_id", "units", "valid", "reason")
    )
    terms = [
        GrantTerm(limit_id, units, valid.lower, valid.upper, reason)
        for limit_id, units, valid, reason in rows
    ]
    return tuple(sorted(terms, key=_by_end))


def _by_end(term: GrantTerm) -> tuple[bool, datetime, int]:
    return (term.end_at is None, term.end_at or term.begin_at, term.units)


SECONDS_PER_HOUR: Final = 3600


def used_up_limit_ids(limits: Iterable[LimitInForce], *, at: datetime) -> frozenset[UUID]:
    """Return those of some limits that let nothing more in this month; one statement at most.

    Args:
        limits: Which ones; those without an allowance are never used up.
        at: When, UTC: decides the month.
    """
    hours = {
        limit.limit_id: limit.monthly_unit_hours
        for limit in limits
        if limit.monthly_unit_hours is not None
    }
    if not hours:
        return frozenset()
    rows = QuotaCounter.objects.filter(limit_id__in=list(hours), month=at.date().replace(day=1))
    return frozenset(
        limit_id
        for limit_id, unit_seconds in rows.values_list("limit_id", "month_unit_seconds")
        if unit_seconds >= hours[limit_id] * SECONDS_PER_HOUR
    )
