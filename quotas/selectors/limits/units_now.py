"""Units now: units that pods hold or were admitted for, each pod counted once.

Where a cluster's admission is on (warn or enforce), its reservations count: they cover every
admitted pod and, as "found", every other open allocation. Where it is off, the open allocations
count. Each cluster has one source only, so that nothing is counted twice; in the minute after
admission is switched on, allocations that the first sweep has not found yet are missing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet, Sum

from metering.domain.catalogue.units import GPUSize
from metering.selectors.allocations.held import OwnerHolding, holding_pods, holdings_now
from quotas.domain.headroom.headroom import Headroom
from quotas.domain.limits.tally import Taken, UnitsNow, UseByLimit
from quotas.models import QuotaLimit, Reservation, ReservationState
from quotas.selectors.limits.in_force import LimitInForce, limits_in_force
from tenants.models.cluster import AdmissionMode

WITHOUT_ADMISSION: Final = (AdmissionMode.OFF.value,)
_COLUMNS: Final = (
    "organization_id",
    "project_id",
    "username",
    "size",
    "cluster_id",
    "model_groups",
    "is_burst",
    "state",
)


@dataclass(frozen=True)
class PodNow:
    """One pod that counts now, since when, and the kind of what controls it, such as "Job"."""

    use: UnitsNow
    begin_at: datetime
    kind: str


def units_now(
    *, at: datetime, organization_ids: Collection[UUID], burst_classes: Collection[str]
) -> tuple[UnitsNow, ...]:
    """Return the held and admitted units of organizations, in no order; two statements.

    Args:
        at: When, UTC: decides which bindings are in force, and which reservations have expired.
        organization_ids: The organizations.
        burst_classes: Priority classes of preemptible pods, for clusters without admission.
    """
    reserved = (
        _live(at=at)
        .filter(organization_id__in=list(organization_ids))
        .order_by()
        .values_list(*_COLUMNS)
        .annotate(total=Sum("units"))
    )
    held = holdings_now(at=at, organization_ids=organization_ids, admission_modes=WITHOUT_ADMISSION)
    return (
        *(_of_reservation(*row) for row in reserved),
        *(_of_holding(holding, burst_classes) for holding in held),
    )


def pods_now(
    *,
    at: datetime,
    organization_id: UUID,
    size: GPUSize,
    burst_classes: Collection[str],
) -> tuple[PodNow, ...]:
    """Return the pods of one organization that count in a size, in no order; two statements."""
    reserved = (
        _live(at=at)
        .filter(organization_id=organization_id, size=size.value)
        .order_by()
        .values_list(*_COLUMNS, "units", "held_at", "admitted_at", "controller")
    )
    held = holding_pods(
        at=at, organization_id=organization_id, size=size, admission_modes=WITHOUT_ADMISSION
    )
    return (
        *(PodNow(_of_reservation(*row[:9]), row[9] or row[10], _kind(row[11])) for row in reserved),
        *(
            PodNow(_of_holding(pod.holding, burst_classes), pod.begin_at, _kind(pod.controller))
            for pod in held
        ),
    )


def _live(*, at: datetime) -> QuerySet[Reservation]:
    is_reserved = Q(state=ReservationState.RESERVED) & (Q(expires_at=None) | Q(expires_at__gt=at))
    return Reservation.objects.filter(Q(state=ReservationState.HELD) | is_reserved).exclude(
        cluster__admission_mode__in=WITHOUT_ADMISSION
    )


def _of_reservation(  # noqa: PLR0913, PLR0917 - A row's columns, in their order.
    organization_id: UUID,
    project_id: UUID,
    username: str,
    size: str,
    cluster_id: UUID,
    model_groups: list[str],
    is_burst: bool,  # noqa: FBT001 - As above.
    state: str,
    units: int,
) -> UnitsNow:
    return UnitsNow(
        organization_id=organization_id,
        project_id=project_id,
        username=username,
        size=GPUSize(size),
        cluster_id=cluster_id,
        units=units,
        model_groups=tuple(model_groups),
        is_burst=is_burst,
        is_held=state == ReservationState.HELD,
    )


def _of_holding(holding: OwnerHolding, burst_classes: Collection[str]) -> UnitsNow:
    return UnitsNow(
        organization_id=holding.organization_id,
        project_id=holding.project_id,
        username=holding.owner,
        size=holding.size,
        cluster_id=holding.cluster_id,
        units=holding.units,
        model_groups=(holding.model_group,) if holding.model_group else (),
        is_burst=holding.priority_class in burst_classes,
    )


def _kind(controller: str) -> str:
    return controller.partition("/")[0]


@dataclass(frozen=True)
class LimitUse:
    """One limit as it binds now, and what counts against it."""

    in_force: LimitInForce
    headroom: Headroom


def limit_use(
    limits: Sequence[QuotaLimit], *, at: datetime, burst_classes: Collection[str]
) -> Mapping[UUID, LimitUse]:
    """Return what binds and what is taken, by limit id; three statements.

    Args:
        limits: Which ones.
        at: When, UTC.
        burst_classes: Priority classes of preemptible pods.
    """
    if not limits:
        return {}
    organization_ids = {limit.organization_id for limit in limits}
    tally = UseByLimit(
        units_now(at=at, organization_ids=organization_ids, burst_classes=burst_classes)
    )
    wanted = {limit.pk for limit in limits}
    return {
        one.limit_id: LimitUse(one, headroom_of(one, tally.taken(one.key)))
        for one in limits_in_force(at=at, organization_ids=organization_ids)
        if one.limit_id in wanted
    }


def headroom_of(limit: LimitInForce | None, taken: Taken) -> Headroom:
    """Return what is left of a limit; without one nothing binds."""
    return Headroom(
        limit_units=None if limit is None else limit.nominal_units,
        used_units=taken.held_units,
        reserved_units=taken.reserved_units,
        burst_limit_units=0 if limit is None else limit.burst_units,
        burst_used_units=taken.burst_units,
    )
