"""A simulated cluster in the API: what a client sees of it, and how it moves on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from simulator.cluster.incidents import PENDING_NAME, REFUSED_NAME
from simulator.cluster.scenario import SimulatedCluster
from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.pods import load_cluster, pod_object
from simulator.kubernetes_api.resources import PODS, QUOTAS
from simulator.kubernetes_api.store import ObjectStore
from tests.simulator.conftest import MONTH

AT = MONTH + timedelta(days=5)
Core = Any
"""The core API; its generated types want models, and dictionaries go out as well."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesAPI]:
    with KubernetesAPI(tmp_path_factory.mktemp("api"), tokens={"token": "admin"}) as running:
        yield running


@pytest.fixture
def core(api: KubernetesAPI, tmp_path: Path) -> Core:
    path = api.kubeconfig(tmp_path / "kubeconfig", name="hopper")
    return client.CoreV1Api(config.new_client_from_config(config_file=str(path)))  # type: ignore[no-untyped-call]


def test_the_kubeconfig_is_its_owners_alone(api: KubernetesAPI, tmp_path: Path) -> None:
    path = api.kubeconfig(tmp_path / "deep" / "kubeconfig")

    assert path.stat().st_mode & 0o777 == 0o600
    assert api.identity.key_path.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" not in path.read_text(encoding="utf-8")


def test_a_client_sees_the_cluster(
    api: KubernetesAPI, core: Core, hopper: SimulatedCluster
) -> None:
    api.load(hopper, AT)

    nodes = {node.metadata.name: node for node in core.list_node().items}
    pods = core.list_pod_for_all_namespaces().items
    assert {pod.metadata.uid for pod in pods} == {pod.uid for pod in hopper.objects(AT)}
    assert nodes["hopper-mig-1"].status.allocatable["nvidia.com/mig-1g.10gb"] == "8"
    assert nodes["hopper-mig-1"].metadata.labels["nvidia.com/mig.strategy"] == "mixed"
    assert {one.metadata.name for one in core.list_namespace().items} == {
        one.name for one in hopper.namespaces
    }


def test_pods_are_reported_as_the_scenario_has_them(
    api: KubernetesAPI, core: Core, hopper: SimulatedCluster
) -> None:
    api.load(hopper, AT)
    truth = {pod.uid: pod for pod in hopper.objects(AT)}

    for pod in core.list_pod_for_all_namespaces().items:
        expected = truth[pod.metadata.uid]
        conditions = {one.type: one for one in pod.status.conditions or []}
        assert pod.status.phase == expected.phase(AT)
        assert (pod.spec.node_name or "") == (expected.node if expected.scheduled_at else "")
        if expected.scheduled_at:
            assert conditions["PodScheduled"].last_transition_time == expected.scheduled_at
        ended = [
            one.state.terminated.finished_at
            for one in pod.status.container_statuses or []
            if one.state.terminated
        ]
        if expected.finished_at and expected.finished_at <= AT:
            assert max(ended) == expected.finished_at


def test_sidecars_stand_before_what_they_accompany(hopper: SimulatedCluster) -> None:
    staged = next(pod for pod in hopper.pods if len(pod.containers) == 3 and pod.true_units == 3)

    spec = pod_object(staged, hopper, staged.created_at)["spec"]

    assert [(one["name"], one.get("restartPolicy")) for one in spec["initContainers"]] == [
        ("metrics-sidecar", "Always"),
        ("warmup", None),
    ]
    assert "nodeName" not in spec or staged.scheduled_at == staged.created_at


def test_the_pending_and_the_refused_have_no_containers_to_tell(
    hopper: SimulatedCluster, ampere: SimulatedCluster
) -> None:
    waiting = next(pod for pod in hopper.pods if pod.name == PENDING_NAME)
    refused = next(pod for pod in ampere.pods if pod.name == REFUSED_NAME)

    pending = pod_object(waiting, hopper, AT)
    failed = pod_object(refused, ampere, refused.created_at + timedelta(minutes=1))

    assert pending["status"] == {"phase": "Pending"}
    assert "nodeName" not in pending["spec"]
    assert failed["status"]["phase"] == "Failed"
    assert failed["status"]["reason"] == "UnexpectedAdmissionError"
    assert "containerStatuses" not in failed["status"]


def test_moving_on_writes_only_what_changed(hopper: SimulatedCluster) -> None:
    store = ObjectStore()
    load_cluster(store, hopper, AT)
    first = store.version

    load_cluster(store, hopper, AT)
    assert store.version == first

    load_cluster(store, hopper, AT + timedelta(hours=2))
    changed = store.version - first
    uids = {pod["metadata"]["uid"] for _, pod in store.items(PODS)}
    assert 5 < changed < 120
    assert uids == {pod.uid for pod in hopper.objects(AT + timedelta(hours=2))}


def test_a_reused_name_is_deleted_and_added(hopper: SimulatedCluster) -> None:
    store = ObjectStore()
    first, second = [pod for pod in hopper.pods if pod.name == "fold-wb5-0"][:2]
    load_cluster(store, hopper, first.scheduled_at or first.created_at)
    version = store.version
    load_cluster(store, hopper, second.created_at)

    mine = [
        event
        for event in store.events_after(version)
        if event.last["metadata"]["name"] == "fold-wb5-0"
    ]

    assert [event.after is None for event in mine] == [True, False]
    assert mine[1].last["metadata"]["uid"] == second.uid


def test_what_somebody_else_made_stays(hopper: SimulatedCluster) -> None:
    store = ObjectStore()
    store.put(
        PODS,
        ("llm-train", "by-hand"),
        {"metadata": {"name": "by-hand", "namespace": "llm-train", "uid": "x"}, "spec": {}},
    )

    load_cluster(store, hopper, AT)

    assert store.get(PODS, ("llm-train", "by-hand")) is not None


def test_a_quota_counts_the_loaded_pods(
    api: KubernetesAPI, core: Core, hopper: SimulatedCluster
) -> None:
    api.load(hopper, AT)
    core.create_namespaced_resource_quota(
        "llm-serve",
        {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "9"}}},
    )
    api.settle()

    (observation,) = api.quota_statuses()

    expected = sum(
        pod.true_units
        for pod in hopper.objects(AT)
        if pod.namespace == "llm-serve"
        and pod.resource == "nvidia.com/gpu"
        and not (pod.finished_at and pod.finished_at <= AT)
    )
    assert expected > 0
    assert observation.hard == {"requests.nvidia.com/gpu": 9}
    assert observation.used == {"requests.nvidia.com/gpu": expected}
    api.store.remove(QUOTAS, ("llm-serve", "gpus"))
