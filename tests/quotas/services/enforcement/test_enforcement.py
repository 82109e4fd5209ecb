"""A target is applied when the cluster says so: level-triggered, fenced, never forced."""

from datetime import timedelta

import pytest

from quotas.models import EnforcementTarget
from quotas.protocols import DesiredQuota, EnforcementEndpoint, LiveQuota
from quotas.selectors.enforcement.targets import due_target_ids
from quotas.services.enforcement.applying import apply_target
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.quotas.builders import audit_actions
from tests.support.quotas.enforcing import GPU, LATER, MIG, SYSTEM, apply, refresh, target_of


@pytest.mark.usefixtures("hopper")
def test_a_target_is_applied_when_the_cluster_says_so(live: ReceivingCluster) -> None:
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
def test_applying_again_asks_nobody(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.failure = "timeout"

    assert apply() == "applied"

    assert audit_actions() == ["quotas:enforcement:plan", "quotas:enforcement:apply"]


@pytest.mark.usefixtures("hopper")
def test_a_status_that_stays_behind_is_not_called_applied(live: ReceivingCluster) -> None:
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
    live: ReceivingCluster,
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
def test_a_missing_namespace_is_a_failure_that_says_so(live: ReceivingCluster) -> None:
    live.missing_namespaces.add("llm")
    refresh()

    assert apply() == "failed"

    assert target_of().last_error == "namespace_missing: The cluster has no namespace llm."


@pytest.mark.usefixtures("hopper")
def test_another_manager_is_named_and_never_overruled(live: ReceivingCluster) -> None:
    live.edit_by_hand("llm", {GPU: 99}, manager="kubectl-edit")
    refresh()

    assert apply() == "conflict"
    assert apply(at=LATER) == "conflict"

    target = target_of()
    assert (target.state, target.applied_generation) == ("conflict", 0)
    assert target.last_error == (
        f"The quota is also managed by kubectl-edit: {GPU} is 99 instead of 8."
    )
    assert live.quotas["llm"].hard == {GPU: 99}
    assert audit_actions() == ["quotas:enforcement:plan", "quotas:enforcement:conflict"]
    assert AuditEntry.objects.latest("pk").facts["managers"] == ["kubectl-edit"]


@pytest.mark.usefixtures("hopper")
def test_a_conflict_ends_when_the_other_steps_aside(live: ReceivingCluster) -> None:
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
def test_an_older_worker_cannot_overwrite_a_newer_quota(live: ReceivingCluster) -> None:
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
def test_an_answer_to_an_older_request_is_not_called_applied() -> None:
    refresh()

    state = apply_target(target_id=target_of().pk, enforcer=SlowEnforcer(), actor=SYSTEM, at=AT)

    assert state == "pending"
    assert (target_of().applied_generation, target_of().state) == (0, "pending")
    assert due_target_ids(at=AT, limit=9) == [target_of().pk]


@pytest.mark.usefixtures("hopper")
def test_a_ledger_behind_its_cluster_counts_on_from_there(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.quotas["llm"].generation = 41
    EnforcementTarget.objects.update(state="pending", applied_generation=0)

    first, second = apply(at=LATER), apply(at=LATER)

    assert (first, second) == ("pending", "applied")
    assert live.quotas["llm"].generation == target_of().applied_generation == 42
    assert audit_actions()[-2:] == ["quotas:enforcement:overtake", "quotas:enforcement:apply"]


@pytest.mark.usefixtures("hopper")
def test_what_cannot_be_written_keeps_nobody_else_waiting(live: ReceivingCluster) -> None:
    """A generation that no column holds is reported by the cluster."""
    refresh()
    apply()
    live.quotas["llm"].generation = 2**63 - 1
    EnforcementTarget.objects.update(state="pending", applied_generation=0)

    assert apply(at=LATER) == "pending"
    assert target_of().desired_generation == 1
    assert "quotas:enforcement:overtake" not in audit_actions()


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
