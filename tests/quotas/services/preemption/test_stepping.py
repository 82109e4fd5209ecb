"""Each turn looks again, ends one workload, and is done once whatever happens."""

from datetime import timedelta

import pytest

from metering.domain.catalogue.units import GPUSize
from quotas.models import (
    EnforcementTarget,
    PreemptionAction,
    PreemptionPlan,
    QuotaLimit,
    Reservation,
)
from quotas.services.preemption.planning import YieldDemand, plan_preemption
from simulator.adapters.workload_evictor import SimulatedWorkloads
from tenants.models import AuditEntry, Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preempting import admit, let_go, protect
from tests.support.quotas.preemption_steps import (
    TICK,
    crowd,
    execute,
    finish,
    fresh,
    minutes,
    run_in,
    running,
    states,
    step,
)


@pytest.fixture
def cluster(cast: Cast) -> Cluster:
    make_limit(cast.acme, units=1)
    return make_cluster("hopper")


@pytest.fixture
def pods(cast: Cast, cluster: Cluster) -> list[Reservation]:
    """Three pods, newest first, where one may stay: "c"."""
    return crowd("abc", project=cast.llm, cluster=cluster)


@pytest.mark.usefixtures("pods")
def test_one_workload_goes_in_each_cycle_until_it_fits(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)

    seen = []
    for minute in range(4):
        state = step(plan, minutes(minute))
        seen.append((state, [name for _, _, name in workloads.asked]))
        finish(workloads, at=minutes(minute))

    assert seen == [
        ("running", ["a"]),
        ("running", ["a", "b"]),
        ("done", ["a", "b"]),
        ("done", ["a", "b"]),
    ]
    assert states(plan) == {"a": "freed", "b": "freed"}
    assert fresh(plan).message == "What is held fits the limits."
    assert plan.end_at == minutes(2)


@pytest.mark.usefixtures("pods")
def test_a_second_look_within_the_cycle_does_nothing(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)

    step(plan, minutes(0))
    step(plan, minutes(0) + timedelta(seconds=44))

    assert [name for _, _, name in workloads.asked] == ["a"]


@pytest.mark.usefixtures("pods")
def test_every_step_leaves_an_audit_entry(cast: Cast) -> None:
    plan = running(cast.acme)

    step(plan, minutes(0))

    entry = AuditEntry.objects.get(action="quotas:preemption:step")
    assert entry.object_id == str(plan.pk)
    assert entry.facts == {
        "victim": 0,
        "cluster": "hopper",
        "namespace": "llm",
        "pods": ["a"],
        "uids": ["uid-a"],
        "step": "evict",
        "outcomes": {"started": 1},
    }


@pytest.mark.usefixtures("pods")
def test_what_is_ending_is_waited_for(cast: Cast, workloads: SimulatedWorkloads) -> None:
    plan = running(cast.acme)
    step(plan, minutes(0))
    step(plan, minutes(1))

    waiting = step(plan, minutes(2))

    assert (waiting, fresh(plan).message) == ("running", "Waits for 2 pods.")
    assert states(plan) == {"a": "started", "b": "started"}
    assert len(workloads.asked) == 2


def test_nothing_goes_when_somebody_left_by_themselves(
    cast: Cast, pods: list[Reservation], workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    let_go(pods[2])
    let_go(pods[1])

    state = step(plan, minutes(0))

    assert (state, workloads.asked) == ("done", [])
    assert states(plan) == {"a": "needless", "b": "freed"}


@pytest.mark.usefixtures("pods")
def test_nothing_goes_when_the_limit_was_raised_again(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    QuotaLimit.objects.update(limit_units=3)

    assert step(plan, minutes(0)) == "done"
    assert workloads.asked == []
    assert states(plan) == {"a": "needless", "b": "needless"}


def test_a_victim_that_is_needless_by_now_stays(
    cast: Cast, pods: list[Reservation], workloads: SimulatedWorkloads, cluster: Cluster
) -> None:
    make_limit(cast.acme, units=0, size="small")
    other = admit(cluster, cast.llm, "small", size="small", age_minutes=999)
    run_in(workloads, other)
    plan = running(cast.acme)
    QuotaLimit.objects.filter(size="large").update(limit_units=3)

    step(plan, minutes(0))

    assert [name for _, _, name in workloads.asked] == ["small"]
    assert states(plan) == {"a": "needless", "b": "needless", "small": "started"}
    assert len(pods) == 3


@pytest.mark.usefixtures("pods")
def test_a_protected_window_that_opened_since_is_kept(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    protect(cast.acme, begin_at=minutes(0), end_at=minutes(2))

    step(plan, minutes(0))
    message = PreemptionAction.objects.filter(pod_name="a").get().message
    first = (list(workloads.asked), states(plan), message)
    step(plan, minutes(2))

    assert first == (
        [],
        {"a": "blocked", "b": "blocked"},
        "It may not go now: in a protected window (release).",
    )
    assert [name for _, _, name in workloads.asked] == ["a"]


@pytest.mark.usefixtures("pods")
def test_while_a_quota_is_not_in_its_cluster_nothing_goes(
    cast: Cast, workloads: SimulatedWorkloads, cluster: Cluster
) -> None:
    plan = running(cast.acme)
    Cluster.objects.update(credential_reference="in-cluster")
    target = EnforcementTarget.objects.create(
        cluster=cluster, namespace="llm", project=cast.llm, not_before=AT
    )

    step(plan, minutes(0))
    first = (list(workloads.asked), fresh(plan).message)
    EnforcementTarget.objects.filter(pk=target.pk).update(state="applied")
    step(plan, minutes(1))

    assert first == ([], "Waits for the quota of 1 namespaces.")
    assert [name for _, _, name in workloads.asked] == ["a"]


def test_a_whole_job_is_suspended_by_one_step(
    cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads
) -> None:
    gang = [admit(cluster, cast.llm, f"w-{n}", controller="Job/train") for n in range(3)]
    run_in(workloads, *gang)
    plan = running(cast.acme)

    step(plan, minutes(0))

    rows = PreemptionAction.objects.filter(plan=plan)
    assert workloads.asked == [("suspend", "llm", "train")]
    assert {(row.state, row.outcome, row.job_uid) for row in rows} == {
        ("started", "started", "uid-of-train")
    }
    assert finish(workloads) == ["uid-w-0", "uid-w-1", "uid-w-2"]
    assert step(plan, minutes(1)) == "done"


@pytest.mark.parametrize("lacking", ["the job", "the server's knowledge", "the job of that uid"])
def test_a_job_that_cannot_be_suspended_has_its_pods_evicted(
    cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads, lacking: str
) -> None:
    gang = [admit(cluster, cast.llm, f"w-{n}", controller="Job/train") for n in range(2)]
    run_in(workloads, *gang)
    plan = running(cast.acme)
    if lacking == "the server's knowledge":
        workloads.jobs["llm", "train"].can_be_suspended = False
    else:
        del workloads.jobs["llm", "train"]

    step(plan, minutes(0))

    assert workloads.asked == [("evict", "llm", "w-0"), ("evict", "llm", "w-1")]
    assert {row.step for row in PreemptionAction.objects.all()} == {"evict"}


def test_a_gang_of_another_kind_is_evicted_at_once(
    cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads
) -> None:
    gang = [admit(cluster, cast.llm, f"w-{n}", controller="PodGroup/train") for n in range(3)]
    run_in(workloads, *gang)
    plan = running(cast.acme)

    step(plan, minutes(0))

    assert [name for _, _, name in workloads.asked] == ["w-0", "w-1", "w-2"]


def test_a_pod_that_is_gone_already_is_done(
    cast: Cast, pods: list[Reservation], workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    del workloads.pods["llm", "a"]

    step(plan, minutes(0))

    assert states(plan) == {"a": "freed", "b": "planned"}
    assert PreemptionAction.objects.get(pod_name="a").outcome == "gone"
    # The ledger still has it; nobody goes in its place.
    assert pods[0].state == "held"
    step(plan, minutes(1))
    assert step(plan, minutes(2)) == "running"
    assert [name for _, _, name in workloads.asked] == ["b"]


@pytest.mark.usefixtures("pods")
def test_another_pod_of_the_same_name_is_left_alone(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    workloads.pods["llm", "a"].uid = "uid-of-another"

    step(plan, minutes(0))

    assert (workloads.asked, states(plan)["a"]) == ([], "freed")
    assert not workloads.pods["llm", "a"].is_ending


@pytest.mark.parametrize(("asked_for", "waits"), [(None, 30), (5, 30), (400, 400)])
@pytest.mark.usefixtures("pods")
def test_a_budget_is_obeyed_and_asked_again(
    cast: Cast, workloads: SimulatedWorkloads, asked_for: int | None, waits: int
) -> None:
    plan = running(cast.acme)
    pod = workloads.pods["llm", "a"]
    pod.spare = 0
    pod.retry_after = None if asked_for is None else timedelta(seconds=asked_for)

    step(plan, minutes(0))

    row = PreemptionAction.objects.get(pod_name="a")
    assert (row.state, row.outcome, row.attempt) == ("blocked", "blocked", 1)
    assert row.not_before == minutes(0) + timedelta(seconds=waits)
    assert "disruption budget" in row.message
    # The next victim is needed as well, so it does not wait for the first.
    pod.spare = 1
    for minute in range(1, 9):
        step(plan, minutes(minute))
    assert sorted(name for _, _, name in workloads.asked) == ["a", "b"]


@pytest.mark.soak
@pytest.mark.usefixtures("pods")
def test_waiting_grows_and_ends_with_a_person(cast: Cast, workloads: SimulatedWorkloads) -> None:
    plan = running(cast.acme)
    for name in ("a", "b"):
        workloads.pods["llm", name].spare = 0
    waits = []
    at = minutes(0)
    while fresh(plan).state == "running":
        step(plan, at)
        row = PreemptionAction.objects.get(pod_name="a")
        if row.acted_at == at and row.not_before is not None:
            waits.append((row.not_before - at).total_seconds())
        at += timedelta(seconds=60)

    assert waits[:7] == [30, 60, 120, 240, 480, 600, 600]
    assert states(plan) == {"a": "needs_person", "b": "needs_person"}
    assert plan.state == "stopped"
    assert plan.message == (
        "Nothing more can be ended automatically. Still over: "
        "2 large over the limit of organization acme."
    )
    assert workloads.asked == []


@pytest.mark.usefixtures("pods")
def test_several_budgets_need_a_person(cast: Cast, workloads: SimulatedWorkloads) -> None:
    plan = running(cast.acme)
    workloads.pods["llm", "a"].budgets = 2

    for minute in range(3):
        step(plan, minutes(minute))
        finish(workloads, at=minutes(minute))

    assert states(plan) == {"a": "needs_person", "b": "freed"}
    assert fresh(plan).state == "stopped"
    assert "Still over: 1 large over the limit" in plan.message


@pytest.mark.parametrize("reason", ["timeout", "credentials_forbidden"])
@pytest.mark.parametrize("controller", ["", "Job/train"])
def test_a_cluster_that_is_away_is_asked_again_and_what_is_refused_is_audited(
    cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads, controller: str, reason: str
) -> None:
    run_in(workloads, *[admit(cluster, cast.llm, "w", units=2, controller=controller)])
    plan = running(cast.acme)
    workloads.failure = reason

    step(plan, minutes(0))
    row = PreemptionAction.objects.get()
    workloads.failure = ""
    step(plan, minutes(1))

    assert (row.state, row.outcome) == ("blocked", "unanswered")
    assert row.message == f"{reason}: The cluster did not answer."
    assert states(plan) == {"w": "started"}
    entries = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert [one.facts["code"] for one in entries] == [reason] * (reason != "timeout")


@pytest.mark.usefixtures("pods")
def test_a_plan_that_runs_too_long_expires(cast: Cast, workloads: SimulatedWorkloads) -> None:
    plan = running(cast.acme)

    assert step(plan, AT + timedelta(hours=24)) == "expired"
    assert (fresh(plan).message, workloads.asked) == ("It ran too long.", [])


def test_burst_yields_what_was_asked_and_no_more(
    cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads
) -> None:
    QuotaLimit.objects.update(burst_units=9)
    pods = [admit(cluster, cast.llm, f"burst-{n}", is_burst=True, age_minutes=n) for n in range(3)]
    run_in(workloads, *pods)
    plan = plan_preemption(
        organization=cast.acme, yields=[YieldDemand(GPUSize.LARGE, 2)], actor=TICK, at=AT
    )
    execute(plan)

    for minute in range(4):
        step(plan, minutes(minute))
        finish(workloads, at=minutes(minute))

    assert [name for _, _, name in workloads.asked] == ["burst-0", "burst-1"]
    assert fresh(plan).state == "done"


def test_a_pod_that_does_not_end_is_not_believed_for_ever(
    cast: Cast, cluster: Cluster, workloads: SimulatedWorkloads
) -> None:
    run_in(workloads, admit(cluster, cast.llm, "stuck", units=2))
    plan = running(cast.acme)
    step(plan, minutes(0))
    PreemptionPlan.objects.filter(pk=plan.pk).update(state="stopped", not_before=None)

    sooner = plan_preemption_of(cast, minutes=30)
    later = plan_preemption_of(cast, minutes=61)

    assert (sooner, later) == ([], ["stuck"])


def plan_preemption_of(cast: Cast, *, minutes: int) -> list[str]:
    at = AT + timedelta(minutes=5 + minutes)
    plan = plan_preemption(organization=cast.acme, actor=TICK, at=at)
    return list(plan.actions.values_list("pod_name", flat=True))
