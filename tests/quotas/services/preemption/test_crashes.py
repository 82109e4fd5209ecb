"""A worker may die anywhere, and two may run at once: nothing is done twice or purged."""

from datetime import timedelta

import pytest

from metering.domain.collection.crashpoints import CRASHPOINTS
from quotas.models import PreemptionAction, PreemptionPlan, Reservation
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import EvictionAnswer, WorkloadReference
from quotas.services.preemption.running import stop_plan
from quotas.services.preemption.stepping import CLAIM_FOR, step_plan
from simulator.adapters.workload_evictor import SimulatedWorkloads
from tenants.models import AuditEntry
from tests.support.builders import make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preempting import admit, let_go
from tests.support.quotas.preemption_steps import (
    EVICTOR,
    TICK,
    Died,
    finish,
    fresh,
    minutes,
    run_in,
    running,
    states,
    step,
)

POINTS = [name for name in CRASHPOINTS if name.startswith("preempt.")]
CONTROLLERS = ["Job/train", "PodGroup/train"]


def a_gang_over_the_limit(
    cast: Cast, workloads: SimulatedWorkloads, *, controller: str
) -> PreemptionPlan:
    make_limit(cast.acme, units=0)
    hopper = make_cluster("hopper")
    run_in(workloads, *[admit(hopper, cast.llm, f"w-{n}", controller=controller) for n in range(2)])
    return running(cast.acme)


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_leaves_nothing_undone_and_nothing_done_twice(
    cast: Cast, workloads: SimulatedWorkloads, dying: list[str], point: str, controller: str
) -> None:
    plan = a_gang_over_the_limit(cast, workloads, controller=controller)
    dying.append(point)

    with pytest.raises(Died):
        step(plan, minutes(0))
    at = minutes(0)
    while fresh(plan).state == "running" and at < minutes(30):
        at += timedelta(seconds=30)
        step(plan, at)
        finish(workloads, at=at)

    assert plan.state == "done"
    assert states(plan) == {"w-0": "freed", "w-1": "freed"}
    assert workloads.pods == {}
    verbs = {verb for verb, _, _ in workloads.asked}
    assert verbs == ({"suspend"} if controller.startswith("Job") else {"evict"})
    # Asked again only where the answer was lost, and then about the same pods.
    assert len(workloads.asked) <= (2 if verbs == {"suspend"} else 4)
    # What was asked of the cluster is in the trail, and what was suspended can be resumed.
    assert AuditEntry.objects.filter(action="quotas:preemption:claim").count() >= 1
    suspended = {row.job_uid for row in PreemptionAction.objects.all()}
    assert suspended == ({"uid-of-train"} if verbs == {"suspend"} else {""})


def test_nobody_else_takes_a_claimed_plan_until_the_claim_lapses(
    cast: Cast, workloads: SimulatedWorkloads, dying: list[str]
) -> None:
    plan = a_gang_over_the_limit(cast, workloads, controller="Job/train")
    dying.append("preempt.claim.after_commit")
    with pytest.raises(Died):
        step(plan, minutes(0))

    step(plan, minutes(0) + CLAIM_FOR - timedelta(seconds=1))
    early = list(workloads.asked)
    step(plan, minutes(0) + CLAIM_FOR)

    assert early == []
    assert workloads.asked == [("suspend", "llm", "train")]
    assert {row.attempt for row in PreemptionAction.objects.all()} == {2}


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_dead_claim_is_needless_when_everything_fits(
    cast: Cast, workloads: SimulatedWorkloads, dying: list[str], controller: str
) -> None:
    plan = a_gang_over_the_limit(cast, workloads, controller=controller)
    dying.append("preempt.claim.after_commit")
    with pytest.raises(Died):
        step(plan, minutes(0))
    cast.acme.quota_limits.update(limit_units=2)

    for minute in (9, 10):
        step(plan, minutes(minute))

    assert fresh(plan).state == "done"
    assert workloads.asked == []
    assert states(plan) == {"w-0": "needless", "w-1": "needless"}
    assert "worker died at it" in PreemptionAction.objects.all()[0].message


def test_a_dead_claim_of_a_job_that_ended_by_itself_suspends_nothing(
    cast: Cast, workloads: SimulatedWorkloads, dying: list[str]
) -> None:
    plan = a_gang_over_the_limit(cast, workloads, controller="Job/train")
    dying.append("preempt.claim.after_commit")
    with pytest.raises(Died):
        step(plan, minutes(0))
    workloads.pods.clear()
    for pod in Reservation.objects.all():
        let_go(pod)

    for minute in (9, 10):
        step(plan, minutes(minute))

    assert fresh(plan).state == "done"
    assert (workloads.asked, workloads.jobs["llm", "train"].is_suspended) == ([], False)
    assert states(plan) == {"w-0": "freed", "w-1": "freed"}


class Meanwhile:
    """An evictor during whose work something else happens."""

    def __init__(self, call: object) -> None:
        self.call = call

    def __getattr__(self, name: str) -> object:  # noqa: D105 - All else is the evictor's.
        return getattr(EVICTOR, name)

    def evict_pod(
        self,
        endpoint: EnforcementEndpoint,
        pod: WorkloadReference,
        *,
        grace_seconds: int | None,
        is_dry_run: bool,
    ) -> EvictionAnswer:
        self.call()  # type: ignore[operator]
        return EVICTOR.evict_pod(endpoint, pod, grace_seconds=grace_seconds, is_dry_run=is_dry_run)


def a_pod_over_the_limit(cast: Cast, workloads: SimulatedWorkloads) -> PreemptionPlan:
    make_limit(cast.acme, units=0)
    run_in(workloads, admit(make_cluster("hopper"), cast.llm, "a"))
    return running(cast.acme)


def test_what_had_begun_when_a_plan_was_stopped_is_reported(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = a_pod_over_the_limit(cast, workloads)
    stopping = Meanwhile(lambda: stop_plan(plan_id=plan.pk, actor=TICK, at=minutes(0)))

    step_plan(plan_id=plan.pk, evictor=stopping, actor=TICK, at=minutes(0))  # type: ignore[arg-type]

    assert fresh(plan).state == "stopped"
    assert states(plan) == {"a": "started"}
    assert AuditEntry.objects.filter(action="quotas:preemption:step").count() == 1


def test_a_worker_that_was_overtaken_writes_nothing_over_the_other(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = a_pod_over_the_limit(cast, workloads)
    overtaking = Meanwhile(lambda: step(plan, minutes(0) + CLAIM_FOR))

    step_plan(plan_id=plan.pk, evictor=overtaking, actor=TICK, at=minutes(0))  # type: ignore[arg-type]

    row = PreemptionAction.objects.get()
    assert (row.state, row.attempt, row.acted_at) == ("started", 2, minutes(0) + CLAIM_FOR)
    assert fresh(plan).not_before == minutes(0) + CLAIM_FOR + timedelta(seconds=45)


def test_a_gang_that_is_half_gone_goes_on(cast: Cast, workloads: SimulatedWorkloads) -> None:
    make_limit(cast.acme, units=1)
    hopper = make_cluster("hopper")
    gang = [admit(hopper, cast.llm, f"w-{n}", controller="PodGroup/train") for n in range(3)]
    run_in(workloads, *gang)
    plan = running(cast.acme)
    workloads.pods["llm", "w-2"].spare = 0

    step(plan, minutes(0))
    first = states(plan)
    for pod in gang[:2]:
        let_go(pod)
    workloads.pods["llm", "w-2"].spare = 1
    for minute in range(1, 4):
        step(plan, minutes(minute))

    assert first == {"w-0": "started", "w-1": "started", "w-2": "blocked"}
    assert states(plan)["w-2"] in {"needless", "started"}


def test_an_executed_plan_of_nobody_is_done_at_once(cast: Cast) -> None:
    make_limit(cast.acme, units=0)
    pod = admit(make_cluster("hopper"), cast.llm, "a")
    plan = running(cast.acme)
    let_go(pod)

    assert step(plan, minutes(0)) == "done"
