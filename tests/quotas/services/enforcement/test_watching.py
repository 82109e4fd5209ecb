"""The watch of our quotas: what is deleted or edited is noticed at once, use is not."""

from collections.abc import Iterator

import pytest

from quotas.models import EnforcementTarget
from quotas.protocols import EnforcementEndpoint, LiveQuota
from quotas.services.enforcement import watching
from quotas.services.enforcement.asking import endpoint_of
from quotas.services.enforcement.watching import EnforcedCluster, QuotaWatcher, keep_quotas
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tests.support.quotas.enforcing import GPU, LATER, MIG, SYSTEM, apply, refresh, target_of
from tests.support.quotas.scripted import ScriptedStop, Step

pytestmark = pytest.mark.usefixtures("hopper")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0)


class CountingEnforcer(SimulatedQuotaEnforcer):
    """An enforcer that counts how often a namespace is read alone."""

    reads = 0

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        type(self).reads += 1
        return super().read(endpoint, namespace)


def keep(script: Iterator[Step]) -> ScriptedStop:
    """Watch until the script has ended."""
    target, stop = target_of(), ScriptedStop(script)
    CountingEnforcer.reads = 0
    keep_quotas(
        cluster=EnforcedCluster(target.cluster_id, endpoint_of(target)),
        watcher=QuotaWatcher(
            watch=SimulatedQuotaEnforcer(),
            enforcer=CountingEnforcer(),
            actor=SYSTEM,
            clock=lambda: LATER,
            stop=stop,
        ),
    )
    return stop


def is_back(live: ReceivingCluster) -> bool:
    return "llm" in live.quotas and target_of().state == "applied"


def test_a_deleted_quota_is_back_at_once(live: ReceivingCluster) -> None:
    refresh()
    apply()

    def script() -> Iterator[Step]:
        yield lambda: live.watches == 1
        yield lambda: live.delete_by_hand("llm")
        yield lambda: is_back(live)

    keep(script())

    assert live.quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert target_of().drifts_repaired == 1


def test_an_edited_quota_is_a_conflict_at_once_and_shows_its_values(live: ReceivingCluster) -> None:
    refresh()
    apply()

    def script() -> Iterator[Step]:
        yield lambda: live.watches == 1
        yield lambda: live.edit_by_hand("llm", {GPU: 64}, manager="kubectl-edit")
        yield lambda: target_of().state == "conflict"
        yield lambda: live.edit_by_hand("llm", {GPU: 65}, manager="kubectl-edit")
        yield lambda: target_of().live_hard[GPU] == 65

    keep(script())

    assert live.quotas["llm"].hard[GPU] == 65
    assert "kubectl-edit" in target_of().last_error


def test_what_was_deleted_before_the_watch_began_is_back(live: ReceivingCluster) -> None:
    refresh()
    apply()
    live.delete_by_hand("llm")

    keep(iter([lambda: is_back(live)]))

    assert target_of().drifts_repaired == 1


def test_what_is_as_applied_is_not_read_again(live: ReceivingCluster) -> None:
    refresh()
    apply()
    version = len(live.events)

    def script() -> Iterator[Step]:
        yield lambda: live.watches == 1
        # The object changes in what is used only.
        yield lambda: live.note("llm")
        yield lambda: live.note("llm")
        yield lambda: stop_after.pop() == 0

    stop_after = list(range(20))
    keep(script())

    assert len(live.events) == version + 2
    assert CountingEnforcer.reads == 0


def test_a_version_that_expired_is_listed_again_and_nothing_is_missed(
    live: ReceivingCluster,
) -> None:
    refresh()
    apply()

    def lose() -> bool:
        with live.lock:
            live.delete_by_hand("llm")
            live.purge_history()
        return True

    def script() -> Iterator[Step]:
        yield lambda: live.watches == 1
        yield lambda: live.note("llm")
        yield lose
        yield lambda: live.watches == 2 and is_back(live)

    stop = keep(script())

    assert stop.waits == [1]
    assert target_of().drifts_repaired == 1


@pytest.mark.parametrize(
    ("failure", "waits"), [("unreachable", [1, 2, 4, 4, 4]), ("forbidden", [1, 2, 4, 8, 16])]
)
def test_a_cluster_that_is_away_is_tried_every_four_seconds_one_that_refuses_less_often(
    live: ReceivingCluster, failure: str, waits: list[int]
) -> None:
    refresh()
    apply()
    live.delete_by_hand("llm")
    live.failure = failure
    looks = iter(range(100))

    def script() -> Iterator[Step]:
        yield lambda: next(looks) > 16
        yield lambda: setattr(live, "failure", "")
        yield lambda: is_back(live)

    stop = keep(script())

    assert stop.waits[:5] == waits
    assert max(stop.waits) <= 60


def test_a_namespace_that_is_just_being_applied_is_read_again_after_that(
    live: ReceivingCluster,
) -> None:
    refresh()
    apply()

    def script() -> Iterator[Step]:
        yield lambda: live.watches == 1
        yield lambda: EnforcementTarget.objects.update(state="pending", not_before=LATER) == 1
        yield lambda: live.delete_by_hand("llm")
        yield lambda: target_of().checked_at == LATER
        yield lambda: EnforcementTarget.objects.update(state="applied") == 1
        yield lambda: is_back(live)

    keep(script())

    assert target_of().drifts_repaired == 1


def test_a_namespace_of_nobody_changes_nothing(live: ReceivingCluster) -> None:
    refresh()
    apply()
    before = EnforcementTarget.objects.values().get()

    def script() -> Iterator[Step]:
        yield lambda: live.watches == 1
        yield lambda: live.edit_by_hand("stray", {GPU: 1}, manager="kubectl")
        yield lambda: stop_after.pop() == 0

    stop_after = list(range(10))
    keep(script())

    assert EnforcementTarget.objects.values().get() == before
