"""Resume Jobs that preemption suspended, on request, where they fit again."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction

from metering.domain.catalogue.units import GPUSize
from quotas.domain.preemption.overage import PodUnits, overages_of
from quotas.domain.preemption.states import StepState
from quotas.models import PreemptionAction, PreemptionPlan
from quotas.protocols.workloads import EvictionOutcome, WorkloadEvictor, WorkloadReference
from quotas.selectors.preemption import Picture, picture_of, steps_of
from quotas.services.preemption.asking import endpoint_of
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError, SourceUnavailableError
from tenants.services.audit import audited_use, record

WRITE: Final = "quotas:preemption:write"


@dataclass(frozen=True)
class Resumption:
    """What became of one suspended Job.

    Attributes:
        why: Why it stays suspended; "" when it does not.
    """

    namespace: str
    job: str
    is_resumed: bool
    why: str = ""


def resume_jobs(
    *, plan_id: UUID, evictor: WorkloadEvictor, actor: Actor, at: datetime
) -> tuple[Resumption, ...]:
    """Resume the Jobs a plan has suspended, in the order of preemption, as far as they fit.

    The clusters are called outside any transaction; each Job's pods then pass admission as any do.

    Args:
        plan_id: Which plan.
        evictor: Client of the clusters.
        actor: The account that resumes.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such plan.
        ForbiddenError: The actor may not preempt.
    """
    plan = PreemptionPlan.objects.filter(pk=plan_id).first()
    if plan is None:
        raise NotFoundError("There is no such preemption plan.")
    require_capability(actor, WRITE, organization_id=plan.organization_id)
    picture = picture_of(organization_id=plan.organization_id, at=at)
    taken: list[PodUnits] = []
    resumptions = []
    for steps in _suspended(plan):
        needs = [one for step in steps for one in _holdings(step)]
        if not _fits(picture, (*taken, *needs)):
            resumptions.append(_resumption(steps, why="Its units do not fit the limits yet."))
            continue
        resumption = _resume(plan, steps, evictor=evictor, actor=actor, at=at)
        if resumption.is_resumed:
            taken.extend(needs)
        resumptions.append(resumption)
    return tuple(resumptions)


def _suspended(plan: PreemptionPlan) -> list[list[PreemptionAction]]:
    """Return the steps of each Job that is suspended still."""
    jobs: dict[str, list[PreemptionAction]] = {}
    for step in steps_of(plan):
        # A claimed step only says which Job is about to be suspended.
        is_done = step.state != StepState.CLAIMED.value
        if step.job_uid and is_done and step.resumed_at is None:
            jobs.setdefault(step.job_uid, []).append(step)
    return list(jobs.values())


def _holdings(step: PreemptionAction) -> Iterable[PodUnits]:
    for size, units in step.units.items():
        yield PodUnits(
            size=GPUSize(size),
            units=units,
            project=str(step.project_id),
            username=step.username,
            cluster=str(step.cluster_id),
            # Where it lands is not known yet, so it must fit whatever the model.
            model_groups=frozenset(),
            is_burst=step.is_burst,
        )


def _fits(picture: Picture, more: Iterable[PodUnits]) -> bool:
    """Whether more units fit without raising any overage."""
    before = {(one.kind, one.limit_id): one.units for one in picture.overages}
    after = overages_of(picture.allowances, (*picture.holdings, *more))
    return all(one.units <= before.get((one.kind, one.limit_id), 0) for one in after)


def _resume(
    plan: PreemptionPlan,
    steps: list[PreemptionAction],
    *,
    evictor: WorkloadEvictor,
    actor: Actor,
    at: datetime,
) -> Resumption:
    first = steps[0]
    name = first.controller.partition("/")[2]
    job = WorkloadReference("Job", first.namespace, name, first.job_uid)
    try:
        with audited_use(slug=first.cluster.slug, actor=actor, at=at):
            answer = evictor.resume_job(endpoint_of(first.cluster), job)
    except SourceUnavailableError as error:
        return _resumption(steps, why=str(error))
    is_resumed = answer.outcome is EvictionOutcome.STARTED
    resumption = _resumption(steps, why="" if is_resumed else "There is no such Job any more.")
    _write(plan, steps, replace(resumption, is_resumed=is_resumed), actor=actor, at=at)
    return replace(resumption, is_resumed=is_resumed)


@transaction.atomic
def _write(
    plan: PreemptionPlan,
    steps: list[PreemptionAction],
    resumption: Resumption,
    *,
    actor: Actor,
    at: datetime,
) -> None:
    """Note that nothing is left to resume of a Job; once, also with concurrent requests."""
    written = PreemptionAction.objects.filter(
        pk__in=[step.pk for step in steps], resumed_at=None
    ).update(resumed_at=at)
    if written:
        record(
            actor=actor,
            at=at,
            action="quotas:preemption:resume",
            object_kind="preemption_plan",
            object_id=plan.pk,
            organization_id=plan.organization_id,
            facts={
                "namespace": resumption.namespace,
                "job": resumption.job,
                "is_resumed": resumption.is_resumed,
                "why": resumption.why,
            },
        )


def _resumption(steps: list[PreemptionAction], *, why: str) -> Resumption:
    first = steps[0]
    name = first.controller.partition("/")[2]
    return Resumption(first.namespace, name, is_resumed=False, why=why)
