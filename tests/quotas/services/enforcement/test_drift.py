"""What was applied is read again, and repaired or reported."""

from datetime import datetime, timedelta

import pytest

from quotas.models import QuotaLimit
from quotas.selectors.enforcement.targets import DRIFT_CHECK_EVERY, unread_target_ids
from quotas.services.enforcement.applying import check_target
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.quotas.builders import audit_actions
from tests.support.quotas.enforcing import GPU, LATER, MIG, SYSTEM, apply, refresh, target_of


def check(*, at: datetime = LATER) -> str:
    return check_target(
        target_id=target_of().pk,
        enforcer=SimulatedQuotaEnforcer(),
        actor=SYSTEM,
        at=at,
    )


@pytest.mark.usefixtures("hopper")
def test_a_quota_that_holds_is_only_looked_at(live: ReceivingCluster) -> None:
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
def test_a_deleted_quota_is_restored_with_an_audit_entry(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.delete_by_hand("llm")

    assert check() == "applied"

    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert (target_of().drifted_at, target_of().drifts_repaired) == (None, 1)
    entry = AuditEntry.objects.latest("pk")
    assert entry.action == "quotas:enforcement:drift_corrected"
    assert (entry.facts["before"], entry.facts["after"]) == ({}, {GPU: 8, MIG: 0})
    assert entry.facts["managers"] == []


@pytest.mark.usefixtures("hopper")
def test_a_quota_edited_by_hand_is_reported_with_its_editor(live: ReceivingCluster) -> None:
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
    live: ReceivingCluster,
) -> None:
    refresh()
    apply()
    live.failure = "unreachable"

    assert check() == "applied"

    assert target_of().last_error == "unreachable: The cluster did not answer."


@pytest.mark.usefixtures("hopper")
def test_a_try_that_failed_is_no_reading_and_waits_as_long_again(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.failure = "unreachable"

    check()

    assert (target_of().checked_at, target_of().not_before) == (AT, LATER + DRIFT_CHECK_EVERY)
    soon, due = LATER + timedelta(minutes=9), LATER + DRIFT_CHECK_EVERY
    assert unread_target_ids(at=soon, limit=9) == []
    assert unread_target_ids(at=due, limit=9) == [target_of().pk]


@pytest.mark.usefixtures("hopper")
def test_what_is_in_conflict_was_not_read(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")
    check()

    assert apply(at=LATER.replace(hour=23)) == "conflict"

    assert target_of().checked_at == LATER


@pytest.mark.usefixtures("hopper")
def test_a_target_that_is_not_applied_is_not_checked(live: ReceivingCluster) -> None:
    refresh()
    live.failure = "unreachable"

    assert check() == "pending"

    assert target_of().checked_at is None


@pytest.mark.usefixtures("hopper")
def test_anyone_who_changed_it_stands_in_the_trail_once_it_is_repaired(
    live: ReceivingCluster,
) -> None:
    refresh()
    apply()
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")
    check()
    live.quotas["llm"].owners[GPU] = set()

    assert apply(at=LATER.replace(hour=23)) == "applied"

    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.facts["managers"]) == (
        "quotas:enforcement:drift_corrected",
        ["kubectl-edit"],
    )
    assert (target_of().drift_managers, target_of().drifts_repaired) == ([], 1)


@pytest.mark.usefixtures("hopper")
def test_a_quota_of_another_name_is_shown_and_no_drift(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.add_foreign("llm", "team-made", {GPU: 1})

    assert check() == "applied"

    assert target_of().foreign_quotas == {"team-made": {GPU: 1}}
    assert (target_of().drifted_at, target_of().drifts_repaired) == (None, 0)


@pytest.mark.usefixtures("hopper")
def test_a_burst_wall_that_was_taken_down_is_drift(live: ReceivingCluster) -> None:
    QuotaLimit.objects.update(burst_units=2)
    refresh()
    apply()
    live.quotas["llm"].burst = {}

    assert check() == "applied"

    assert live.quotas["llm"].burst == {GPU: 2, MIG: 0}
    facts = AuditEntry.objects.latest("pk").facts
    assert (facts["before_burst"], facts["after_burst"]) == ({}, {GPU: 2, MIG: 0})


@pytest.mark.usefixtures("hopper")
def test_a_credential_that_is_refused_at_use_is_audited_once_a_day(live: ReceivingCluster) -> None:
    refresh()
    live.failure = "credentials_forbidden"
    apply()
    live.failure = ""
    apply(at=LATER)
    live.failure = "credentials_forbidden"
    check()

    (entry,) = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert (entry.facts["code"], entry.object_kind) == ("credentials_forbidden", "cluster")
    assert entry.object_id == str(target_of().cluster_id)
