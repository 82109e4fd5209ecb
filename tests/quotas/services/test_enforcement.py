"""Limits become true in the clusters: level-triggered, fenced, never forced."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from quotas.adapters.simulated import SimulatedCluster, SimulatedQuotaEnforcer
from quotas.models import EnforcementTarget
from quotas.protocols import DesiredQuota, EnforcementEndpoint, LiveQuota
from quotas.selectors.enforcement import DRIFT_CHECK_EVERY, due_target_ids, unread_target_ids
from quotas.services.enforcement import apply_target, check_target, refresh_targets
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, Cluster
from tests.builders import AT, bind, make_cluster
from tests.cast import Cast
from tests.quotas.builders import audit_actions, hold, make_limit, see_size

SYSTEM = system_actor("tests")
GPU, MIG = "requests.nvidia.com/gpu", "requests.nvidia.com/mig-1g.10gb"
LATER = AT + timedelta(minutes=1)


@pytest.fixture
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=8)
    return cluster


@pytest.fixture
def live() -> SimulatedCluster:
    return SimulatedQuotaEnforcer.cluster("hopper")


def target_of(namespace: str = "llm") -> EnforcementTarget:
    return EnforcementTarget.objects.get(namespace=namespace)


def refresh() -> int:
    return refresh_targets(at=AT, actor=SYSTEM)


def apply(namespace: str = "llm", *, at: object = AT) -> str:
    return apply_target(
        target_id=target_of(namespace).pk,
        enforcer=SimulatedQuotaEnforcer(),
        actor=SYSTEM,
        at=at,  # type: ignore[arg-type]
    )


# ---------------------------------------------------------------- planning


def test_a_limit_becomes_the_desired_quota_of_its_namespace(hopper: Cluster, cast: Cast) -> None:
    assert refresh() == 1

    target = target_of()
    assert (target.cluster, target.project) == (hopper, cast.llm)
    assert target.desired_hard == {GPU: 8, MIG: 0}
    assert (target.desired_generation, target.applied_generation) == (1, 0)
    assert (target.state, target.not_before) == ("pending", AT)
    assert audit_actions() == ["quotas:enforcement:plan"]


@pytest.mark.usefixtures("hopper")
def test_planning_again_changes_nothing() -> None:
    refresh()

    assert refresh() == 0

    assert target_of().desired_generation == 1
    assert audit_actions() == ["quotas:enforcement:plan"]


@pytest.mark.usefixtures("hopper")
def test_a_changed_limit_raises_the_generation_and_makes_the_target_due(cast: Cast) -> None:
    refresh()
    apply()
    assert due_target_ids(at=AT, limit=9) == []
    cast.llm.quota_limits.update(limit_units=3)

    assert refresh() == 1

    target = target_of()
    assert (target.desired_hard[GPU], target.desired_generation) == (3, 2)
    assert (target.applied_generation, target.ceiling_hard[GPU]) == (1, 8)
    assert due_target_ids(at=AT, limit=9) == [target.pk]


def test_a_namespace_without_any_limit_above_it_is_left_alone(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "virus", cast.virus)

    refresh()

    assert [t.namespace for t in EnforcementTarget.objects.all()] == ["llm"]


def test_a_binding_counts_only_while_it_is_valid(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "old", cast.llm, end_at=AT)
    bind(hopper, "new", cast.llm, begin_at=AT + timedelta(hours=1))

    refresh()

    assert [t.namespace for t in EnforcementTarget.objects.all()] == ["llm"]


def test_a_namespace_whose_binding_ends_falls_to_zero(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "old", cast.llm, end_at=AT + timedelta(hours=1))
    refresh()

    refresh_targets(at=AT + timedelta(hours=1), actor=SYSTEM)

    assert target_of("old").desired_hard == {GPU: 0, MIG: 0}


@pytest.mark.parametrize("what", ["project", "organization"])
def test_what_is_closed_may_hold_nothing(hopper: Cluster, cast: Cast, what: str) -> None:
    refresh()
    closed = cast.llm if what == "project" else cast.acme
    closed.state = "closed"
    closed.save()

    refresh()

    assert target_of().cluster == hopper
    assert target_of().desired_hard == {GPU: 0, MIG: 0}


def test_a_closed_or_unreachable_cluster_is_not_planned(hopper: Cluster, cast: Cast) -> None:
    hopper.state = "closed"
    hopper.save()
    bind(make_cluster("blind", kubernetes_url="", credential_reference=""), "llm", cast.llm)

    assert refresh() == 0

    assert not EnforcementTarget.objects.exists()


def test_two_namespaces_share_the_limit_by_use(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "llm-serve", cast.llm)
    hold(hopper, "llm-serve", units=3)
    hold(hopper, "llm-serve", units=9, end_at=AT)

    refresh()

    assert target_of("llm").desired_hard[GPU] == 1
    assert target_of("llm-serve").desired_hard[GPU] == 7


def test_a_share_is_raised_only_after_the_lowered_one_was_seen_to_arrive(
    hopper: Cluster, cast: Cast
) -> None:
    bind(hopper, "llm-serve", cast.llm)
    refresh()
    apply("llm")
    apply("llm-serve")
    hold(hopper, "llm", units=4)

    refresh()
    first = (target_of("llm").desired_hard[GPU], target_of("llm-serve").desired_hard[GPU])
    apply("llm-serve")
    refresh()
    second = (target_of("llm").desired_hard[GPU], target_of("llm-serve").desired_hard[GPU])

    assert first == (4, 1)
    assert second == (7, 1)


def test_nvidia_gpu_counts_to_the_size_that_metering_saw(hopper: Cluster) -> None:
    see_size(hopper, "nvidia.com/gpu", "small")

    refresh()

    assert target_of().desired_hard == {GPU: 0, MIG: 0}


def test_the_number_of_statements_does_not_grow_with_namespaces(
    hopper: Cluster, cast: Cast
) -> None:
    def statements() -> int:
        EnforcementTarget.objects.all().delete()
        with CaptureQueriesContext(connection) as captured:
            refresh()
        return len(captured)

    few = statements()
    for number in range(40):
        bind(hopper, f"extra-{number}", cast.vision if number % 2 else cast.virus)
        hold(hopper, f"extra-{number}")
    make_limit(cast.acme, cast.vision)
    make_limit(cast.umbrella, units=20)

    assert statements() == few
    assert EnforcementTarget.objects.count() == 41


# ---------------------------------------------------------------- applying


@pytest.mark.usefixtures("hopper")
def test_a_target_is_applied_when_the_cluster_says_so(live: SimulatedCluster) -> None:
    live.use("llm", {GPU: 2})
    refresh()

    assert apply() == "applied"

    target = target_of()
    assert (target.state, target.applied_generation, target.attempt) == ("applied", 1, 0)
    assert target.live_hard == target.ceiling_hard == {GPU: 8, MIG: 0}
    assert target.live_used == {GPU: 2, MIG: 0}
    assert target.applied_at == target.checked_at == AT
    assert live.quotas["llm"].generation == 1
    entry = AuditEntry.objects.latest("pk")
    assert entry.action == "quotas:enforcement:apply"
    assert entry.facts["after"] == {GPU: 8, MIG: 0}


@pytest.mark.usefixtures("hopper")
def test_applying_again_asks_nobody(live: SimulatedCluster) -> None:
    refresh()
    apply()
    live.failure = "timeout"

    assert apply() == "applied"

    assert audit_actions() == ["quotas:enforcement:plan", "quotas:enforcement:apply"]


@pytest.mark.usefixtures("hopper")
def test_a_status_that_stays_behind_is_not_called_applied(live: SimulatedCluster) -> None:
    refresh()
    live.is_status_late = True

    assert apply() == "pending"
    waiting = target_of()
    live.is_status_late = False
    assert apply(at=LATER) == "applied"

    assert (waiting.applied_generation, waiting.attempt) == (0, 1)
    assert waiting.not_before == AT + timedelta(seconds=5)
    assert waiting.last_error == "The cluster took the quota, but its status does not say so yet."
    assert target_of().last_error == ""


@pytest.mark.usefixtures("hopper")
def test_a_cluster_that_does_not_answer_is_asked_again_with_growing_waits(
    live: SimulatedCluster,
) -> None:
    live.failure = "timeout"
    refresh()

    states, waits, now = [], [], AT
    for _ in range(3):
        states.append(apply(at=now))
        waits.append((target_of().not_before - now).total_seconds())
        now = target_of().not_before
    early = apply(at=now - timedelta(seconds=1))

    assert states == ["failed"] * 3
    assert waits == [5, 10, 20]
    assert early == "failed"
    assert target_of().attempt == 3
    assert target_of().last_error == "timeout: The cluster did not answer."
    assert audit_actions() == ["quotas:enforcement:plan"]


@pytest.mark.usefixtures("hopper")
def test_a_missing_namespace_is_a_failure_that_says_so(live: SimulatedCluster) -> None:
    live.missing_namespaces.add("llm")
    refresh()

    assert apply() == "failed"

    assert target_of().last_error == "namespace_missing: The cluster has no namespace llm."


@pytest.mark.usefixtures("hopper")
def test_another_manager_is_named_and_never_overruled(live: SimulatedCluster) -> None:
    live.edit_by_hand("llm", {GPU: 99}, manager="kubectl-edit")
    refresh()

    assert apply() == "conflict"
    assert apply(at=LATER) == "conflict"

    target = target_of()
    assert (target.state, target.applied_generation) == ("conflict", 0)
    assert target.last_error == "The quota is also managed by kubectl-edit."
    assert live.quotas["llm"].hard == {GPU: 99}
    assert audit_actions() == ["quotas:enforcement:plan", "quotas:enforcement:conflict"]
    assert AuditEntry.objects.latest("pk").facts["managers"] == ["kubectl-edit"]


@pytest.mark.usefixtures("hopper")
def test_a_conflict_ends_when_the_other_steps_aside(live: SimulatedCluster) -> None:
    live.edit_by_hand("llm", {GPU: 99}, manager="kubectl-edit")
    refresh()
    apply()
    live.delete_by_hand("llm")

    assert apply(at=LATER) == "applied"


class OvertakenEnforcer(SimulatedQuotaEnforcer):
    """While it speaks with the cluster, the limit changes and another worker applies it."""

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        EnforcementTarget.objects.update(
            desired_generation=desired.generation + 1, desired_hard={GPU: 2, MIG: 0}, not_before=AT
        )
        newer = DesiredQuota(desired.namespace, {GPU: 2, MIG: 0}, desired.generation + 1)
        super().apply(endpoint, newer)
        return super().apply(endpoint, desired)


@pytest.mark.usefixtures("hopper")
def test_an_older_worker_cannot_overwrite_a_newer_quota(live: SimulatedCluster) -> None:
    refresh()

    late = apply_target(target_id=target_of().pk, enforcer=OvertakenEnforcer(), actor=SYSTEM, at=AT)

    assert late == "pending"
    assert live.quotas["llm"].hard == {GPU: 2, MIG: 0}
    assert live.quotas["llm"].generation == target_of().desired_generation == 2
    assert audit_actions() == ["quotas:enforcement:plan"]
    assert apply(at=LATER) == "applied"


class SlowEnforcer(SimulatedQuotaEnforcer):
    """The limit changes after the cluster took the old one and before that is written down."""

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        live = super().apply(endpoint, desired)
        EnforcementTarget.objects.update(desired_generation=desired.generation + 1, not_before=AT)
        return live


@pytest.mark.usefixtures("hopper")
def test_an_answer_to_an_older_wish_is_not_called_applied() -> None:
    refresh()

    state = apply_target(target_id=target_of().pk, enforcer=SlowEnforcer(), actor=SYSTEM, at=AT)

    assert state == "pending"
    assert (target_of().applied_generation, target_of().state) == (0, "pending")
    assert due_target_ids(at=AT, limit=9) == [target_of().pk]


@pytest.mark.usefixtures("hopper")
def test_a_ledger_behind_its_cluster_counts_on_from_there(live: SimulatedCluster) -> None:
    refresh()
    apply()
    live.quotas["llm"].generation = 41
    EnforcementTarget.objects.update(state="pending", applied_generation=0)

    first, second = apply(at=LATER), apply(at=LATER)

    assert (first, second) == ("pending", "applied")
    assert live.quotas["llm"].generation == target_of().applied_generation == 42
    assert audit_actions()[-2:] == ["quotas:enforcement:overtake", "quotas:enforcement:apply"]


class CountingEnforcer(SimulatedQuotaEnforcer):
    """Lets a second worker try the same target while it is being applied."""

    calls = 0

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        type(self).calls += 1
        if self.calls == 1:
            apply_target(target_id=target_of().pk, enforcer=self, actor=SYSTEM, at=AT)
        return super().apply(endpoint, desired)


@pytest.mark.usefixtures("hopper")
def test_a_target_is_applied_by_one_worker_at_a_time() -> None:
    refresh()

    apply_target(target_id=target_of().pk, enforcer=CountingEnforcer(), actor=SYSTEM, at=AT)

    assert CountingEnforcer.calls == 1


# ---------------------------------------------------------------- drift


def check(*, at: object = LATER) -> str:
    return check_target(
        target_id=target_of().pk,
        enforcer=SimulatedQuotaEnforcer(),
        actor=SYSTEM,
        at=at,  # type: ignore[arg-type]
    )


@pytest.mark.usefixtures("hopper")
def test_a_quota_that_holds_is_only_looked_at(live: SimulatedCluster) -> None:
    refresh()
    apply()
    live.use("llm", {GPU: 5})
    when = AT + DRIFT_CHECK_EVERY

    due = (
        unread_target_ids(at=when - timedelta(seconds=1), limit=9),
        unread_target_ids(at=when, limit=9),
    )
    state = check(at=when)

    assert due == ([], [target_of().pk])
    assert state == "applied"
    assert (target_of().checked_at, target_of().live_used[GPU]) == (when, 5)
    assert unread_target_ids(at=when, limit=9) == []
    assert audit_actions()[-1] == "quotas:enforcement:apply"


@pytest.mark.usefixtures("hopper")
def test_a_deleted_quota_is_restored_with_an_audit_entry(live: SimulatedCluster) -> None:
    refresh()
    apply()
    live.delete_by_hand("llm")

    assert check() == "applied"

    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert target_of().drifted_at is None
    entry = AuditEntry.objects.latest("pk")
    assert entry.action == "quotas:enforcement:drift_corrected"
    assert (entry.facts["before"], entry.facts["after"]) == ({}, {GPU: 8, MIG: 0})


@pytest.mark.usefixtures("hopper")
def test_a_quota_edited_by_hand_is_reported_with_its_editor(live: SimulatedCluster) -> None:
    refresh()
    apply()
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")

    assert check() == "conflict"

    target = target_of()
    assert (target.drifted_at, target.live_hard[GPU], target.ceiling_hard[GPU]) == (LATER, 64, 64)
    assert live.quotas["llm"].hard[GPU] == 64
    assert audit_actions()[-1] == "quotas:enforcement:conflict"


@pytest.mark.usefixtures("hopper")
def test_a_cluster_that_cannot_be_read_keeps_its_state_and_says_why(
    live: SimulatedCluster,
) -> None:
    refresh()
    apply()
    live.failure = "unreachable"

    assert check() == "applied"

    assert target_of().last_error == "unreachable: The cluster did not answer."
    assert target_of().checked_at == LATER


@pytest.mark.usefixtures("hopper")
def test_a_target_that_is_not_applied_is_not_checked(live: SimulatedCluster) -> None:
    refresh()
    live.failure = "unreachable"

    assert check() == "pending"

    assert target_of().checked_at is None
