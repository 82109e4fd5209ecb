"""kube-state-metrics' text shows every stage of a pod's life as the real one does."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from simulator.cluster.demo_lanes import HOPPER_NODES
from simulator.cluster.exporters.exposition import ClusterExposition
from simulator.cluster.exporters.object_series import FAMILIES, QuotaStatus
from simulator.cluster.exporters.prometheus_text import go_number
from simulator.cluster.incidents import PENDING_NAME, REFUSED_NAME
from simulator.cluster.scenario import (
    Container,
    ContainerRole,
    Namespace,
    Pod,
    PodPhase,
    SimulatedCluster,
)
from tests.simulator.cluster.test_scenario import after, make_cluster, make_pod
from tests.simulator.conftest import MONTH
from tests.support.simulator.parsing import Line, named, read_lines

NODE = HOPPER_NODES[0]
TIMES = {
    "kube_pod_created": 0,
    "kube_pod_status_scheduled_time": 10,
    "kube_pod_completion_time": 100,
}


def text_of(pod: Pod, second: int, **changes: object) -> str:
    placed = replace(pod, node=NODE.name if pod.scheduled_at else "")
    cluster = make_cluster(nodes=(NODE,), pods=(placed,), **changes)
    return ClusterExposition(cluster).kube_state_metrics_text(after(second))


def asking(units: int = 2, resource: str = "nvidia.com/gpu") -> tuple[Container, ...]:
    return (Container("main", requests={resource: units}),)


def phase_of(text: str) -> str:
    lines = named(text, "kube_pod_status_phase")
    assert Counter(line.value for line in lines) == {"1": 1, "0": 4}
    return next(line["phase"] for line in lines if line.value == "1")


def epoch(at: datetime) -> str:
    return go_number(int(at.timestamp()))


@pytest.mark.parametrize(
    ("second", "phase"), [(0, "Pending"), (15, "Pending"), (20, "Running"), (100, "Succeeded")]
)
def test_one_phase_of_five_is_true(second: int, phase: str) -> None:
    assert phase_of(text_of(make_pod(), second)) == phase


def test_an_object_that_is_gone_has_no_series() -> None:
    assert [line for line in read_lines(text_of(make_pod(), 160)) if line["uid"]] == []


def test_before_the_bind_the_node_is_empty_and_nothing_is_scheduled() -> None:
    text = text_of(make_pod(containers=asking()), 9)

    (info,) = named(text, "kube_pod_info")
    (request,) = named(text, "kube_pod_container_resource_requests")
    assert (info["node"], info["host_ip"], info["pod_ip"]) == ("", "", "")
    assert request["node"] == ""
    assert named(text, "kube_pod_status_scheduled_time") == []
    assert named(text, "kube_pod_start_time") == []


def test_from_the_bind_the_node_is_reported() -> None:
    text = text_of(make_pod(containers=asking()), 10)

    (info,) = named(text, "kube_pod_info")
    assert (info["node"], info["host_ip"]) == (NODE.name, NODE.address)
    assert info.keys == (
        "namespace",
        "pod",
        "uid",
        "host_ip",
        "pod_ip",
        "node",
        "created_by_kind",
        "created_by_name",
        "priority_class",
        "host_network",
    )


@pytest.mark.parametrize(("name", "second"), TIMES.items())
def test_times_are_the_objects_own(name: str, second: int) -> None:
    text = text_of(make_pod(), 150)

    (line,) = named(text, name)
    assert line.value == epoch(after(second))
    assert line.keys == ("namespace", "pod", "uid")


def test_requests_are_reported_for_the_finished_too_sanitised() -> None:
    pod = make_pod(containers=asking(3, "nvidia.com/mig-1g.10gb"))

    (line,) = named(text_of(pod, 150), "kube_pod_container_resource_requests")

    assert line["resource"] == "nvidia_com_mig_1g_10gb"
    assert (line["unit"], line["container"], line.value) == ("integer", "main", "3")


def test_limits_repeat_the_requests_of_regular_containers() -> None:
    text = text_of(make_pod(containers=asking()), 50)

    (request,) = named(text, "kube_pod_container_resource_requests")
    (limit,) = named(text, "kube_pod_container_resource_limits")
    assert (request.labels, request.value) == (limit.labels, limit.value)


def test_sidecars_are_init_containers_that_always_restart() -> None:
    containers = (
        Container("side", ContainerRole.SIDECAR, {"nvidia.com/gpu": 1}),
        Container("warm", ContainerRole.INIT, {"nvidia.com/gpu": 2}),
        *asking(1),
    )
    text = text_of(make_pod(containers=containers), 50)

    requests = named(text, "kube_pod_init_container_resource_requests")
    infos = named(text, "kube_pod_init_container_info")
    assert {line["container"]: line.value for line in requests} == {"side": "1", "warm": "2"}
    assert {line["container"]: line["restart_policy"] for line in infos} == {
        "side": "Always",
        "warm": "",
    }
    assert len(named(text, "kube_pod_container_resource_requests")) == 1


def test_a_helper_that_ended_gives_a_running_pod_a_completion_time() -> None:
    pod = make_pod(helper_finished_at=after(40))

    assert named(text_of(pod, 39), "kube_pod_completion_time") == []
    (early,) = named(text_of(pod, 60), "kube_pod_completion_time")
    (final,) = named(text_of(pod, 120), "kube_pod_completion_time")
    assert phase_of(text_of(pod, 60)) == "Running"
    assert (early.value, final.value) == (epoch(after(40)), epoch(after(100)))


def test_a_deletion_is_reported_with_its_grace_while_the_pod_is_there() -> None:
    pod = make_pod(finished_at=None, end_phase=PodPhase.RUNNING, deletion_requested_at=after(140))

    assert named(text_of(pod, 139), "kube_pod_deletion_timestamp") == []
    (line,) = named(text_of(pod, 150), "kube_pod_deletion_timestamp")
    assert line.value == epoch(after(170))
    assert phase_of(text_of(pod, 150)) == "Running"


def test_a_refused_pod_failed_without_a_completion() -> None:
    pod = make_pod(
        started_at=None, finished_at=None, rejected_at=after(11), end_phase=PodPhase.FAILED
    )
    text = text_of(pod, 50)

    (reason,) = named(text, "kube_pod_status_reason")
    assert phase_of(text) == "Failed"
    assert (reason["reason"], reason.value) == ("UnexpectedAdmissionError", "1")
    assert named(text, "kube_pod_completion_time") == []
    assert len(named(text, "kube_pod_start_time")) == 1


def test_labels_are_sanitised_and_present_even_when_there_are_none() -> None:
    labelled = make_pod(labels={"billing.example.com/user": "mei", "app": "x"})

    (line,) = named(text_of(labelled, 50), "kube_pod_labels")
    (bare,) = named(text_of(make_pod(), 50), "kube_pod_labels")
    assert line["label_billing_example_com_user"] == "mei"
    assert line["label_app"] == "x"
    assert bare.keys == ("namespace", "pod", "uid")


def test_nodes_tell_labels_and_what_they_offer() -> None:
    text = text_of(make_pod(), 50)

    (labels,) = named(text, "kube_node_labels")
    offers = named(text, "kube_node_status_allocatable", resource="nvidia_com_gpu")
    cores = named(text, "kube_node_status_capacity", resource="cpu")
    assert labels["label_nvidia_com_gpu_product"] == "NVIDIA-H100-80GB-HBM3"
    assert [line.value for line in offers] == ["8"]
    assert [line["unit"] for line in cores] == ["core"]


def test_namespaces_tell_their_labels() -> None:
    text = text_of(make_pod(), 50, namespaces=(Namespace("ns", {"a.b/c": "d"}),))

    (line,) = named(text, "kube_namespace_labels")
    assert line.labels == (("namespace", "ns"), ("label_a_b_c", "d"))


def test_quotas_are_not_sanitised(hopper: SimulatedCluster) -> None:
    quota = QuotaStatus(
        "ns", "gpus", {"requests.nvidia.com/gpu": 8}, {"requests.nvidia.com/gpu": 6}
    )

    text = ClusterExposition(hopper).kube_state_metrics_text(MONTH, [quota])

    lines = named(text, "kube_resourcequota")
    assert [(line["type"], line.value) for line in lines] == [("hard", "8"), ("used", "6")]
    assert lines[0].keys == ("namespace", "resourcequota", "resource", "type")
    assert lines[0]["resource"] == "requests.nvidia.com/gpu"


def test_the_scenario_shows_one_set_of_series_per_object(hopper: SimulatedCluster) -> None:
    at = MONTH + timedelta(days=6)
    text = ClusterExposition(hopper).kube_state_metrics_text(at)

    objects = {pod.uid for pod in hopper.objects(at)}
    lines: list[Line] = list(read_lines(text))
    assert {line["uid"] for line in named(text, "kube_pod_info")} == objects
    assert len({(line.name, line.labels) for line in lines}) == len(lines)
    assert {line.name for line in lines} <= FAMILIES.keys()


def test_the_traps_of_the_scenario_are_shown(
    hopper: SimulatedCluster, ampere: SimulatedCluster
) -> None:
    at = MONTH + timedelta(days=4, hours=12)
    waiting = ClusterExposition(hopper).kube_state_metrics_text(at)
    refused = ClusterExposition(ampere).kube_state_metrics_text(at)

    (request,) = named(waiting, "kube_pod_container_resource_requests", pod=PENDING_NAME)
    assert (request["node"], request.value) == ("", "8")
    assert len(named(refused, "kube_pod_status_reason", pod=REFUSED_NAME)) == 1
    unmapped = named(
        refused, "kube_pod_container_resource_requests", resource="nvidia_com_gpumem_percentage"
    )
    assert [line.value for line in unmapped] == ["50"]


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0, "0"),
        (8, "8"),
        (123456, "123456"),
        (1234567, "1.234567e+06"),
        (1765533541, "1.765533541e+09"),
        (1765540000, "1.76554e+09"),
        (1000000000, "1e+09"),
    ],
)
def test_numbers_are_printed_as_go_prints_them(value: int, printed: str) -> None:
    assert go_number(value) == printed
