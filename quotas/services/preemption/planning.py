"""Preemption plans: choose and store the victims; nothing changes in any cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import (
    PreemptionInputError,
    PreemptionNotNeededError,
    PreemptionRunningError,
)
from quotas.domain.preemption.choice import Choice, Victim, choose_victims
from quotas.domain.preemption.overage import Overage, OverageKind, PodUnits, UnitsSelector
from quotas.domain.preemption.states import PlanState
from quotas.models import (
    PreemptionAction,
    PreemptionPlan,
    PreemptionReason,
    PreemptionStep,
)
from quotas.selectors.preemption import picture_of
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem
from tenants.models import Organization
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record

PLAN: Final = "quotas:preemption:plan"
VALID_FOR: Final = timedelta(hours=1)
"""How long a plan may be executed: what it was made from does not stay true for longer."""
YIELD_UNITS_MAX: Final = 1_000_000


@dataclass(frozen=True)
class YieldDemand:
    """How many units of burst must go though their limit allows them.

    Attributes:
        cluster_id: None for wherever they are.
    """

    size: GPUSize
    units: int
    cluster_id: UUID | None = None


@transaction.atomic
def plan_preemption(
    *,
    organization: Organization,
    yields: Sequence[YieldDemand] = (),
    actor: Actor,
    at: datetime,
) -> PreemptionPlan:
    """Store the victims by which an organization fits its limits, or yields burst; a dry run.

    Replaces an older plan that was not executed.

    Args:
        organization: Organization of the workloads.
        yields: Burst units to release besides those over a limit; may be empty.
        actor: The account that plans.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not plan for the organization.
        PreemptionInputError: A number of units that is not valid; every problem is reported.
        PreemptionNotNeededError: Nothing is over, and nothing must yield.
        PreemptionRunningError: A plan of the organization is running.
    """
    require_capability(actor, PLAN, organization_id=organization.pk)
    _refuse_yields(yields)
    lock_rows(Organization.objects.filter(pk=organization.pk))
    if PreemptionPlan.objects.filter(
        organization=organization, state=PlanState.RUNNING.value
    ).exists():
        raise PreemptionRunningError("A plan of this organization is running.")
    picture = picture_of(organization_id=organization.pk, at=at)
    overages = [*picture.overages, *_yielding(organization, yields)]
    if not overages:
        raise PreemptionNotNeededError(f"{organization.name} holds no more than it may.")
    choice = choose_victims(overages, picture.candidates)
    _give_way(organization, at=at)
    plan = PreemptionPlan.objects.create(
        organization=organization,
        reason=PreemptionReason.BURST_YIELD if yields else PreemptionReason.OVER_LIMIT,
        overage=[overage_to_json(one) for one in overages],
        remainders=_remainders_of(choice),
        planned_by=actor.label,
        created_at=at,
        expires_at=at + VALID_FOR,
    )
    _save_steps(plan, choice.victims)
    _record(plan, choice, actor=actor, at=at)
    return plan


def overage_to_json(overage: Overage) -> dict[str, Any]:
    """Return an overage as it is stored and answered."""
    selector = {**asdict(overage.selector), "size": overage.selector.size.value}
    return {
        "kind": overage.kind.value,
        "limit": overage.limit_id,
        "holder": overage.holder,
        "units": overage.units,
        "sentence": overage.sentence,
        **selector,
    }


def overage_from_json(stored: Mapping[str, Any]) -> Overage:
    """Return a stored overage."""
    selector = UnitsSelector(
        size=GPUSize(stored["size"]),
        project=stored["project"],
        username=stored["username"],
        model_group=stored["model_group"],
        cluster=stored["cluster"],
    )
    return Overage(
        kind=OverageKind(stored["kind"]),
        limit_id=stored["limit"],
        holder=stored["holder"],
        selector=selector,
        units=stored["units"],
    )


def _refuse_yields(yields: Sequence[YieldDemand]) -> None:
    problems = tuple(
        FieldProblem(
            f"yields.{place}.units",
            "out_of_range",
            f"Say a whole number from 1 to {YIELD_UNITS_MAX}.",
        )
        for place, one in enumerate(yields)
        if not 1 <= one.units <= YIELD_UNITS_MAX
    )
    if problems:
        raise PreemptionInputError("That much cannot be yielded.", problems=problems)


def _yielding(organization: Organization, yields: Iterable[YieldDemand]) -> Iterable[Overage]:
    for one in yields:
        cluster = "" if one.cluster_id is None else str(one.cluster_id)
        yield Overage(
            kind=OverageKind.YIELD,
            limit_id="",
            holder=f"organization {organization.slug}",
            selector=UnitsSelector(one.size, cluster=cluster),
            units=one.units,
        )


def _give_way(organization: Organization, *, at: datetime) -> None:
    PreemptionPlan.objects.filter(organization=organization, state=PlanState.PLANNED.value).update(
        state=PlanState.EXPIRED.value, end_at=at, message="A newer plan was made."
    )


def _remainders_of(choice: Choice) -> list[dict[str, Any]]:
    return [
        {"units": one.units, "sentence": one.overage.sentence, "why": one.why}
        for one in choice.remainders
    ]


def _save_steps(plan: PreemptionPlan, victims: Iterable[Victim]) -> None:
    PreemptionAction.objects.bulk_create(
        PreemptionAction(
            plan=plan,
            victim=place,
            cluster_id=UUID(pod.cluster),
            namespace=pod.namespace,
            pod_name=pod.pod_name,
            pod_uid=pod.pod_uid,
            controller=pod.controller,
            project_id=UUID(pod.project),
            username=pod.username,
            priority=pod.priority,
            is_burst=any(one.is_burst for one in pod.holdings),
            units=_units_by_size(pod.holdings),
            started_at=pod.began_at,
            reason=victim.why,
            step=_step_of(pod.controller),
        )
        for place, victim in enumerate(victims)
        for pod in victim.pods
    )


def _step_of(controller: str) -> PreemptionStep:
    is_job = controller.startswith("Job/")
    return PreemptionStep.SUSPEND if is_job else PreemptionStep.EVICT


def _units_by_size(holdings: Iterable[PodUnits]) -> dict[str, int]:
    units: dict[str, int] = {}
    for one in holdings:
        units[one.size.value] = units.get(one.size.value, 0) + one.units
    return units


def _record(plan: PreemptionPlan, choice: Choice, *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action="quotas:preemption:plan",
        object_kind="preemption_plan",
        object_id=plan.pk,
        organization_id=plan.organization_id,
        facts={
            "reason": str(plan.reason),
            "overage": [one["sentence"] for one in plan.overage],
            "victims": len(choice.victims),
            "pods": sum(len(victim.pods) for victim in choice.victims),
            "remains": sum(one.units for one in choice.remainders),
        },
    )
