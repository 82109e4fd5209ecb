"""Quotas that others delete or edit again and again, and taking them over by request."""

from datetime import datetime, timedelta

import pytest

from quotas.models import EnforcementTarget
from quotas.selectors.enforcement.targets import due_target_ids
from quotas.services.enforcement.applying import apply_again, check_target, force_targets
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.quotas.builders import audit_actions
from tests.support.quotas.enforcing import GPU, LATER, MIG, SYSTEM, apply, refresh, target_of

pytestmark = pytest.mark.usefixtures("hopper")


def deleted(live: ReceivingCluster, at: datetime) -> str:
    """Delete the quota, and return its target's state after the next reading."""
    live.delete_by_hand("llm")
    return check_target(
        target_id=target_of().pk, enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=at
    )


def moment(seconds: int) -> datetime:
    return LATER + timedelta(seconds=seconds)


def pruned(live: ReceivingCluster, times: int) -> list[str]:
    """Apply, then delete once a minute; return the states after each deletion."""
    refresh()
    apply()
    return [deleted(live, moment(60 * number)) for number in range(times)]


def test_a_quota_that_is_deleted_a_fourth_time_within_ten_minutes_is_a_conflict(
    live: ReceivingCluster,
) -> None:
    states = pruned(live, 4)

    assert states == ["applied", "applied", "applied", "conflict"]
    target = target_of()
    assert "llm" not in live.quotas
    assert (target.drifts_repaired, target.drifted_at) == (3, moment(180))
    assert target.not_before == moment(600)
    assert "deleted or changed again after 3 repairs within 10 minutes" in target.last_error
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, len(entry.facts["repaired_at"])) == ("quotas:enforcement:conflict", 3)


def test_it_is_tried_again_once_the_first_repair_is_ten_minutes_ago(
    live: ReceivingCluster,
) -> None:
    pruned(live, 4)

    assert due_target_ids(at=moment(599), limit=9) == []
    assert due_target_ids(at=moment(600), limit=9) == [target_of().pk]
    assert apply(at=moment(600)) == "applied"
    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert deleted(live, moment(610)) == "conflict"
    assert target_of().not_before == moment(660)


def test_deletions_further_apart_are_repaired_each_time(live: ReceivingCluster) -> None:
    refresh()
    apply()

    states = [deleted(live, LATER + timedelta(minutes=6 * number)) for number in range(5)]

    assert states == ["applied"] * 5
    assert target_of().drifts_repaired == 5


def test_a_person_who_applies_again_ends_the_wait(live: ReceivingCluster) -> None:
    pruned(live, 4)

    applied = apply_again(
        target_ids=[target_of().pk],
        enforcer=SimulatedQuotaEnforcer(),
        actor=SYSTEM,
        at=moment(200),
    )

    assert (applied, target_of().state) == (1, "applied")
    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert deleted(live, moment(210)) == "applied"


def test_a_conflict_names_its_editor_and_what_differs(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")

    check_target(
        target_id=target_of().pk, enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=LATER
    )

    difference = f"{GPU} is 64 instead of 8"
    assert target_of().last_error == (f"The quota is also managed by kubectl-edit: {difference}.")
    facts = AuditEntry.objects.latest("pk").facts
    assert (facts["managers"], facts["differences"]) == (["kubectl-edit"], [difference])


def force(at: datetime = LATER) -> int:
    return force_targets(
        target_ids=[target_of().pk], enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=at
    )


def test_forcing_overwrites_the_editor_and_is_written_down(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")
    check_target(
        target_id=target_of().pk, enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=LATER
    )

    assert force() == 1

    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert live.quotas["llm"].others == ()
    assert (target_of().state, target_of().last_error) == ("applied", "")
    assert audit_actions()[-2:] == [
        "quotas:enforcement:force",
        "quotas:enforcement:drift_corrected",
    ]
    entry = AuditEntry.objects.get(action="quotas:enforcement:force")
    assert (entry.facts["state"], entry.facts["live"]) == ("conflict", {GPU: 64, MIG: 0})


def test_only_that_once_is_forced(live: ReceivingCluster) -> None:
    refresh()
    apply()
    force()
    live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")
    EnforcementTarget.objects.update(state="pending", not_before=AT)

    assert apply(at=LATER) == "conflict"

    assert live.quotas["llm"].hard[GPU] == 64
