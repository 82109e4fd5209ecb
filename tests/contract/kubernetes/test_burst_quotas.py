"""Burst: preemptible pods and all others have quotas of their own, by priority class."""

import uuid
from collections.abc import Iterator

import pytest

from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.protocols import DesiredQuota, EnforcementEndpoint
from tests.contract.kubernetes.conftest import (
    GPU_KEY,
    LABELS,
    Core,
    pod_body,
    refusal,
    status_body,
    wait_for,
)
from tests.support.kubernetes.wire import Wire
from tests.support.references import reference_to

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def burst_class(wire: Wire) -> Iterator[str]:
    """Return a priority class of the test's own, as deploy/kubernetes makes ours."""
    name = f"gpu-ledger-contract-{uuid.uuid4().hex[:8]}"
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": LABELS},
        "value": -1000,
        "preemptionPolicy": "Never",
    }
    assert wire.post(CLASSES, body).code == 201
    yield name
    wire.delete(f"{CLASSES}/{name}")


@pytest.fixture
def walled(kubeconfig: str, namespace: str, burst_class: str) -> str:
    """Return a namespace of three nominal GPUs and two for burst, as our enforcer applies it."""
    enforcer = KubernetesQuotaEnforcer(burst_classes=[burst_class])
    endpoint = EnforcementEndpoint("contract", "", reference_to(kubeconfig))
    live = enforcer.apply(
        endpoint, DesiredQuota(namespace, {GPU_KEY: 3}, 1, burst_hard={GPU_KEY: 2})
    )
    assert (dict(live.hard), dict(live.burst_hard)) == ({GPU_KEY: 3}, {GPU_KEY: 2})
    return namespace


def used(core: Core, namespace: str) -> dict[str, str | None]:
    quotas = core.list_namespaced_resource_quota(namespace).items
    return {one.metadata.name: (one.status.used or {}).get(GPU_KEY) for one in quotas}


def test_a_pod_without_a_priority_class_counts_as_nominal(core: Core, walled: str) -> None:
    core.create_namespaced_pod(walled, pod_body("plain", gpus=2))

    expected = {"gpu-ledger": "2", "gpu-ledger-nominal": "2", "gpu-ledger-burst": "0"}
    wait_for(lambda: used(core, walled) == expected)


def test_nominal_pods_never_take_what_is_meant_for_burst(core: Core, walled: str) -> None:
    error = refusal(lambda: core.create_namespaced_pod(walled, pod_body("four", gpus=4)))

    assert error.status == 403
    assert "exceeded quota: gpu-ledger-nominal" in status_body(error)["message"]
    assert core.list_namespaced_pod(walled).items == []


def test_preemptible_pods_have_their_own_units_and_no_others(
    core: Core, walled: str, burst_class: str
) -> None:
    core.create_namespaced_pod(walled, pod_body("full", gpus=3))
    core.create_namespaced_pod(walled, pod_body("b", gpus=2, priorityClassName=burst_class))
    expected = {"gpu-ledger": "5", "gpu-ledger-nominal": "3", "gpu-ledger-burst": "2"}
    wait_for(lambda: used(core, walled) == expected)

    error = refusal(
        lambda: core.create_namespaced_pod(
            walled, pod_body("more", gpus=1, priorityClassName=burst_class)
        )
    )

    assert error.status == 403
    assert "exceeded quota: gpu-ledger" in status_body(error)["message"]


def test_preemptible_pods_do_not_eat_nominal_units_while_those_are_idle(
    core: Core, walled: str, burst_class: str
) -> None:
    error = refusal(
        lambda: core.create_namespaced_pod(
            walled, pod_body("three", gpus=3, priorityClassName=burst_class)
        )
    )

    assert error.status == 403
    assert "exceeded quota: gpu-ledger-burst" in status_body(error)["message"]
