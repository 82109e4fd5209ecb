"""What every watch of quotas does, whatever it speaks with."""

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from quotas.protocols import DesiredQuota
from quotas.protocols.drift import QuotaEvent, QuotaList, QuotaVersionExpiredError
from tests.contract.quota_enforcer.benches import Bench, SimulatedBench
from tests.contract.quota_enforcer.conftest import KUBECONFIG

GPU = "requests.nvidia.com/gpu"
STREAM_SECONDS = 10


def apply(bench: Bench, namespace: str, units: int, generation: int = 1) -> None:
    desired = DesiredQuota(namespace, {GPU: units}, generation)
    bench.enforcer.apply(bench.endpoint, desired)


def listed(bench: Bench) -> QuotaList:
    return bench.watch.list_quotas(bench.endpoint)


def states(bench: Bench, namespace: str, version: str) -> Iterator[str]:
    """Yield each state of a namespace's quota after a version."""
    stream = bench.watch.watch_quotas(
        bench.endpoint, version=version, timeout_seconds=STREAM_SECONDS
    )
    with closing(stream):  # type: ignore[type-var]
        for event in stream:
            if event.key is not None and event.key[0] == namespace:
                yield event.state


def state_of(found: QuotaList, namespace: str) -> str:
    return next(state for key, state in found.states.items() if key[0] == namespace)


def test_our_quotas_are_listed_with_what_they_say(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    quotas.add_foreign(namespace, "team-made", {GPU: 1})
    apply(quotas, namespace, 8)

    found = listed(quotas)

    assert dict(found.quotas[namespace].hard) == {GPU: 8}
    assert found.quotas[namespace].generation == 1
    assert [key for key in found.states if key[0] == namespace] == [(namespace, "gpu-ledger")]


def test_a_deleted_quota_is_an_event_without_a_state(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    apply(quotas, namespace, 8)
    version = listed(quotas).version

    quotas.delete_by_hand(namespace)

    assert next(states(quotas, namespace, version)) == ""
    assert namespace not in listed(quotas).quotas


def test_an_edited_quota_is_an_event_with_another_state(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    apply(quotas, namespace, 8)
    before = listed(quotas)

    quotas.edit_by_hand(namespace, {GPU: 64}, manager="kubectl-edit")

    found = next(states(quotas, namespace, before.version))
    assert found not in {"", state_of(before, namespace)}


def test_a_quota_of_another_name_is_no_event(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    version = listed(quotas).version

    quotas.add_foreign(namespace, "team-made", {GPU: 1})
    apply(quotas, namespace, 8)

    events = quotas.watch.watch_quotas(
        quotas.endpoint, version=version, timeout_seconds=STREAM_SECONDS
    )
    first = next(one for one in events if one.key is not None and one.key[0] == namespace)
    assert first.key == (namespace, "gpu-ledger")


def test_a_watch_continues_after_any_event(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    version = listed(quotas).version
    apply(quotas, namespace, 8)
    first = next_event(quotas, namespace, version)

    quotas.delete_by_hand(namespace)

    following = list(states_until_gone(quotas, namespace, first.version))
    assert following[-1] == ""
    assert first.state not in following[-1:]


def next_event(bench: Bench, namespace: str, version: str) -> QuotaEvent:
    events = bench.watch.watch_quotas(
        bench.endpoint, version=version, timeout_seconds=STREAM_SECONDS
    )
    return next(one for one in events if one.key is not None and one.key[0] == namespace)


def states_until_gone(bench: Bench, namespace: str, version: str) -> Iterator[str]:
    for state in states(bench, namespace, version):
        yield state
        if not state:
            return


def test_a_version_that_is_purged_is_expired(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    apply(quotas, namespace, 8)
    version = "1"
    if isinstance(quotas, SimulatedBench):
        version = listed(quotas).version
        quotas.cluster.purge_history()

    if KUBECONFIG:
        # A server that was never compacted has purged nothing, and shows all.
        with suppress(QuotaVersionExpiredError):
            assert next(states(quotas, namespace, version)) != ""
        return
    with pytest.raises(QuotaVersionExpiredError):
        next(states(quotas, namespace, version))
