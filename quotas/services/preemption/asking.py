"""End the leased steps in a cluster: Jobs are suspended, other pods are evicted.

A Job is suspended only where a planned pod names it, by its uid, as its controller: a new Job under
the same name is other work. Its uid is stored with the steps before it is suspended, so that
another worker knows the Job if this worker dies.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import structlog

from quotas.domain.preemption.states import StepState
from quotas.models import PreemptionAction, PreemptionStep
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import (
    EvictionOutcome,
    JobOfPod,
    WorkloadEvictor,
    WorkloadReference,
)
from quotas.services.preemption.acting import UNANSWERED, StepAnswer, Turn
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.services.audit import audited_use

TURN_SECONDS_MAX: Final = 60
"""No new call after this; the rest of a gang follows in the next turn."""
SLOWEST_SECONDS: Final = 90
"""The longest one question lasts: a Job that is read and patched three times, 15 s each."""
ABOUT_THE_POD: Final = frozenset({"refused", "server_error"})
"""Reasons for which only this pod was not answered; after any other the cluster is left alone."""
SECOND_NS: Final = 1_000_000_000

log = structlog.get_logger(__name__)


def endpoint_of(cluster: Cluster) -> EnforcementEndpoint:
    """Return a cluster as an evictor needs it."""
    return EnforcementEndpoint(
        slug=cluster.slug,
        kubernetes_url=cluster.kubernetes_url,
        credential_reference=cluster.credential_reference,
    )


def act_on(
    turn: Turn,
    evictor: WorkloadEvictor,
    *,
    actor: Actor,
    at: datetime,
    clock_ns: Callable[[], int] = time.monotonic_ns,
) -> dict[int, StepAnswer]:
    """Call the cluster for every leased step, outside any transaction; results by the step's key.

    The Jobs of the gang are suspended where they can be; every other pod is evicted by its uid. A
    cluster that does not answer is not called again in this turn: an unreachable one would delay
    every other plan.

    Args:
        turn: The leased steps.
        evictor: Client of the clusters.
        actor: The account that acts; a credential refused at use is audited.
        at: When, UTC.
        clock_ns: Monotonic clock, nanoseconds.
    """
    answers: dict[int, StepAnswer] = {}
    until_ns = clock_ns() + TURN_SECONDS_MAX * SECOND_NS
    try:
        for controller, steps in _by_controller(turn.steps).items():
            _require_time(until_ns - clock_ns())
            with audited_use(slug=steps[0].cluster.slug, actor=actor, at=at):
                answers |= _of_job(controller, steps, turn, evictor)
        for step in turn.steps:
            if step.pk not in answers:
                _require_time(until_ns - clock_ns())
                with audited_use(slug=step.cluster.slug, actor=actor, at=at):
                    answers[step.pk] = _evict(step, evictor)
    except SourceUnavailableError as error:
        log.warning(
            "quotas.preemption.eviction_failed", plan=str(turn.plan_id), reason=error.reason
        )
        left = [step for step in turn.steps if step.pk not in answers]
        return answers | {step.pk: _unanswered(step, error) for step in left}
    return answers


def _require_time(left_ns: int) -> None:
    if left_ns <= 0:
        raise SourceUnavailableError("The cluster answers too slowly.", reason="too_slow")


def _by_controller(steps: Iterable[PreemptionAction]) -> dict[str, list[PreemptionAction]]:
    """Return the steps of a gang by what made their pods; device claims can join several."""
    found: dict[str, list[PreemptionAction]] = {}
    for step in steps:
        found.setdefault(step.controller, []).append(step)
    return found


def _of_job(
    controller: str, steps: list[PreemptionAction], turn: Turn, evictor: WorkloadEvictor
) -> dict[int, StepAnswer]:
    """Return the cluster's answers for the steps of one Job's pods.

    Raises:
        SourceUnavailableError: The cluster did not answer.
    """
    kind, _, name = controller.partition("/")
    if turn.otherwise:
        return _look(name, steps, turn, evictor)
    if kind != "Job":
        return {}
    first = steps[0]
    job = evictor.find_job(endpoint_of(first.cluster), namespace=first.namespace, name=name)
    if job is None or not job.can_be_suspended:
        return {}
    return _suspend(job, [step for step in steps if _is_of(step, job)], turn, evictor)


def _look(
    name: str, steps: list[PreemptionAction], turn: Turn, evictor: WorkloadEvictor
) -> dict[int, StepAnswer]:
    """Return whether a worker that died had suspended the Job it meant; nothing is changed.

    Raises:
        SourceUnavailableError: The cluster did not answer.
    """
    first = steps[0]
    message = "A worker died at it and had not suspended the Job."
    answer = StepAnswer(turn.otherwise, PreemptionStep.SUSPEND, message)
    meant = {step.job_uid for step in steps} - {""}
    if meant:
        job = evictor.find_job(endpoint_of(first.cluster), namespace=first.namespace, name=name)
        if job is not None and job.is_suspended and job.reference.uid in meant:
            answer = _suspended(job)
    return {step.pk: answer for step in steps}


def _is_of(step: PreemptionAction, job: JobOfPod) -> bool:
    """Whether a step is about a pod of this very Job: as it is now, or as it was seen before."""
    return step.pod_uid in job.pod_uids or step.job_uid == job.reference.uid


def _suspend(
    job: JobOfPod, steps: list[PreemptionAction], turn: Turn, evictor: WorkloadEvictor
) -> dict[int, StepAnswer]:
    """Suspend a Job whose pods some steps are about; nothing where there are none.

    Raises:
        SourceUnavailableError: The cluster did not answer.
    """
    if not steps:
        return {}
    # If this worker dies now, the Job must be known. While the fence matches, no other worker has
    # the plan.
    PreemptionAction.objects.filter(
        pk__in=[step.pk for step in steps],
        state=StepState.CLAIMED.value,
        plan__fence=turn.fence,
    ).update(job_uid=job.reference.uid)
    answer = evictor.suspend_job(endpoint_of(steps[0].cluster), job.reference, is_dry_run=False)
    if answer.outcome is not EvictionOutcome.STARTED:
        # It went, or was made anew, a moment ago; its pods are still meant by their uids.
        return {}
    return {step.pk: _suspended(job) for step in steps}


def _suspended(job: JobOfPod) -> StepAnswer:
    return StepAnswer(
        outcome=EvictionOutcome.STARTED.value,
        step=PreemptionStep.SUSPEND,
        message=f"Job {job.reference.name} is suspended.",
        job_uid=job.reference.uid,
    )


def _evict(step: PreemptionAction, evictor: WorkloadEvictor) -> StepAnswer:
    """Evict one pod.

    Raises:
        SourceUnavailableError: The cluster did not answer, whatever the pod.
    """
    pod = WorkloadReference("Pod", step.namespace, step.pod_name, step.pod_uid)
    try:
        answer = evictor.evict_pod(
            endpoint_of(step.cluster), pod, grace_seconds=None, is_dry_run=False
        )
    except SourceUnavailableError as error:
        if error.reason not in ABOUT_THE_POD:
            raise
        return _unanswered(step, error)
    return StepAnswer(
        outcome=answer.outcome.value,
        step=PreemptionStep.EVICT,
        message=answer.message,
        retry_after=answer.retry_after,
    )


def _unanswered(step: PreemptionAction, error: SourceUnavailableError) -> StepAnswer:
    return StepAnswer(UNANSWERED, PreemptionStep(step.step), f"{error.reason}: {error}")
