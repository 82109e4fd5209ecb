"""Suspended Jobs are resumed by a person, where there is room again."""

import pytest

from quotas.models import PreemptionAction, PreemptionPlan, QuotaLimit
from quotas.services.preemption.resuming import resume_jobs
from simulator.adapters.workload_evictor import SimulatedWorkloads
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, make_limit
from tests.support.quotas.preempting import admit
from tests.support.quotas.preemption_steps import (
    EVICTOR,
    TICK,
    finish,
    minutes,
    run_in,
    running,
    step,
)

NO_ROOM = "Its units do not fit the limits yet."


@pytest.fixture
def plan(cast: Cast, workloads: SimulatedWorkloads) -> PreemptionPlan:
    """Return a plan that has suspended two Jobs of two units each, "new" before "old"."""
    make_limit(cast.acme, units=0)
    hopper = make_cluster("hopper")
    for name, age in (("new", 1), ("old", 9)):
        pods = [
            admit(hopper, cast.llm, f"{name}-{n}", controller=f"Job/{name}", age_minutes=age)
            for n in range(2)
        ]
        run_in(workloads, *pods)
    plan = running(cast.acme)
    for minute in range(3):
        step(plan, minutes(minute))
        finish(workloads, at=minutes(minute))
    workloads.asked.clear()
    return plan


def resume(plan: PreemptionPlan) -> list[tuple[str, bool, str]]:
    reported = resume_jobs(plan_id=plan.pk, evictor=EVICTOR, actor=TICK, at=AT)
    return [(one.job, one.is_resumed, one.why) for one in reported]


def test_without_room_nothing_is_resumed(
    plan: PreemptionPlan, workloads: SimulatedWorkloads
) -> None:
    assert resume(plan) == [("new", False, NO_ROOM), ("old", False, NO_ROOM)]
    assert workloads.asked == []


def test_as_many_are_resumed_as_fit(plan: PreemptionPlan, workloads: SimulatedWorkloads) -> None:
    QuotaLimit.objects.update(limit_units=3)

    reported = resume(plan)

    assert reported == [("new", True, ""), ("old", False, NO_ROOM)]
    assert workloads.asked == [("resume", "llm", "new")]
    assert not workloads.jobs["llm", "new"].is_suspended
    rows = PreemptionAction.objects.filter(resumed_at=AT)
    assert sorted(rows.values_list("pod_name", flat=True)) == ["new-0", "new-1"]
    entry = AuditEntry.objects.get(action="quotas:preemption:resume")
    assert entry.facts == {"namespace": "llm", "job": "new", "is_resumed": True, "why": ""}


def test_resuming_again_resumes_only_the_rest(
    plan: PreemptionPlan, workloads: SimulatedWorkloads
) -> None:
    QuotaLimit.objects.update(limit_units=9)
    resume(plan)

    assert resume(plan) == []
    assert workloads.asked == [("resume", "llm", "new"), ("resume", "llm", "old")]


def test_a_job_that_is_gone_is_reported_and_not_asked_about_again(
    plan: PreemptionPlan, workloads: SimulatedWorkloads
) -> None:
    QuotaLimit.objects.update(limit_units=9)
    del workloads.jobs["llm", "new"]

    first, second = resume(plan), resume(plan)

    assert first == [("new", False, "There is no such Job any more."), ("old", True, "")]
    assert second == []


def test_a_cluster_that_is_away_is_reported_and_asked_again(
    plan: PreemptionPlan, workloads: SimulatedWorkloads
) -> None:
    QuotaLimit.objects.update(limit_units=2)
    workloads.failure = "timeout"

    away = resume(plan)
    workloads.failure = ""

    assert away == [(name, False, "The cluster did not answer.") for name in ("new", "old")]
    assert resume(plan)[0] == ("new", True, "")


def test_a_credential_that_is_refused_at_resuming_is_audited(
    plan: PreemptionPlan, workloads: SimulatedWorkloads
) -> None:
    QuotaLimit.objects.update(limit_units=9)
    workloads.failure = "forbidden_address"

    resume(plan)

    (entry,) = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert entry.facts["code"] == "forbidden_address"


def test_another_wall_that_is_exceeded_keeps_nobody_from_resuming(
    cast: Cast, plan: PreemptionPlan
) -> None:
    QuotaLimit.objects.update(limit_units=9)
    make_limit(cast.acme, cast.vision, units=0)
    admit(make_cluster("ampere"), cast.vision, "other")

    assert resume(plan) == [("new", True, ""), ("old", True, "")]


@pytest.mark.parametrize("name", ["alice", "bob", "ann"])
def test_only_the_platform_resumes(cast: Cast, plan: PreemptionPlan, name: str) -> None:
    QuotaLimit.objects.update(limit_units=9)

    with pytest.raises(ForbiddenError):
        resume_jobs(plan_id=plan.pk, evictor=EVICTOR, actor=actor_of(getattr(cast, name)), at=AT)
    assert not PreemptionAction.objects.exclude(resumed_at=None).exists()


def test_a_plan_that_is_not_there_resumes_nothing(cast: Cast) -> None:
    with pytest.raises(NotFoundError):
        resume_jobs(plan_id=new_id(), evictor=EVICTOR, actor=actor_of(cast.frank), at=AT)
