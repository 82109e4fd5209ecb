"""Jobs and their pods, suspended and resumed; priority classes and quotas about them."""

from collections.abc import Iterator

import pytest

from tests.contract.kubernetes.conftest import (
    GPU_KEY,
    LABELS,
    Core,
    hard_body,
    new_name,
    pod_body,
    set_phase,
    wait_for,
    wait_for_hard,
    wait_for_used,
)
from tests.support.kubernetes.wire import Body, Wire

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def job_body(name: str = "train", *, gpus: int = 0, **spec: object) -> Body:
    template = {"spec": {**pod_body(name, gpus=gpus)["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def pods_of(wire: Wire, namespace: str) -> list[Body]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    found: list[Body] = wire.get(path, labelSelector="job-name=train").body["items"]
    return found


def status_of(wire: Wire, namespace: str) -> Body:
    found: Body = wire.get(f"{jobs(namespace)}/train").body.get("status", {})
    return found


def conditions(wire: Wire, namespace: str) -> dict[str, str]:
    found = status_of(wire, namespace).get("conditions") or []
    return {one["type"]: one["status"] for one in found}


def test_a_job_makes_its_pods_and_owns_them(wire: Wire, namespace: str) -> None:
    made = wire.post(jobs(namespace), job_body(parallelism=2, completions=2))

    wait_for(lambda: status_of(wire, namespace).get("active") == 2)
    pods = pods_of(wire, namespace)
    assert made.code == 201
    assert [pod["metadata"]["name"][:6] for pod in pods] == ["train-", "train-"]
    for pod in pods:
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "train", True)
        assert owner["uid"] == made.body["metadata"]["uid"]


def test_a_job_is_complete_when_its_pods_succeeded(core: Core, wire: Wire, namespace: str) -> None:
    wire.post(jobs(namespace), job_body())
    wait_for(lambda: len(pods_of(wire, namespace)) == 1)
    (pod,) = pods_of(wire, namespace)

    set_phase(core, namespace, pod["metadata"]["name"], "Succeeded")

    wait_for(lambda: conditions(wire, namespace).get("Complete") == "True")
    assert status_of(wire, namespace)["succeeded"] == 1


def test_the_quota_holds_for_a_job_and_it_goes_on_when_there_is_room(
    core: Core, wire: Wire, namespace: str
) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "1"}))
    wait_for_hard(core, namespace, {GPU_KEY: "1"})

    wire.post(jobs(namespace), job_body(gpus=1, parallelism=2, completions=2))

    wait_for_used(core, namespace, "1")
    assert len(pods_of(wire, namespace)) == 1


def test_a_job_takes_its_pods_along_if_reported_so(wire: Wire, namespace: str) -> None:
    wire.post(jobs(namespace), job_body())
    wait_for(lambda: len(pods_of(wire, namespace)) == 1)

    wire.delete(f"{jobs(namespace)}/train", {"propagationPolicy": "Background"})

    wait_for(lambda: pods_of(wire, namespace) == [])


def test_a_job_leaves_its_pods_behind_if_reported_nothing(wire: Wire, namespace: str) -> None:
    wire.post(jobs(namespace), job_body())
    wait_for(lambda: len(pods_of(wire, namespace)) == 1)

    wire.delete(f"{jobs(namespace)}/train")

    wait_for(lambda: wire.get(f"{jobs(namespace)}/train").code == 404)
    (pod,) = pods_of(wire, namespace)
    assert not pod["metadata"].get("ownerReferences")


@pytest.mark.needs("1.24")
def test_a_suspended_job_gives_its_devices_back(core: Core, wire: Wire, namespace: str) -> None:
    core.create_namespaced_resource_quota(namespace, hard_body({GPU_KEY: "1"}))
    wait_for_hard(core, namespace, {GPU_KEY: "1"})
    wire.post(jobs(namespace), job_body(gpus=1))
    wait_for_used(core, namespace, "1")

    wire.patch(f"{jobs(namespace)}/train", {"spec": {"suspend": True}})

    wait_for_used(core, namespace, "0")
    wait_for(lambda: conditions(wire, namespace).get("Suspended") == "True")
    assert pods_of(wire, namespace) == []
    assert "active" not in status_of(wire, namespace)


@pytest.mark.needs("1.24")
def test_a_resumed_job_begins_again(wire: Wire, namespace: str) -> None:
    wire.post(jobs(namespace), job_body(suspend=True))
    wait_for(lambda: conditions(wire, namespace).get("Suspended") == "True")
    before = pods_of(wire, namespace)

    wire.patch(f"{jobs(namespace)}/train", {"spec": {"suspend": False}})

    wait_for(lambda: len(pods_of(wire, namespace)) == 1)
    wait_for(lambda: conditions(wire, namespace).get("Suspended") == "False")
    assert before == []


@pytest.mark.parametrize("policy", ["Always", ""])
def test_a_job_whose_pods_never_end_is_invalid(wire: Wire, namespace: str, policy: str) -> None:
    body = job_body()
    body["spec"]["template"]["spec"]["restartPolicy"] = policy

    refused = wire.post(jobs(namespace), body)

    fields = {cause["field"] for cause in refused.body["details"]["causes"]}
    assert refused.code == 422
    assert refused.message.startswith('Job.batch "train" is invalid')
    assert "spec.template.spec.restartPolicy" in fields


def test_what_a_job_runs_cannot_change(wire: Wire, namespace: str) -> None:
    wire.post(jobs(namespace), job_body(parallelism=0))
    more = {"spec": {"completions": 5}}

    assert wire.patch(f"{jobs(namespace)}/train", more).code == 422
    assert wire.patch(f"{jobs(namespace)}/train", {"spec": {"parallelism": 1}}).code == 200


def test_an_unknown_job_is_reported_with_its_group(wire: Wire, namespace: str) -> None:
    missing = wire.get(f"{jobs(namespace)}/nobody")

    assert missing.message == 'jobs.batch "nobody" not found'
    assert missing.body["details"] == {"name": "nobody", "group": "batch", "kind": "jobs"}


@pytest.fixture
def burst(wire: Wire) -> Iterator[str]:
    name = new_name()
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": LABELS},
        "value": 1000,
    }
    assert wire.post(CLASSES, body).code == 201
    yield name
    wire.delete(f"{CLASSES}/{name}")


def prioritized(name: str, priority: str) -> Body:
    return pod_body(name, priorityClassName=priority)


def known(wire: Wire, namespace: str, priority: str) -> bool:
    path = f"/api/v1/namespaces/{namespace}/pods"
    return wire.post(path, prioritized("probe", priority), dryRun="All").code == 201


def test_a_pod_has_the_priority_of_its_class(wire: Wire, namespace: str, burst: str) -> None:
    wait_for(lambda: known(wire, namespace, burst))

    made = wire.post(f"/api/v1/namespaces/{namespace}/pods", prioritized("a", burst))

    assert made.body["spec"]["priority"] == 1000
    assert made.body["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


def test_a_pod_without_a_class_has_priority_zero(wire: Wire, namespace: str) -> None:
    made = wire.post(f"/api/v1/namespaces/{namespace}/pods", pod_body("a"))

    assert made.body["spec"]["priority"] == 0


def test_an_unknown_class_is_refused(wire: Wire, namespace: str) -> None:
    refused = wire.post(f"/api/v1/namespaces/{namespace}/pods", prioritized("a", "nobody"))

    assert refused.code == 403
    assert refused.message == ('pods "a" is forbidden: no PriorityClass with name nobody was found')


def test_the_value_of_a_class_cannot_change(wire: Wire, burst: str) -> None:
    refused = wire.patch(f"{CLASSES}/{burst}", {"value": 2000})

    assert refused.code == 422
    assert wire.get(f"{CLASSES}/{burst}").body["value"] == 1000


def test_a_quota_may_be_about_one_class_alone(
    core: Core, wire: Wire, namespace: str, burst: str
) -> None:
    wait_for(lambda: known(wire, namespace, burst))
    body = hard_body({"pods": "1"}, name="burst")
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": [burst]}
    body["spec"]["scopeSelector"] = {"matchExpressions": [expression]}
    core.create_namespaced_resource_quota(namespace, body)
    wait_for_hard(core, namespace, {"pods": "1"}, "burst")
    path = f"/api/v1/namespaces/{namespace}/pods"

    codes = [
        wire.post(path, pod_body("plain")).code,
        wire.post(path, prioritized("first", burst)).code,
        wire.post(path, prioritized("second", burst)).code,
    ]

    assert codes == [201, 201, 403]
