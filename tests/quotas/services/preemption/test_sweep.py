"""The service sees who is over for how long, and does what the policy says and no more."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from quotas import tasks
from quotas.models import (
    EnforcementTarget,
    PreemptionMode,
    PreemptionPlan,
    PreemptionPolicy,
    Reservation,
)
from quotas.services.preemption import stepping as preemption_stepping
from quotas.services.preemption import sweep as preemption_sweep
from quotas.services.preemption.planning import plan_preemption
from quotas.services.preemption.stepping import step_plan
from quotas.services.preemption.sweep import note_overage, set_policy
from tenants.domain.errors import ForbiddenError
from tenants.domain.refusals import OrganizationClosedError
from tenants.models import AuditEntry, Cluster, Notification, Organization
from tenants.models.organization import LifecycleState
from tests.support.builders import AT, make_cluster, make_organization, make_project
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, make_limit
from tests.support.quotas.preempting import admit, let_go
from tests.support.quotas.preemption_steps import EVICTOR, TICK, run_in

AFTER = timedelta(seconds=900)
"""As PREEMPTION_AFTER_SECONDS says."""


@pytest.fixture
def cluster(cast: Cast) -> Cluster:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=0)
    make_limit(cast.umbrella, units=1)
    run_in(EVICTOR.cluster("hopper"), admit(hopper, cast.llm, "a"))
    admit(hopper, cast.virus, "b")
    return hopper


def look(at: object) -> list[str]:
    due = note_overage(over_for=AFTER, actor=TICK, at=at)  # type: ignore[arg-type]
    return [mode.value for _, mode in due]


@pytest.mark.usefixtures("cluster")
def test_who_is_over_is_noted_with_the_time(cast: Cast) -> None:
    assert look(AT) == []
    assert look(AT + AFTER - timedelta(seconds=1)) == []

    due = note_overage(over_for=AFTER, actor=TICK, at=AT + AFTER)

    assert due == ((cast.acme.pk, PreemptionMode.PROPOSE),)
    (policy,) = PreemptionPolicy.objects.all()
    assert (policy.organization, policy.over_since) == (cast.acme, AT)


def test_who_fits_for_a_moment_begins_anew(cast: Cast, cluster: Cluster) -> None:
    look(AT)
    let_go(Reservation.objects.get(pod_name="a"))
    look(AT + timedelta(minutes=1))
    between = PreemptionPolicy.objects.get().over_since
    admit(cluster, cast.llm, "again")

    later = [look(AT + timedelta(minutes=2)), look(AT + AFTER), look(AT + AFTER * 2)]

    assert between is None
    assert later == [[], [], ["propose"]]


@pytest.mark.usefixtures("cluster")
def test_off_asks_for_nothing(cast: Cast) -> None:
    set_policy(organization=cast.acme, mode=PreemptionMode.OFF, actor=actor_of(cast.frank), at=AT)
    look(AT)

    assert look(AT + AFTER) == []


@pytest.mark.usefixtures("cluster")
def test_a_proposal_is_reported_and_nothing_is_done(cast: Cast) -> None:
    tasks.preempt(AT)
    tasks.preempt(AT + AFTER)
    tasks.preempt(AT + AFTER + timedelta(minutes=30))

    (plan,) = PreemptionPlan.objects.all()
    assert (plan.state, plan.is_dry_run, plan.planned_by) == ("planned", True, "quotas.tick")
    reported = Notification.objects.get()
    assert (reported.event, reported.organization_id) == (
        "quotas:preemption:proposed",
        cast.acme.pk,
    )
    assert "1 large over the limit of organization acme" in reported.text
    assert EVICTOR.cluster("hopper").asked == []


@pytest.mark.usefixtures("cluster")
def test_where_the_policy_says_so_the_plan_is_executed(cast: Cast) -> None:
    set_policy(
        organization=cast.acme, mode=PreemptionMode.EXECUTE, actor=actor_of(cast.frank), at=AT
    )
    grace = timedelta(seconds=300)

    tasks.preempt(AT)
    tasks.preempt(AT + AFTER)
    running = PreemptionPlan.objects.get().state
    before = list(EVICTOR.cluster("hopper").asked)
    tasks.preempt(AT + AFTER + grace)

    assert (running, before) == ("running", [])
    assert EVICTOR.cluster("hopper").asked == [("evict", "llm", "a")]
    assert tasks.preempt(AT + AFTER + grace) == 0


def test_while_a_quota_is_not_applied_it_stays_a_proposal_and_is_tried_again(
    cast: Cast, cluster: Cluster
) -> None:
    Cluster.objects.update(credential_reference="in-cluster")
    PreemptionPolicy.objects.create(organization=cast.acme, mode="execute", over_since=AT)
    EnforcementTarget.objects.create(
        cluster=cluster, namespace="llm", project=cast.llm, not_before=AT
    )

    tasks.preempt(AT + AFTER)
    first = PreemptionPlan.objects.get().state
    EnforcementTarget.objects.all().delete()
    Cluster.objects.update(credential_reference="")
    tasks.preempt(AT + AFTER + timedelta(minutes=1))

    (plan,) = PreemptionPlan.objects.all()
    assert (first, plan.state, plan.executed_by) == ("planned", "running", "quotas.tick")
    assert plan.notified_at == AT + AFTER + timedelta(minutes=1)


@pytest.mark.usefixtures("cluster")
def test_a_plan_of_a_person_is_not_executed_by_a_policy(cast: Cast) -> None:
    PreemptionPolicy.objects.create(organization=cast.acme, mode="execute", over_since=AT)
    plan_preemption(organization=cast.acme, actor=actor_of(cast.frank), at=AT + AFTER)

    tasks.preempt(AT + AFTER)

    assert PreemptionPlan.objects.get().state == "planned"


@pytest.mark.usefixtures("cluster")
def test_one_time_over_the_limits_is_reported_once_and_the_next_again(cast: Cast) -> None:
    tasks.preempt(AT)
    for hour in range(1, 5):
        tasks.preempt(AT + timedelta(hours=hour, minutes=hour))
    once = Notification.objects.filter(event="quotas:preemption:proposed").count()
    PreemptionPolicy.objects.filter(organization=cast.acme).update(over_since=AT + 5 * AFTER)
    tasks.preempt(AT + timedelta(hours=9))

    assert PreemptionPlan.objects.count() >= 4
    assert once == 1
    assert Notification.objects.filter(event="quotas:preemption:proposed").count() == 2


@pytest.mark.usefixtures("cluster")
def test_a_plan_that_cannot_be_reported_is_not_made(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("Planted.")

    monkeypatch.setattr(preemption_sweep, "notify", fail)
    PreemptionPolicy.objects.create(organization=cast.acme, mode="propose", over_since=AT)

    assert tasks.preempt(AT + AFTER) == 0
    assert not PreemptionPlan.objects.exists()


@pytest.mark.usefixtures("cluster")
def test_a_tenant_that_crashes_does_not_keep_the_others_from_their_turn(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash_for_acme(*, plan_id: object, **given: object) -> object:
        plan = PreemptionPlan.objects.get(pk=plan_id)  # type: ignore[misc]
        if plan.organization == cast.acme:
            raise RuntimeError("Planted.")
        return step_plan(plan_id=plan_id, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(preemption_stepping, "step_plan", crash_for_acme)
    for organization in (cast.acme, cast.umbrella):
        PreemptionPlan.objects.create(
            organization=organization,
            reason="over_limit",
            state="running",
            planned_by="frank",
            created_at=AT,
            expires_at=AT + timedelta(hours=1),
            not_before=AT,
        )

    done = tasks.preempt(AT)

    states = PreemptionPlan.objects.order_by("organization__slug").values_list("state", flat=True)
    assert (done, list(states)) == (1, ["running", "done"])


@pytest.mark.usefixtures("cast")
def test_the_number_of_statements_does_not_grow_with_tenants() -> None:
    hopper = make_cluster("hopper")
    counts = []
    for number in range(3):
        for place in range(3):
            organization = make_organization(f"org-{number}-{place}")
            make_limit(organization, units=0)
            admit(hopper, make_project(organization, "p"), f"pod-{number}-{place}")
        with CaptureQueriesContext(connection) as asked:
            look(AT)
        counts.append(len(asked))

    assert counts[1] == counts[2]
    assert PreemptionPolicy.objects.count() == 9


@pytest.mark.parametrize("name", ["alice", "bob", "ann", "dora"])
def test_only_the_platform_says_what_is_done_by_itself(cast: Cast, name: str) -> None:
    with pytest.raises(ForbiddenError):
        set_policy(
            organization=cast.acme,
            mode=PreemptionMode.EXECUTE,
            actor=actor_of(getattr(cast, name)),
            at=AT,
        )
    assert not PreemptionPolicy.objects.exists()


def test_the_default_is_reported_when_it_is_first_said_and_not_again(cast: Cast) -> None:
    for hours in range(2):
        policy = set_policy(
            organization=cast.acme,
            mode=PreemptionMode.PROPOSE,
            actor=actor_of(cast.frank),
            at=AT + timedelta(hours=hours),
        )

    assert (policy.mode, policy.version, policy.changed_at) == ("propose", 1, AT)
    entry = AuditEntry.objects.get(action="quotas:preemption_policy:set")
    assert entry.facts == {"mode": "propose", "mode_before": "propose"}


def test_what_the_service_only_noted_is_no_policy_that_somebody_made(cast: Cast) -> None:
    PreemptionPolicy.objects.create(organization=cast.acme, over_since=AT)

    set_policy(
        organization=cast.acme, mode=PreemptionMode.PROPOSE, actor=actor_of(cast.frank), at=AT
    )

    assert not AuditEntry.objects.filter(action="quotas:preemption_policy:set").exists()
    assert PreemptionPolicy.objects.get().changed_at is None


@pytest.mark.parametrize("mode", [PreemptionMode.PROPOSE, PreemptionMode.EXECUTE])
def test_nothing_is_said_of_an_organization_that_is_closed(
    cast: Cast, mode: PreemptionMode
) -> None:
    Organization.objects.filter(pk=cast.acme.pk).update(state=LifecycleState.CLOSED)

    with pytest.raises(OrganizationClosedError) as error:
        set_policy(organization=cast.acme, mode=mode, actor=actor_of(cast.frank), at=AT)

    assert (error.value.code, error.value.field) == ("organization_closed", "organization")
    assert not PreemptionPolicy.objects.exists()
    assert not AuditEntry.objects.filter(action="quotas:preemption_policy:set").exists()


def test_a_policy_is_kept_and_reported_once(cast: Cast) -> None:
    for _ in range(2):
        policy = set_policy(
            organization=cast.acme, mode=PreemptionMode.OFF, actor=actor_of(cast.frank), at=AT
        )

    assert (policy.mode, policy.version, policy.changed_at) == ("off", 2, AT)
    entry = AuditEntry.objects.get(action="quotas:preemption_policy:set")
    assert entry.facts == {"mode": "off", "mode_before": "propose"}
