"""How pods and nodes begin and end, as a watcher sees it: which events, in which state."""

from typing import Any

from tests.contract.kubernetes.conftest import (
    GPU,
    STRATEGIC,
    Core,
    bind,
    pod_body,
    set_phase,
)
from tests.support.kubernetes.wire import Body, Wire

NOT_READY = "node.kubernetes.io/not-ready"


def events_of(wire: Wire, namespace: str, version: str) -> list[Body]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    return list(wire.watch(path, resourceVersion=version))


def version_of(wire: Wire, namespace: str) -> str:
    found: str = wire.get(f"/api/v1/namespaces/{namespace}/pods").body["metadata"][
        "resourceVersion"
    ]
    return found


def kinds(events: list[Body]) -> list[str]:
    return [one["type"] for one in events]


def running(core: Core, namespace: str, name: str = "a") -> None:
    core.create_namespaced_pod(namespace, pod_body(name))
    bind(core, namespace, name)
    set_phase(core, namespace, name, "Running")


def test_a_graceful_end_is_a_change_and_then_a_deletion(
    core: Core, wire: Wire, namespace: str
) -> None:
    running(core, namespace)
    version = version_of(wire, namespace)

    core.delete_namespaced_pod("a", namespace)
    core.delete_namespaced_pod("a", namespace, grace_period_seconds=0)

    events = events_of(wire, namespace, version)
    first, last = events[0]["object"], events[-1]["object"]
    assert kinds(events)[0] == "MODIFIED"
    assert kinds(events).count("DELETED") == 1
    assert kinds(events)[-1] == "DELETED"
    assert first["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" in last["metadata"]
    # The last stored phase: it shows nothing of how the pod came to its end.
    assert last["status"]["phase"] == "Running"


def test_an_end_without_grace_is_seen_as_a_change_first(
    core: Core, wire: Wire, namespace: str
) -> None:
    running(core, namespace)
    version = version_of(wire, namespace)

    core.delete_namespaced_pod("a", namespace, grace_period_seconds=0)

    events = events_of(wire, namespace, version)
    assert kinds(events) == ["MODIFIED", "DELETED"]
    assert events[0]["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


def test_a_deletion_may_tell_a_phase_from_before_it_ran(
    core: Core, wire: Wire, namespace: str
) -> None:
    core.create_namespaced_pod(namespace, pod_body("a"))
    bind(core, namespace, "a")
    version = version_of(wire, namespace)

    core.delete_namespaced_pod("a", namespace, grace_period_seconds=0)

    last = events_of(wire, namespace, version)[-1]
    assert (last["type"], last["object"]["status"]["phase"]) == ("DELETED", "Pending")


def test_a_second_deletion_may_only_shorten_the_grace(core: Core, namespace: str) -> None:
    running(core, namespace)
    core.delete_namespaced_pod("a", namespace, grace_period_seconds=20)

    core.delete_namespaced_pod("a", namespace, grace_period_seconds=60)

    pod = core.read_namespaced_pod("a", namespace)
    assert pod.metadata.deletion_grace_period_seconds == 20


def test_a_pod_that_is_ending_is_bound_no_more(core: Core, wire: Wire, namespace: str) -> None:
    body = pod_body("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    core.create_namespaced_pod(namespace, body)
    core.delete_namespaced_pod("a", namespace)

    target = {"target": {"kind": "Node", "name": "n"}, "metadata": {"name": "a"}}
    refused = wire.post(f"/api/v1/namespaces/{namespace}/pods/a/binding", target)

    assert refused.code == 409


def test_what_a_kubelet_shows_of_containers_is_kept(core: Core, namespace: str) -> None:
    running(core, namespace)
    ended = {
        "name": "main",
        "image": "example.com/none:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {
            "terminated": {
                "exitCode": 0,
                "startedAt": "2026-10-01T10:00:00Z",
                "finishedAt": "2026-10-01T10:05:07Z",
            }
        },
    }
    body = {"status": {"phase": "Succeeded", "containerStatuses": [ended]}}

    core.patch_namespaced_pod_status("a", namespace, body, _content_type=STRATEGIC)

    status = core.read_namespaced_pod("a", namespace).status
    terminated = status.container_statuses[0].state.terminated
    assert status.phase == "Succeeded"
    assert terminated.finished_at.isoformat() == "2026-10-01T10:05:07+00:00"


def test_a_new_node_takes_nobody_until_it_is_ready(wire: Wire, node: str) -> None:
    taints = wire.get(f"/api/v1/nodes/{node}").body["spec"]["taints"]

    assert {"key": NOT_READY, "effect": "NoSchedule"} in taints


def test_taints_are_written_as_a_whole(wire: Wire, node: str) -> None:
    path = f"/api/v1/nodes/{node}"
    ours = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present"}

    wire.patch(path, {"spec": {"taints": [ours]}}, STRATEGIC)

    assert wire.get(path).body["spec"]["taints"] == [ours]


def test_what_a_node_offers_changes_by_its_status(wire: Wire, node: str) -> None:
    path = f"/api/v1/nodes/{node}"
    before = wire.get(path).body["metadata"]["resourceVersion"]
    slices: dict[str, Any] = {GPU: "4", "nvidia.com/mig-1g.10gb": "28"}

    wire.patch(f"{path}/status", {"status": {"allocatable": slices}})

    after = wire.get(path).body
    assert after["status"]["allocatable"][GPU] == "4"
    assert after["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] == "28"
    assert after["status"]["capacity"][GPU] == "8"
    assert int(after["metadata"]["resourceVersion"]) > int(before)


def test_a_node_is_watched_like_anything_else(wire: Wire, node: str) -> None:
    found = wire.get("/api/v1/nodes", fieldSelector=f"metadata.name={node}").body
    wire.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    events = list(
        wire.watch(
            "/api/v1/nodes",
            resourceVersion=found["metadata"]["resourceVersion"],
            fieldSelector=f"metadata.name={node}",
        )
    )

    assert found["items"][0]["status"]["allocatable"][GPU] == "8"
    assert [one["type"] for one in events][:1] == ["MODIFIED"]
    assert events[-1]["object"]["spec"]["unschedulable"] is True
