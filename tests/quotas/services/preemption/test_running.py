"""Plans are executed and stopped by people, and expire by themselves."""

from datetime import timedelta

import pytest

from quotas.domain.errors import (
    PreemptionPlanEndedError,
    PreemptionRunningError,
    QuotaNotAppliedError,
)
from quotas.models import EnforcementTarget, PreemptionPlan
from quotas.services.preemption.planning import plan_preemption
from quotas.services.preemption.running import execute_plan, expire_plans, stop_plan
from quotas.tasks import tick
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry, Cluster, Notification, NotificationDelivery
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, make_limit
from tests.support.quotas.preempting import admit, make_plan
from tests.support.quotas.preemption_steps import (
    EVICTOR,
    GRACE,
    TICK,
    execute,
    fresh,
    minutes,
    step,
)
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster(cast: Cast) -> Cluster:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=0)
    admit(hopper, cast.llm, "a")
    return hopper


@shared_rows
def plan(cast: Cast, cluster: Cluster) -> PreemptionPlan:  # noqa: ARG001 - It holds the pod.
    return plan_preemption(organization=cast.acme, actor=TICK, at=AT)


def test_an_executed_plan_begins_after_its_grace(cast: Cast, plan: PreemptionPlan) -> None:
    executed = execute(plan, actor_of(cast.frank))

    assert (executed.state, executed.is_dry_run) == ("running", False)
    assert (executed.executed_by, executed.notified_at) == ("frank", AT)
    assert executed.not_before == AT + GRACE
    assert executed.expires_at == AT + timedelta(hours=24)
    assert executed.version == 2
    assert step(plan, AT + GRACE - timedelta(seconds=1)) == "running"
    assert EVICTOR.cluster("hopper").asked == []


def test_everybody_is_reported_of_their_own_pods_and_administrators_of_all(
    cast: Cast, cluster: Cluster
) -> None:
    admit(cluster, cast.llm, "b", username="bob")
    admit(cluster, cast.vision, "c", username="bob")
    admit(cluster, cast.vision, "m", username="mallory")
    admit(cluster, cast.vision, "n", username="")
    execute(plan_preemption(organization=cast.acme, actor=TICK, at=AT))

    rows = NotificationDelivery.objects.select_related("notification")
    texts = {row.address.split("@")[0]: row.notification.text for row in rows}
    pods = {
        name: sorted(line.split(":")[0] for line in text.splitlines()[1:])
        for name, text in texts.items()
    }
    everything = ["llm/a", "llm/b", "vision/c", "vision/m", "vision/n"]
    assert pods == {
        "alice": everything,
        "frank": everything,
        "bob": ["llm/b", "vision/c"],
        "carol": ["llm/a"],
    }
    assert all(text.startswith("From 2026-11-02 09:05 UTC on") for text in texts.values())
    assert "llm/a: Within its project's limit, priority 0" in texts["carol"]
    assert {row.notification.organization_id for row in rows} == {cast.acme.pk}
    assert {row.notification.event for row in rows} == {"quotas:preemption:announced"}
    assert sorted(set(rows.values_list("notification__subject", flat=True))) == [
        "1 of your pods will be ended to fit the limits",
        "2 of your pods will be ended to fit the limits",
        "5 pods will be ended to fit the limits",
    ]


def test_a_single_pod_is_announced_as_one(plan: PreemptionPlan) -> None:
    execute(plan)

    subjects = NotificationDelivery.objects.values_list("notification__subject", flat=True)
    assert "1 pod will be ended to fit the limits" in subjects


def test_executing_again_changes_nothing(plan: PreemptionPlan) -> None:
    execute(plan)
    again = execute(plan, at=AT + timedelta(minutes=1))

    assert (again.not_before, again.version) == (AT + GRACE, 2)
    assert Notification.objects.count() == 2
    assert AuditEntry.objects.filter(action="quotas:preemption:execute").count() == 1


def test_the_lowered_quota_comes_first(cast: Cast, cluster: Cluster, plan: PreemptionPlan) -> None:
    cluster.kubernetes_url, cluster.credential_reference = "https://127.0.0.1:9/", "in-cluster"
    cluster.save()
    bind(cluster, "llm", cast.llm)

    with pytest.raises(QuotaNotAppliedError) as refusal:
        execute(plan)

    assert refusal.value.facts == {"namespaces": "hopper/llm (pending)"}
    assert fresh(plan).state == "planned"
    # The refusal has planned nothing either; the next tick does.
    assert not EnforcementTarget.objects.exists()


def test_an_applied_quota_lets_the_plan_run(
    cast: Cast, cluster: Cluster, plan: PreemptionPlan
) -> None:
    cluster.credential_reference = "in-cluster"
    cluster.save()
    bind(cluster, "llm", cast.llm)
    tick(AT)

    executed = execute(plan)

    target = EnforcementTarget.objects.get()
    assert (target.state, target.live_hard["requests.nvidia.com/gpu"]) == ("applied", 0)
    assert executed.state == "running"


def test_a_cluster_that_is_only_metered_is_not_waited_for(
    cast: Cast, cluster: Cluster, plan: PreemptionPlan
) -> None:
    EnforcementTarget.objects.create(
        cluster=cluster, namespace="llm", project=cast.llm, not_before=AT
    )

    assert execute(plan).state == "running"


def test_a_plan_that_is_too_old_is_not_executed(plan: PreemptionPlan) -> None:
    with pytest.raises(PreemptionPlanEndedError, match="too old"):
        execute(plan, at=AT + timedelta(hours=1))
    assert fresh(plan).state == "planned"


def test_only_one_plan_of_an_organization_runs(cast: Cast, plan: PreemptionPlan) -> None:
    execute(plan)
    other = make_plan(cast.acme)

    with pytest.raises(PreemptionRunningError):
        execute(other)
    assert fresh(other).state == "planned"


@pytest.mark.parametrize("state", ["done", "stopped", "expired"])
def test_an_ended_plan_is_not_executed(cast: Cast, state: str) -> None:
    ended = make_plan(cast.acme, state=state)

    with pytest.raises(PreemptionPlanEndedError) as refusal:
        execute(ended)
    assert refusal.value.facts == {"state": state}


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "ann", "dora", "mallory"])
def test_only_the_platform_executes_and_stops(cast: Cast, plan: PreemptionPlan, name: str) -> None:
    actor = actor_of(getattr(cast, name))

    with pytest.raises(ForbiddenError):
        execute(plan, actor)
    with pytest.raises(ForbiddenError):
        stop_plan(plan_id=plan.pk, actor=actor, at=AT)
    assert fresh(plan).state == "planned"


def test_what_is_not_there_is_not_found(cast: Cast) -> None:
    actor = actor_of(cast.frank)

    with pytest.raises(NotFoundError):
        execute_plan(plan_id=new_id(), grace=GRACE, burst_classes=(), actor=actor, at=AT)
    with pytest.raises(NotFoundError):
        stop_plan(plan_id=new_id(), actor=actor, at=AT)


@pytest.mark.parametrize("is_running", [True, False])
def test_a_stopped_plan_takes_no_further_step(
    cast: Cast, plan: PreemptionPlan, *, is_running: bool
) -> None:
    if is_running:
        execute(plan)

    for _ in range(2):
        stopped = stop_plan(plan_id=plan.pk, actor=actor_of(cast.frank), at=AT)

    assert (stopped.state, stopped.message) == ("stopped", "Stopped by frank.")
    assert stopped.end_at == AT
    assert step(plan, minutes(1)) == "stopped"
    assert EVICTOR.cluster("hopper").asked == []
    assert AuditEntry.objects.filter(action="quotas:preemption:stopped").count() == 1


def test_a_plan_that_is_done_is_not_stopped(cast: Cast) -> None:
    done = make_plan(cast.acme, state="done")

    with pytest.raises(PreemptionPlanEndedError):
        stop_plan(plan_id=done.pk, actor=TICK, at=AT)


def test_plans_nobody_executed_expire(cast: Cast, plan: PreemptionPlan) -> None:
    running = make_plan(cast.umbrella, state="running", not_before=AT)

    counts = [expire_plans(at=AT + timedelta(minutes=wait), actor=TICK) for wait in (59, 60, 61)]

    assert counts == [0, 1, 0]
    assert (fresh(plan).state, plan.message) == ("expired", "Nobody executed it in time.")
    assert fresh(running).state == "running"
