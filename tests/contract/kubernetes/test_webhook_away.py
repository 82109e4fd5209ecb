"""While our webhook is away and must not fail: what has to do with no GPU still goes on."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.kubernetes.conftest import GPU, MERGE, pod_body, wait_for
from tests.contract.kubernetes.test_jobs_and_priorities import job_body
from tests.contract.kubernetes.test_match_conditions import install, wait_until_asked
from tests.support.kubernetes.registering import Hooks, hooked
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.wire import Wire

pytestmark = [pytest.mark.needs(WEBHOOKS), pytest.mark.needs("1.28")]
JSON = dict[str, Any]
APPS, BATCH, DRA = "apps/v1", "batch/v1", "resource.k8s.io/v1"
CONTROLLED = ("deployments", "statefulsets", "replicasets", "daemonsets")
UNANSWERED = 500


@pytest.fixture
def hooks(
    wire: Wire, namespace: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    with hooked(wire, namespace, server, tmp_path_factory) as made:
        yield made


def away(hooks: Hooks) -> None:
    """Register what is printed for a namespace of a project, and end the webhook."""
    install(hooks, bound=(hooks.namespace,), failure_policy="Fail")
    wait_until_asked(hooks)
    hooks.server.stop()


def controlled(kind: str, *, gpus: int = 0, replicas: int = 1) -> JSON:
    labels = {"matchLabels": {"app": "x"}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod_body("x", gpus=gpus)["spec"]}
    spec: JSON = {"selector": labels, "template": template}
    if kind != "daemonsets":
        spec["replicas"] = replicas
    return {"metadata": {"name": "trainer"}, "spec": spec}


def claim(device_class: str) -> JSON:
    request = {"name": "one", "exactly": {"deviceClassName": device_class}}
    return {"metadata": {"name": "trainer"}, "spec": {"devices": {"requests": [request]}}}


def path_of(hooks: Hooks, group: str, plural: str) -> str:
    return f"/apis/{group}/namespaces/{hooks.namespace}/{plural}"


def codes_without_and_with_gpus(hooks: Hooks, server: Server) -> dict[str, tuple[int, int]]:
    """Return the answer to each kind of object in a dry run, without GPUs and with them."""
    bodies = {
        hooks.pods: (pod_body("trainer"), pod_body("trainer", gpus=1)),
        path_of(hooks, BATCH, "jobs"): (job_body(), job_body(gpus=1)),
    }
    if server.has(DRA):
        both = (claim("rdma.example.com"), claim("gpu.nvidia.com"))
        bodies[path_of(hooks, DRA, "resourceclaims")] = both
    if server.has(APPS):
        for kind in CONTROLLED:
            bodies[path_of(hooks, APPS, kind)] = (controlled(kind), controlled(kind, gpus=1))
        bodies[path_of(hooks, BATCH, "cronjobs")] = (cron_job(), cron_job(gpus=1))
    answered = {}
    for path, (plain, with_gpus) in bodies.items():
        found = [hooks.wire.post(path, body, dryRun="All") for body in (plain, with_gpus)]
        answered[path.rpartition("/")[2]] = (found[0].code, found[1].code)
    return answered


def cron_job(*, gpus: int = 0) -> JSON:
    template = {"spec": job_body(gpus=gpus)["spec"]}
    return {
        "metadata": {"name": "trainer"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": template},
    }


def test_only_what_asks_for_gpus_is_refused(hooks: Hooks, server: Server) -> None:
    away(hooks)

    answered = codes_without_and_with_gpus(hooks, server)

    assert answered == dict.fromkeys(answered, (201, UNANSWERED))
    assert len(answered) >= (3 if server.has(DRA) else 2)


def test_a_namespace_of_no_project_is_not_asked_about_where_such_are_free(
    hooks: Hooks, server: Server
) -> None:
    install(hooks)
    wait_until_asked(hooks)
    hooks.remove()
    hooks.made.clear()
    hooks.server.stop()
    install(hooks, bound=("another-namespace",), failure_policy="Fail")

    wait_for(lambda: set(codes_without_and_with_gpus(hooks, server).values()) == {(201, 201)})


def test_a_job_without_gpus_makes_its_pods_and_is_removed(hooks: Hooks) -> None:
    away(hooks)
    path = path_of(hooks, BATCH, "jobs")

    made = hooks.wire.post(path, job_body(parallelism=2, completions=2))

    assert made.code == 201
    wait_for(lambda: hooks.wire.get(f"{path}/train").body["status"].get("active") == 2)


def test_an_object_with_gpus_is_scaled_and_labelled_but_not_changed(hooks: Hooks) -> None:
    install(hooks, failure_policy="Fail")
    wait_until_asked(hooks)
    path = path_of(hooks, BATCH, "jobs")
    assert hooks.wire.post(path, job_body(gpus=1, suspend=True)).code == 201
    hooks.server.stop()

    def patched(**changes: object) -> int:
        return hooks.wire.patch(f"{path}/train", changes, MERGE, dryRun="All").code

    scaled = patched(spec={"parallelism": 2})
    labelled = patched(metadata={"labels": {"tier": "gold"}})
    changed = patched(spec={"template": {"metadata": {"labels": {"tier": "gold"}}}})

    assert (scaled, labelled, changed) == (200, 200, UNANSWERED)


@pytest.mark.real
def test_a_deployment_without_gpus_is_rolled_out_and_scaled(hooks: Hooks) -> None:
    away(hooks)
    path = path_of(hooks, APPS, "deployments")
    sets = path_of(hooks, APPS, "replicasets")

    def pods(image: str) -> int:
        listed = hooks.wire.get(hooks.pods).body["items"]
        return sum(image in pod["spec"]["containers"][0]["image"] for pod in listed)

    assert hooks.wire.post(path, controlled("deployments")).code == 201
    wait_for(lambda: pods("example.com/none:1") == 1)
    newer = {"name": "main", "image": "example.com/none:2"}
    template = {"spec": {"template": {"spec": {"containers": [newer]}}}}
    rolled = hooks.wire.patch(f"{path}/trainer", template, MERGE)
    wait_for(lambda: len(hooks.wire.get(sets).body["items"]) == 2)
    wait_for(lambda: pods("example.com/none:2") == 1)
    scaled = hooks.wire.patch(f"{path}/trainer/scale", {"spec": {"replicas": 3}}, MERGE)

    assert (rolled.code, scaled.code) == (200, 200)
    # No pod gets ready here, so that those of the older image stay beside them.
    wait_for(lambda: pods("example.com/none") >= 3)
    with_gpus = {"limits": {GPU: "1"}}
    changed = {"spec": {"template": {"spec": {"containers": [{**newer, "resources": with_gpus}]}}}}
    assert hooks.wire.patch(f"{path}/trainer", changed, MERGE).code == UNANSWERED
