"""Caps in the way: what a namespace's ResourceQuota refuses although every limit admits it."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from quotas.domain.admission.values import Demand, PodQuestion
from quotas.domain.enforcement.resource_quota import OPEN_UNITS, keys_of
from quotas.models import EnforcementTarget, Reservation, ReservationState
from quotas.selectors.enforcement.namespaces import BELIEVED_FOR


@dataclass(frozen=True)
class CapShortage:
    """One resource of which a namespace's quota has too little left.

    Attributes:
        hard_units: What the quota says.
        used_units: What pods of the namespace hold or were admitted for.
        asked_units: What all pods together request.
    """

    resource: str
    hard_units: int
    used_units: int
    asked_units: int


def cap_shortages(question: PodQuestion, *, at: datetime) -> tuple[CapShortage, ...]:
    """Return what does not fit the quota of a namespace, in order of name; at most two statements.

    Args:
        question: Of all pods together that would be created.
        at: When, UTC: a quota that was not read lately is not considered.
    """
    target = EnforcementTarget.objects.filter(
        cluster=question.cluster_id,
        namespace=question.namespace,
        checked_at__gte=at - BELIEVED_FOR,
    ).first()
    if target is None:
        return ()
    hard = target.live_burst if question.is_burst else target.live_hard
    capped = {
        demand: min(units)
        for demand in question.demands
        if (units := [hard[key] for key in keys_of(demand.resource) if key in hard])
        and min(units) < OPEN_UNITS
    }
    used = _used(question) if capped else {}
    return tuple(
        CapShortage(demand.resource, units, used.get(demand.resource, 0), demand.units)
        for demand, units in sorted(capped.items(), key=_resource)
        if used.get(demand.resource, 0) + demand.units > units
    )


def _resource(capped: tuple[Demand, int]) -> str:
    return capped[0].resource


def _used(question: PodQuestion) -> dict[str, int]:
    """Return what is counted in a namespace, by resource: later than any reading of its quota."""
    rows = (
        Reservation.objects.filter(
            cluster=question.cluster_id,
            namespace=question.namespace,
            is_burst=question.is_burst,
        )
        .exclude(state=ReservationState.RELEASED)
        .order_by()
        .values_list("resource")
        .annotate(Sum("units"))
    )
    return dict(rows)
