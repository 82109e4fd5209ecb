"""A person has namespaces applied again, or read again, at once."""

import pytest

from quotas.models import EnforcementTarget
from quotas.services.enforcement.applying import apply_again, read_again
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.quotas.builders import audit_actions
from tests.support.quotas.enforcing import GPU, LATER, MIG, SYSTEM, apply, refresh, target_of

pytestmark = pytest.mark.usefixtures("hopper")


def again() -> int:
    return apply_again(
        target_ids=[target_of().pk], enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=LATER
    )


def read() -> int:
    return read_again(
        target_ids=[target_of().pk], enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=LATER
    )


def test_an_applied_namespace_is_reported_again_and_it_is_written_down() -> None:
    refresh()
    apply()

    assert again() == 1

    assert (target_of().state, target_of().applied_at) == ("applied", LATER)
    assert audit_actions()[-2:] == ["quotas:enforcement:apply_again", "quotas:enforcement:apply"]
    entry = AuditEntry.objects.get(action="quotas:enforcement:apply_again")
    assert entry.facts == {
        "cluster": "hopper",
        "namespace": "llm",
        "state": "applied",
        "generation": 1,
    }


def test_a_credential_that_is_refused_at_reading_again_is_audited(live: ReceivingCluster) -> None:
    refresh()
    live.failure = "credentials_forbidden"

    read()

    (entry,) = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert entry.facts == {"code": "credentials_forbidden", "cluster": "hopper"}


def test_a_failed_one_does_not_wait_for_its_turn(live: ReceivingCluster) -> None:
    live.failure = "timeout"
    refresh()
    apply()
    live.failure = ""
    EnforcementTarget.objects.update(not_before=LATER.replace(year=2030), attempt=9)

    assert again() == 1

    assert (target_of().state, target_of().attempt) == ("applied", 0)


def test_who_is_still_in_the_way_is_reported_again(live: ReceivingCluster) -> None:
    live.edit_by_hand("llm", {GPU: 99}, manager="kubectl-edit")
    refresh()
    apply()

    assert again() == 0

    assert target_of().state == "conflict"
    assert live.quotas["llm"].hard == {GPU: 99}


def test_reading_again_repairs_drift(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.delete_by_hand("llm")

    assert read() == 1

    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert target_of().drifts_repaired == 1


def test_reading_what_is_not_applied_only_shows_it(live: ReceivingCluster) -> None:
    live.edit_by_hand("llm", {GPU: 99}, manager="kubectl-edit")
    refresh()
    before = audit_actions()

    assert read() == 0

    target = target_of()
    assert (target.state, target.live_hard, target.checked_at) == ("pending", {GPU: 99}, LATER)
    assert audit_actions() == before


def test_a_cluster_that_cannot_be_read_changes_nothing(live: ReceivingCluster) -> None:
    refresh()
    live.failure = "timeout"

    assert read() == 0

    assert (target_of().checked_at, target_of().not_before) == (None, AT)
