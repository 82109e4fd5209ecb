"""Objects: create, read, update, patch and delete, with errors as Status objects."""

import time

import pytest

from tests.contract.kubernetes.conftest import (
    GPU,
    GPU_KEY,
    JSON_PATCH,
    LABEL,
    MERGE,
    STRATEGIC,
    Core,
    bind,
    hard_body,
    new_name,
    pod_body,
    refusal,
    status_body,
    wait_for,
)


def test_a_new_namespace_is_active_and_stamped(core: Core, namespace: str) -> None:
    found = core.read_namespace(namespace)

    assert found.status.phase == "Active"
    assert found.metadata.labels[LABEL] == "true"
    assert len(found.metadata.uid) == 36
    assert int(found.metadata.resource_version) > 0
    assert found.metadata.creation_timestamp.microsecond == 0


def test_a_second_namespace_of_the_same_name_is_refused(core: Core, namespace: str) -> None:
    before = core.read_namespace(namespace).metadata.uid

    error = refusal(lambda: core.create_namespace({"metadata": {"name": namespace}}))

    status = status_body(error)
    assert error.status == 409
    assert status["kind"] == "Status"
    assert status["reason"] == "AlreadyExists"
    assert status["message"] == f'namespaces "{namespace}" already exists'
    assert core.read_namespace(namespace).metadata.uid == before


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.ted", "a" * 64])
def test_a_name_that_is_no_label_is_invalid_for_a_namespace(core: Core, name: str) -> None:
    error = refusal(lambda: core.create_namespace({"metadata": {"name": name}}))

    status = status_body(error)
    assert (error.status, status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.name"


def test_what_does_not_exist_is_not_found_with_its_name(core: Core, namespace: str) -> None:
    error = refusal(lambda: core.read_namespaced_pod("nobody", namespace))

    status = status_body(error)
    assert error.status == 404
    assert status["reason"] == "NotFound"
    assert status["details"] == {"name": "nobody", "kind": "pods"}
    assert status["message"] == 'pods "nobody" not found'


def test_a_pod_in_a_missing_namespace_is_not_found(core: Core) -> None:
    home = new_name()

    error = refusal(lambda: core.create_namespaced_pod(home, pod_body("stray")))

    assert error.status == 404
    assert status_body(error)["message"] == f'namespaces "{home}" not found'


def test_a_new_pod_is_pending_and_its_limits_are_its_requests(core: Core, namespace: str) -> None:
    made = core.create_namespaced_pod(namespace, pod_body("trainer", gpus=2))

    assert made.status.phase == "Pending"
    assert made.spec.node_name is None
    assert made.spec.restart_policy == "Always"
    assert made.spec.termination_grace_period_seconds == 30
    assert made.spec.containers[0].resources.requests == {GPU: "2"}


def test_a_generated_name_begins_with_what_was_asked(core: Core, namespace: str) -> None:
    body = pod_body("x")
    body["metadata"] = {"generateName": "train-"}

    names = {core.create_namespaced_pod(namespace, body).metadata.name for _ in range(3)}

    assert len(names) == 3
    assert all(name.startswith("train-") and len(name) == 11 for name in names)


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        (
            {"requests": {GPU: "1"}, "limits": {GPU: "2"}},
            "spec.containers[0].resources.requests",
        ),
        ({"requests": {GPU: "1"}}, "spec.containers[0].resources.limits"),
        (
            {"requests": {GPU: "500m"}, "limits": {GPU: "500m"}},
            f"spec.containers[0].resources.limits[{GPU}]",
        ),
    ],
)
def test_a_gpu_is_asked_for_whole_and_without_overcommitment(
    core: Core, namespace: str, resources: dict[str, dict[str, str]], field: str
) -> None:
    body = pod_body("greedy")
    body["spec"]["containers"][0]["resources"] = resources

    error = refusal(lambda: core.create_namespaced_pod(namespace, body))

    fields = [cause["field"] for cause in status_body(error)["details"]["causes"]]
    assert error.status == 422
    assert field in fields
    assert core.list_namespaced_pod(namespace).items == []


def test_a_pod_without_containers_is_invalid(core: Core, namespace: str) -> None:
    body = pod_body("empty", containers=[])

    error = refusal(lambda: core.create_namespaced_pod(namespace, body))

    assert error.status == 422
    assert "spec.containers: Required value" in status_body(error)["message"]


def test_binding_sets_the_node_and_says_when(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))

    bind(core, namespace, "trainer")

    pod = core.read_namespaced_pod("trainer", namespace)
    scheduled = {one.type: one for one in pod.status.conditions}["PodScheduled"]
    assert pod.spec.node_name == "contract-node"
    assert scheduled.status == "True"
    assert scheduled.last_transition_time.microsecond == 0


def test_a_pod_is_bound_once(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))
    bind(core, namespace, "trainer", "first")

    error = refusal(lambda: bind(core, namespace, "trainer", "second"))

    assert error.status == 409
    assert 'already assigned to node "first"' in status_body(error)["message"]
    assert core.read_namespaced_pod("trainer", namespace).spec.node_name == "first"


def test_a_status_write_changes_the_status_alone(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))
    spec = {"activeDeadlineSeconds": 60}
    body = {"spec": spec, "status": {"phase": "Running"}}

    core.patch_namespaced_pod_status("trainer", namespace, body)

    pod = core.read_namespaced_pod("trainer", namespace)
    assert pod.status.phase == "Running"
    assert pod.spec.active_deadline_seconds is None


def test_a_status_write_of_a_pod_may_bring_labels(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))
    body = {"metadata": {"labels": {"app": "llm"}}, "status": {"phase": "Running"}}

    core.patch_namespaced_pod_status("trainer", namespace, body)

    pod = core.read_namespaced_pod("trainer", namespace)
    assert pod.metadata.labels == {"app": "llm"}


def test_an_ordinary_write_leaves_the_status(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))
    body = {"metadata": {"labels": {"app": "llm"}}, "status": {"phase": "Succeeded"}}

    core.patch_namespaced_pod("trainer", namespace, body)

    pod = core.read_namespaced_pod("trainer", namespace)
    assert pod.metadata.labels == {"app": "llm"}
    assert pod.status.phase == "Pending"


def test_conditions_merge_by_their_type(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))
    bind(core, namespace, "trainer")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    core.patch_namespaced_pod_status("trainer", namespace, ready, _content_type=STRATEGIC)

    conditions = core.read_namespaced_pod("trainer", namespace).status.conditions
    assert sorted(one.type for one in conditions) == ["PodScheduled", "Ready"]


def test_what_a_pod_asks_for_cannot_change(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer", gpus=1))
    more = {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "4"}}}]}}

    error = refusal(
        lambda: core.patch_namespaced_pod("trainer", namespace, more, _content_type=STRATEGIC)
    )

    pod = core.read_namespaced_pod("trainer", namespace)
    assert error.status == 422
    assert pod.spec.containers[0].resources.limits == {GPU: "1"}


def test_a_write_on_an_old_version_is_a_conflict(core: Core, namespace: str) -> None:
    old = core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "1"}))
    core.patch_namespaced_resource_quota("gpus", namespace, {"metadata": {"labels": {"a": "b"}}})
    body = hard_body({GPU_KEY: "9"}, resourceVersion=old.metadata.resource_version)

    error = refusal(lambda: core.replace_namespaced_resource_quota("gpus", namespace, body))

    assert error.status == 409
    assert status_body(error)["reason"] == "Conflict"
    assert "the object has been modified" in status_body(error)["message"]
    assert core.read_namespaced_resource_quota("gpus", namespace).spec.hard == {GPU_KEY: "1"}


def test_a_write_that_changes_nothing_makes_no_version(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))
    label = {"metadata": {"labels": {"app": "llm"}}}
    first = core.patch_namespaced_pod("trainer", namespace, label)

    second = core.patch_namespaced_pod("trainer", namespace, label)

    assert second.metadata.resource_version == first.metadata.resource_version


def test_null_in_a_merge_patch_removes(core: Core, namespace: str) -> None:
    hard = {GPU_KEY: "4", "requests.nvidia.com/mig-1g.10gb": "2"}
    core.create_namespaced_resource_quota(namespace, hard_body(hard))

    core.patch_namespaced_resource_quota(
        "gpus", namespace, {"spec": {"hard": {GPU_KEY: None}}}, _content_type=MERGE
    )

    found = core.read_namespaced_resource_quota("gpus", namespace)
    assert found.spec.hard == {"requests.nvidia.com/mig-1g.10gb": "2"}


def test_a_json_patch_replaces_by_path(core: Core, namespace: str) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "4"}))
    path = "/spec/hard/requests.nvidia.com~1gpu"

    core.patch_namespaced_resource_quota(
        "gpus",
        namespace,
        [{"op": "replace", "path": path, "value": "5"}],
        _content_type=JSON_PATCH,
    )

    found = core.read_namespaced_resource_quota("gpus", namespace)
    assert found.spec.hard == {GPU_KEY: "5"}


def test_a_pod_on_no_node_is_gone_at_once(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))

    core.delete_namespaced_pod("trainer", namespace)

    assert refusal(lambda: core.read_namespaced_pod("trainer", namespace)).status == 404


def test_a_pod_on_a_node_ends_with_grace(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("trainer"))
    bind(core, namespace, "trainer")
    before = time.time()

    core.delete_namespaced_pod("trainer", namespace, grace_period_seconds=20)

    pod = core.read_namespaced_pod("trainer", namespace)
    deletion = pod.metadata.deletion_timestamp.timestamp()
    assert pod.metadata.deletion_grace_period_seconds == 20
    assert 18 <= deletion - before <= 22
    core.delete_namespaced_pod("trainer", namespace, grace_period_seconds=0)
    assert refusal(lambda: core.read_namespaced_pod("trainer", namespace)).status == 404


def test_a_reused_name_has_another_uid(core: Core, namespace: str) -> None:
    first = core.create_namespaced_pod(namespace, pod_body("worker-0"))
    core.delete_namespaced_pod("worker-0", namespace)

    second = core.create_namespaced_pod(namespace, pod_body("worker-0"))

    assert first.metadata.uid != second.metadata.uid


def test_a_deletion_of_another_uid_is_a_conflict(core: Core, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod_body("worker-0"))
    wanted = {"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}}

    error = refusal(lambda: core.delete_namespaced_pod("worker-0", namespace, body=wanted))

    assert error.status == 409
    assert core.read_namespaced_pod("worker-0", namespace).metadata.name == "worker-0"


def test_a_finalizer_keeps_an_object_until_it_is_taken_off(core: Core, namespace: str) -> None:
    body = hard_body({GPU_KEY: "1"}, finalizers=["example.com/hold"])
    core.create_namespaced_resource_quota(namespace, body)

    core.delete_namespaced_resource_quota("gpus", namespace)

    held = core.read_namespaced_resource_quota("gpus", namespace)
    assert held.metadata.deletion_timestamp is not None
    core.patch_namespaced_resource_quota(
        "gpus", namespace, {"metadata": {"finalizers": None}}, _content_type=MERGE
    )
    assert refusal(lambda: core.read_namespaced_resource_quota("gpus", namespace)).status == 404


def test_a_deleted_namespace_takes_everything_with_it(core: Core, namespace: str) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "1"}))

    core.delete_namespace(namespace)

    wait_for(lambda: namespace not in [one.metadata.name for one in core.list_namespace().items])
    assert refusal(lambda: core.read_namespaced_resource_quota("gpus", namespace)).status == 404


def test_a_dry_run_answers_and_stores_nothing(core: Core, namespace: str) -> None:
    made = core.create_namespaced_pod(namespace, pod_body("ghost"), dry_run="All")

    assert made.metadata.name == "ghost"
    assert core.list_namespaced_pod(namespace).items == []


def test_the_name_in_a_body_is_the_name_on_the_path(core: Core, namespace: str) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "1"}))
    body = hard_body({GPU_KEY: "1"}, name="another")

    error = refusal(lambda: core.replace_namespaced_resource_quota("gpus", namespace, body))

    assert error.status == 400
    assert status_body(error)["reason"] == "BadRequest"


def test_the_namespace_in_a_body_is_the_namespace_on_the_path(core: Core, namespace: str) -> None:
    body = pod_body("lost")
    body["metadata"]["namespace"] = "another"

    error = refusal(lambda: core.create_namespaced_pod(namespace, body))

    assert error.status == 400
    assert "does not match the namespace" in status_body(error)["message"]
