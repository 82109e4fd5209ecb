"""Drift in a cluster beside a running watch: repaired within seconds, or reported."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from quotas.models import EnforcementTarget
from quotas.services.enforcement.applying import apply_target, force_targets
from quotas.services.enforcement.watching import EnforcedCluster, QuotaWatcher, keep_quotas
from tenants.selectors.clock import database_now
from tests.contract.quota_enforcer.benches import Bench, read_until
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.enforcing import SYSTEM, refresh, target_of
from tests.support.quotas.scripted import ScriptedStop, Step

pytestmark = pytest.mark.django_db
GPU = "requests.nvidia.com/gpu"
BACK_SECONDS_MAX = 5


@pytest.fixture
def target(quotas: Bench) -> EnforcementTarget:
    """Return a namespace whose quota of 8 GPUs was applied."""
    cast, endpoint = make_cast(), quotas.endpoint
    cluster = make_cluster(
        endpoint.slug,
        kubernetes_url="" if endpoint.credential_reference else "https://127.0.0.1:9/",
        credential_reference=endpoint.credential_reference,
        offered_resources=["nvidia.com/gpu"],
    )
    namespace = quotas.make_namespace()
    bind(cluster, namespace, cast.llm)
    make_limit(cast.acme, cast.llm, units=8)
    refresh()
    state = apply_target(
        target_id=target_of(namespace).pk,
        enforcer=quotas.enforcer,
        actor=SYSTEM,
        at=database_now(),
    )
    assert state == "applied"
    return target_of(namespace)


def keep(quotas: Bench, target: EnforcementTarget, script: Iterator[Step]) -> None:
    keep_quotas(
        cluster=EnforcedCluster(target.cluster_id, quotas.endpoint),
        watcher=QuotaWatcher(
            watch=quotas.watch,
            enforcer=quotas.enforcer,
            actor=SYSTEM,
            clock=database_now,
            stop=ScriptedStop(script),
        ),
    )


def test_a_deleted_quota_is_back_within_seconds_three_times(
    quotas: Bench, target: EnforcementTarget
) -> None:
    namespace, seconds = target.namespace, []

    def is_back() -> bool:
        return quotas.enforcer.read(quotas.endpoint, namespace).hard.get(GPU) == 8

    def is_repaired(times: int) -> bool:
        return target_of(namespace).drifts_repaired == times

    def script() -> Iterator[Step]:
        for number in range(3):
            deleted_at = time.monotonic()
            yield lambda: quotas.delete_by_hand(namespace)
            yield is_back
            seconds.append(time.monotonic() - deleted_at)
            yield partial(is_repaired, number + 1)
        yield lambda: quotas.delete_by_hand(namespace)
        yield lambda: target_of(namespace).state == "conflict"

    keep(quotas, target, script())

    assert max(seconds) <= BACK_SECONDS_MAX
    assert quotas.enforcer.read(quotas.endpoint, namespace).hard == {}
    assert "deleted or changed again after 3 repairs" in target_of(namespace).last_error


def test_an_edited_quota_is_a_conflict_that_names_editor_and_difference_until_it_is_forced(
    quotas: Bench, target: EnforcementTarget
) -> None:
    namespace = target.namespace

    def script() -> Iterator[Step]:
        yield lambda: quotas.edit_by_hand(namespace, {GPU: 64}, manager="kubectl-edit")
        yield lambda: target_of(namespace).state == "conflict"

    keep(quotas, target, script())

    error = target_of(namespace).last_error
    assert "also managed by kubectl-edit" in error
    assert f"{GPU} is 64 instead of 8" in error
    assert dict(read_until(quotas, namespace, {GPU: 64}).hard) == {GPU: 64}
    forced = force_targets(
        target_ids=[target.pk], enforcer=quotas.enforcer, actor=SYSTEM, at=database_now()
    )
    assert forced == 1
    live = quotas.enforcer.read(quotas.endpoint, namespace)
    assert (dict(live.hard), live.managers) == ({GPU: 8}, ())
