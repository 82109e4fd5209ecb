"""A world in which Acme holds more than it may, and short words for what is done about it."""

from datetime import datetime, timedelta

from quotas.models import PreemptionAction, PreemptionPlan, Reservation
from quotas.services.preemption.planning import plan_preemption
from quotas.services.preemption.running import execute_plan
from quotas.services.preemption.stepping import step_plan
from simulator.adapters.workload_evictor import SimulatedWorkloadEvictor, SimulatedWorkloads
from tenants.domain.actors import Actor, system_actor
from tenants.models import Cluster, Project
from tests.support.builders import AT
from tests.support.quotas.preempting import admit, let_go

TICK = system_actor("quotas.tick")
EVICTOR = SimulatedWorkloadEvictor()
GRACE = timedelta(minutes=5)


class Died(BaseException):
    """A worker is no more; nobody catches that."""


def minutes(number: int) -> datetime:
    """Return so many minutes after the plan was executed and its grace has passed."""
    return AT + GRACE + timedelta(minutes=number)


def execute(plan: PreemptionPlan, actor: Actor = TICK, at: datetime = AT) -> PreemptionPlan:
    return execute_plan(plan_id=plan.pk, grace=GRACE, burst_classes=(), actor=actor, at=at)


def running(organization: object, *, at: datetime = AT) -> PreemptionPlan:
    """Return a plan of now that is being executed."""
    plan = plan_preemption(organization=organization, actor=TICK, at=at)  # type: ignore[arg-type]
    return execute(plan, at=at)


def step(plan: PreemptionPlan, at: datetime) -> str:
    return step_plan(plan_id=plan.pk, evictor=EVICTOR, actor=TICK, at=at).value


def run_in(cluster: SimulatedWorkloads, *pods: Reservation) -> None:
    """Let pods of the ledger run in the simulated cluster too, with their Jobs."""
    for pod in pods:
        kind, _, name = pod.controller.partition("/")
        job = name if kind == "Job" else ""
        if job and (pod.namespace, job) not in cluster.jobs:
            cluster.make_job(pod.namespace, job, f"uid-of-{job}")
        cluster.run(pod.namespace, pod.pod_name, pod.pod_uid, job=job)


def crowd(names: str, *, project: Project, cluster: Cluster) -> list[Reservation]:
    """Let a pod of each letter run, the newest first; return them in that order."""
    made = [admit(cluster, project, name, age_minutes=age) for age, name in enumerate(names, 1)]
    run_in(EVICTOR.cluster(cluster.slug), *made)
    return made


def finish(cluster: SimulatedWorkloads, *, at: datetime = AT) -> list[str]:
    """Let what is ending be gone, and the ledger see it."""
    gone = cluster.finish()
    for reservation in Reservation.objects.filter(pod_uid__in=gone):
        let_go(reservation, at=at)
    return gone


def states(plan: PreemptionPlan) -> dict[str, str]:
    """Return where the step about each pod stands."""
    rows = PreemptionAction.objects.filter(plan=plan)
    return dict(rows.order_by("pod_name").values_list("pod_name", "state"))


def order(plan: PreemptionPlan) -> list[str]:
    """Return the pods in the order of going."""
    rows = PreemptionAction.objects.filter(plan=plan).order_by("victim", "pod_name")
    return list(rows.values_list("pod_name", flat=True))


def fresh(plan: PreemptionPlan) -> PreemptionPlan:
    plan.refresh_from_db()
    return plan
