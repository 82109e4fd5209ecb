"""What is asked of a cluster is about the pods that were planned, and about nobody else's."""

from datetime import timedelta
from itertools import count

import pytest

from config.celery import TASK_SOFT_TIME_LIMIT_SECONDS
from quotas import tasks
from quotas.models import PreemptionAction, PreemptionPlan, Reservation
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import EvictionAnswer, WorkloadReference
from quotas.services.preemption.asking import SECOND_NS, SLOWEST_SECONDS, TURN_SECONDS_MAX
from quotas.services.preemption.resuming import resume_jobs
from quotas.services.preemption.stepping import CLAIM_FOR, step_plan
from quotas.tasks.preemption import PREEMPTING_SECONDS_MAX
from simulator.adapters.workload_evictor import SimulatedWorkloads
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
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
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster(cast: Cast) -> Cluster:
    make_limit(cast.acme, units=0)
    return make_cluster("hopper")


@pytest.fixture
def gang(cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads) -> list[Reservation]:
    """Two pods of a Job that runs."""
    made = [admit(cluster, cast.llm, f"w-{n}", controller="Job/train") for n in range(2)]
    run_in(workloads, *made)
    return made


def die_at(dying: list[str], point: str, plan: PreemptionPlan) -> None:
    dying.append(point)
    with pytest.raises(Died):
        step(plan, minutes(0))


def make_anew(workloads: SimulatedWorkloads, *names: str) -> None:
    """Let a Job of the same name be made anew, with pods nobody planned."""
    workloads.pods.clear()
    workloads.make_job("llm", "train", "uid-of-another")
    for name in names:
        workloads.run("llm", name, f"new-{name}", job="train")


@pytest.mark.usefixtures("gang")
def test_a_job_made_anew_under_the_same_name_is_not_suspended(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    make_anew(workloads, "w-0", "w-9")

    step(plan, minutes(0))

    assert workloads.asked == []
    assert not workloads.jobs["llm", "train"].is_suspended
    assert not any(pod.is_ending for pod in workloads.pods.values())
    rows = PreemptionAction.objects.order_by("pod_name")
    assert [(row.state, row.outcome, row.job_uid) for row in rows] == [
        ("freed", "changed", ""),
        ("freed", "gone", ""),
    ]


@pytest.mark.usefixtures("gang")
def test_pods_an_older_job_left_behind_are_evicted_by_their_uids(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    workloads.make_job("llm", "train", "uid-of-another")

    step(plan, minutes(0))

    assert workloads.asked == [("evict", "llm", "w-0"), ("evict", "llm", "w-1")]
    assert not workloads.jobs["llm", "train"].is_suspended


def test_of_a_gang_only_the_pods_of_the_job_are_called_suspended(
    cast: Cast, cluster: Cluster, gang: list[Reservation], workloads: SimulatedWorkloads
) -> None:
    older = admit(cluster, cast.llm, "older", controller="Job/train")
    workloads.run("llm", "older", older.pod_uid)
    plan = running(cast.acme)

    step(plan, minutes(0))

    assert workloads.asked == [("suspend", "llm", "train"), ("evict", "llm", "older")]
    rows = PreemptionAction.objects.order_by("pod_name")
    assert [(row.pod_name, row.step, row.job_uid) for row in rows] == [
        ("older", "evict", ""),
        ("w-0", "suspend", "uid-of-train"),
        ("w-1", "suspend", "uid-of-train"),
    ]
    assert len(gang) == 2


@pytest.mark.usefixtures("gang")
def test_anyone_who_looks_after_a_dead_worker_takes_no_other_job_for_the_one_it_meant(
    cast: Cast, workloads: SimulatedWorkloads, dying: list[str]
) -> None:
    plan = running(cast.acme)
    die_at(dying, "preempt.after_act", plan)
    finish(workloads)
    make_anew(workloads)
    workloads.jobs["llm", "train"].is_suspended = True

    for minute in (9, 10):
        step(plan, minutes(minute))

    assert (fresh(plan).state, states(plan)) == ("done", {"w-0": "freed", "w-1": "freed"})
    assert resume_jobs(plan_id=plan.pk, evictor=EVICTOR, actor=TICK, at=minutes(11)) == ()
    assert workloads.jobs["llm", "train"].is_suspended


def test_nothing_was_suspended_where_the_worker_died_before_it_asked(
    cast: Cast, gang: list[Reservation], workloads: SimulatedWorkloads, dying: list[str]
) -> None:
    plan = running(cast.acme)
    die_at(dying, "preempt.claim.after_commit", plan)
    workloads.jobs["llm", "train"].is_suspended = True
    workloads.pods.clear()
    for pod in gang:
        let_go(pod)

    for minute in (9, 10):
        step(plan, minutes(minute))

    assert {row.job_uid for row in PreemptionAction.objects.all()} == {""}
    assert fresh(plan).state == "done"


@pytest.mark.usefixtures("gang")
def test_a_job_that_is_about_to_be_suspended_is_not_resumed(
    cast: Cast, workloads: SimulatedWorkloads, dying: list[str]
) -> None:
    plan = running(cast.acme)
    die_at(dying, "preempt.after_act", plan)
    cast.acme.quota_limits.update(limit_units=4)

    assert resume_jobs(plan_id=plan.pk, evictor=EVICTOR, actor=TICK, at=minutes(1)) == ()
    assert workloads.asked == [("suspend", "llm", "train")]
    assert {row.resumed_at for row in PreemptionAction.objects.all()} == {None}


class Failing:
    """An evictor that does not answer about one pod, and counts how often it is asked."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        self.asked: list[str] = []

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
        self.asked.append(pod.name)
        if pod.name == self.name:
            raise SourceUnavailableError("No answer.", reason=self.reason)
        return EVICTOR.evict_pod(endpoint, pod, grace_seconds=grace_seconds, is_dry_run=is_dry_run)


@pytest.fixture
def group(cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads) -> list[Reservation]:
    """Four pods that are evicted together."""
    made = [admit(cluster, cast.llm, f"w-{n}", controller="PodGroup/train") for n in range(4)]
    run_in(workloads, *made)
    return made


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("reason", ["unreachable", "unauthorized", "throttled", "forbidden"])
def test_a_cluster_that_does_not_answer_is_not_asked_again_in_a_turn(
    cast: Cast, reason: str
) -> None:
    plan = running(cast.acme)
    evictor = Failing("w-1", reason)

    step_plan(plan_id=plan.pk, evictor=evictor, actor=TICK, at=minutes(0))  # type: ignore[arg-type]

    assert evictor.asked == ["w-0", "w-1"]
    assert states(plan) == {"w-0": "started", "w-1": "blocked", "w-2": "blocked", "w-3": "blocked"}
    left = PreemptionAction.objects.filter(state="blocked")
    assert {(row.outcome, row.message) for row in left} == {("unanswered", f"{reason}: No answer.")}


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("reason", ["refused", "server_error"])
def test_what_is_about_one_pod_keeps_no_other_pod_back(cast: Cast, reason: str) -> None:
    plan = running(cast.acme)
    evictor = Failing("w-1", reason)

    step_plan(plan_id=plan.pk, evictor=evictor, actor=TICK, at=minutes(0))  # type: ignore[arg-type]

    assert evictor.asked == ["w-0", "w-1", "w-2", "w-3"]
    assert states(plan) == {"w-0": "started", "w-1": "blocked", "w-2": "started", "w-3": "started"}


@pytest.mark.usefixtures("group")
def test_a_turn_ends_at_its_deadline_and_the_rest_goes_later(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    ticking = count(step=TURN_SECONDS_MAX * SECOND_NS // 3)

    step_plan(
        plan_id=plan.pk,
        evictor=EVICTOR,
        actor=TICK,
        at=minutes(0),
        clock_ns=lambda: next(ticking),
    )
    first = (list(workloads.asked), states(plan))
    message = PreemptionAction.objects.get(pod_name="w-3").message
    step(plan, minutes(1))

    assert first == (
        [("evict", "llm", "w-0")],
        {"w-0": "started", "w-1": "blocked", "w-2": "blocked", "w-3": "blocked"},
    )
    assert message == "too_slow: The cluster answers too slowly."
    assert [name for _, _, name in workloads.asked] == ["w-0", "w-1", "w-2", "w-3"]


def test_the_slowest_turn_ends_within_its_claim_and_its_task() -> None:
    slowest = PREEMPTING_SECONDS_MAX + TURN_SECONDS_MAX + SLOWEST_SECONDS

    assert slowest < TASK_SOFT_TIME_LIMIT_SECONDS
    assert timedelta(seconds=slowest) < CLAIM_FOR


def test_a_tick_that_lasts_too_long_leaves_the_others_the_next(
    cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads
) -> None:
    make_limit(cast.umbrella, units=0)
    run_in(workloads, admit(cluster, cast.llm, "a"), admit(cluster, cast.virus, "v"))
    plans = [running(cast.acme), running(cast.umbrella)]
    seconds = iter([0, 0, PREEMPTING_SECONDS_MAX])

    tasks.preempt(minutes(0), clock_ns=lambda: next(seconds) * SECOND_NS)
    first = sorted(name for _, _, name in workloads.asked)
    tasks.preempt(minutes(0))

    assert len(first) == 1
    assert sorted(name for _, _, name in workloads.asked) == ["a", "v"]
    assert {fresh(plan).state for plan in plans} == {"running"}
