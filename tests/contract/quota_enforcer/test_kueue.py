"""Kueue: what a namespace's quota is there, beside what every enforcer does."""

import time
from typing import Any

import pytest
from kubernetes.client import ApiException

from quotas.adapters.kueue import READ_EVERY_SECONDS, READ_TRIES
from quotas.adapters.routed import RoutedQuotaEnforcer
from quotas.domain.enforcement.kueue import (
    UNREADABLE,
    KueueChecks,
    checks_notice,
    cluster_queue_name,
)
from quotas.protocols import DesiredQuota, EnforcementEndpoint, QuotaConflictError
from tests.contract.quota_enforcer.benches import KueueBench

GPU = "requests.nvidia.com/gpu"


@pytest.fixture
def namespace(kueue: KueueBench) -> str:
    return kueue.make_namespace()


def queue_of(kueue: KueueBench, namespace: str) -> Any:  # noqa: ANN401 - As the API answers it.
    return kueue.queues.get_cluster_custom_object(**kueue.kind, name=cluster_queue_name(namespace))


def apply(kueue: KueueBench, desired: DesiredQuota) -> None:
    live = kueue.enforcer.apply(kueue.endpoint, desired)
    assert dict(live.hard) == dict(desired.hard)


def test_a_namespace_borrows_its_burst_from_its_organization(
    kueue: KueueBench, namespace: str
) -> None:
    apply(kueue, DesiredQuota(namespace, {GPU: 8}, 1, burst_hard={GPU: 2}, cohort="acme"))

    spec = queue_of(kueue, namespace)["spec"]
    (group,) = spec["resourceGroups"]
    (flavor,) = group["flavors"]
    assert (spec["cohortName"], spec["stopPolicy"]) == ("acme", "None")
    assert group["coveredResources"] == ["cpu", "ephemeral-storage", "memory", "nvidia.com/gpu"]
    assert flavor["resources"][-1] == {
        "name": "nvidia.com/gpu",
        "nominalQuota": "8",
        "borrowingLimit": "2",
    }


def test_a_suspended_tenants_queue_is_held_and_opened_again(
    kueue: KueueBench, namespace: str
) -> None:
    apply(kueue, DesiredQuota(namespace, {GPU: 0}, 1, cohort="acme", is_held=True))
    held = queue_of(kueue, namespace)
    apply(kueue, DesiredQuota(namespace, {GPU: 8}, 2, cohort="acme"))
    opened = queue_of(kueue, namespace)

    assert (held["spec"]["stopPolicy"], held["status"]["conditions"][0]["status"]) == (
        "Hold",
        "False",
    )
    assert (opened["spec"]["stopPolicy"], opened["status"]["conditions"][0]["status"]) == (
        "None",
        "True",
    )


def test_a_cluster_that_offers_nothing_to_count_has_a_queue_that_covers_no_gpu(
    kueue: KueueBench, namespace: str
) -> None:
    apply(kueue, DesiredQuota(namespace, {GPU: 8}, 1, cohort="acme"))

    begin = time.monotonic()
    apply(kueue, DesiredQuota(namespace, {}, 2, cohort="acme"))

    (group,) = queue_of(kueue, namespace)["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "ephemeral-storage", "memory"]
    # Kueue has looked at it, so nothing more is waited for.
    assert time.monotonic() - begin < READ_TRIES * READ_EVERY_SECONDS
    apply(kueue, DesiredQuota(namespace, {GPU: 3}, 3, cohort="acme"))


def test_a_group_without_resources_is_refused_by_kueues_definition(
    kueue: KueueBench, namespace: str
) -> None:
    group = {"coveredResources": [], "flavors": [{"name": "default-flavor", "resources": []}]}
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": cluster_queue_name(namespace)},
        "spec": {"resourceGroups": [group]},
    }

    with pytest.raises(ApiException) as refusal:
        kueue.queues.create_cluster_custom_object(**kueue.kind, body=queue)

    assert refusal.value.status == 422
    assert "spec.resourceGroups[0].coveredResources" in str(refusal.value.body)


def test_kueues_own_count_is_what_is_reported_as_used(kueue: KueueBench, namespace: str) -> None:
    """Three admitted workloads: Kueue counts their cpu and memory too, which are no units."""
    asked = [{"nvidia.com/gpu": 2, "cpu": 8}, {"nvidia.com/gpu": 1, "cpu": 4}, {"cpu": 1}]
    apply(kueue, DesiredQuota(namespace, {GPU: 8}, 1, cohort="acme"))

    kueue.reserve(namespace, asked)

    live = kueue.enforcer.read(kueue.endpoint, namespace)
    assert dict(live.used) == {GPU: sum(one.get("nvidia.com/gpu", 0) for one in asked)}


def test_the_managers_configuration_is_reported(kueue: KueueBench, namespace: str) -> None:
    desired = DesiredQuota(namespace, {GPU: 8}, 1, cohort="acme")
    unknown = kueue.enforcer.apply(kueue.endpoint, desired)
    kueue.configure({"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}})
    known = kueue.enforcer.read(kueue.endpoint, namespace)
    kueue.configure({"resources": {"excludeResourcePrefixes": ["rdma/"]}})
    blocking = kueue.enforcer.apply(kueue.endpoint, desired)

    assert unknown.notice == UNREADABLE
    assert known.notice == checks_notice(KueueChecks("IgnoreUndeclared"), {GPU: 8})
    assert blocking.notice == checks_notice(KueueChecks(excluded=("rdma/",)), {GPU: 8})


def test_a_configuration_nobody_can_read_is_not_guessed(kueue: KueueBench, namespace: str) -> None:
    desired = DesiredQuota(namespace, {GPU: 8}, 1, cohort="acme")
    for text in ("resources: [", "resources: 5", "just words"):
        kueue.configure(text)

        assert kueue.enforcer.apply(kueue.endpoint, desired).notice == UNREADABLE


def test_a_limit_that_kueue_would_not_count_is_a_conflict(
    kueue: KueueBench, namespace: str
) -> None:
    kueue.configure({"resources": {"excludeResourcePrefixes": ["nvidia.com/"]}})

    with pytest.raises(QuotaConflictError, match=r"remove nvidia\.com/ from") as conflict:
        apply(kueue, DesiredQuota(namespace, {GPU: 8}, 1, cohort="acme"))

    assert conflict.value.managers == ("kueue-manager-config",)
    assert dict(kueue.enforcer.read(kueue.endpoint, namespace).hard) == {}


def test_a_suspended_tenants_queue_is_held_whatever_kueue_counts(
    kueue: KueueBench, namespace: str
) -> None:
    kueue.configure({"resources": {"excludeResourcePrefixes": ["nvidia.com/"]}})

    apply(kueue, DesiredQuota(namespace, {GPU: 0}, 1, cohort="acme", is_held=True))

    assert queue_of(kueue, namespace)["spec"]["stopPolicy"] == "Hold"


def test_the_namespace_has_one_queue_that_leads_there(kueue: KueueBench, namespace: str) -> None:
    apply(kueue, DesiredQuota(namespace, {GPU: 8}, 1, cohort="acme"))

    kind = {**kueue.kind, "plural": "localqueues", "namespace": namespace, "name": "gpu-ledger"}
    local = kueue.queues.get_namespaced_custom_object(**kind)
    assert local["spec"]["clusterQueue"] == cluster_queue_name(namespace)


def test_each_cluster_is_written_as_its_target_says(kueue: KueueBench, namespace: str) -> None:
    routed = RoutedQuotaEnforcer()
    reference = kueue.endpoint.credential_reference
    queued = EnforcementEndpoint("contract", "", reference, quota_target="kueue")
    plain = EnforcementEndpoint("contract", "", reference)
    desired = DesiredQuota(namespace, {GPU: 3}, 1, cohort="acme")

    routed.apply(queued, desired)

    assert dict(routed.read(queued, namespace).hard) == {GPU: 3}
    assert dict(routed.read(plain, namespace).hard) == {}
    assert kueue.api.list_namespaced_resource_quota(namespace).items == []
