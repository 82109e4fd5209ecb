"""Workloads of contract tests whose pods take GPUs, and what follows them."""

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from quotas.webhook.following import LOOK_SECONDS, Follower
from tests.contract.kubernetes.conftest import Client, pod_body, wait_for
from tests.support.kubernetes.registering import Hooks


def deploy(hooks: Hooks, *, replicas: int) -> None:
    """Make a Deployment whose pods take a GPU each."""
    labels = {"app": "train"}
    template = {"metadata": {"labels": labels}, "spec": pod_body("", gpus=1)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{hooks.namespace}/deployments"
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train"}}
    assert hooks.wire.post(path, {**body, "spec": spec}).code == 201


def owned_body(job: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as a Job's controller asks for it, under a drawn name."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
    body = pod_body("", gpus=2)
    body["metadata"] = {
        "generateName": "train-",
        "labels": job["spec"]["selector"]["matchLabels"],
        "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}],
    }
    return body


def make_job(hooks: Hooks) -> dict[str, Any]:
    """Make a suspended Job: the test asks for its pods, and its controller for none."""
    template = {"spec": {**pod_body("", gpus=2)["spec"], "restartPolicy": "Never"}}
    path = f"/apis/batch/v1/namespaces/{hooks.namespace}/jobs"
    body = {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": template}}
    made = hooks.wire.post(path, {"apiVersion": "batch/v1", "kind": "Job", **body})
    assert made.code == 201
    found: dict[str, Any] = made.body
    return found


@contextmanager
def connection_to(api_client: Client) -> Iterator[ssl.SSLSocket]:
    configuration = api_client.configuration
    target = urlsplit(configuration.host)
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.check_hostname = False
    with (
        socket.create_connection((target.hostname, target.port), timeout=10) as plain,
        context.wrap_socket(plain) as wrapped,
    ):
        yield wrapped


def request_for(api_client: Client, path: str, body: dict[str, Any]) -> bytes:
    headers: dict[str, str] = {"Content-Type": "application/json", "Host": "api"}
    api_client.update_params_for_auth(headers, [], ["BearerToken"], path, "POST", body)
    sent = json.dumps({"apiVersion": "v1", "kind": "Pod", **body}).encode()
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(sent)}", "", ""]).encode() + sent


def wake(follower: Follower) -> None:
    """Wake it as often as the thread that finds unseen pods does."""
    while not follower.stop.wait(LOOK_SECONDS):
        follower.wake.set()


def take_a_pod(hooks: Hooks, job: dict[str, Any], release: Callable[[], bool]) -> None:
    """Take a pod from its Job, which is suspended: its controller deletes the pod if it is faster.

    Then another pod is tried, once the units of the former one are released.

    Args:
        hooks: Its webhook is asked for each pod.
        job: The pod's.
        release: Whether the units of a pod that is gone are released by now.
    """
    orphaned = {"metadata": {"labels": None, "ownerReferences": None}}
    for _ in range(5):
        made = hooks.wire.post(hooks.pods, owned_body(job))
        assert made.code == 201
        if hooks.wire.patch(f"{hooks.pods}/{made.body['metadata']['name']}", orphaned).code == 200:
            return
        wait_for(release)
    pytest.fail("The Job's controller was faster five times.")
