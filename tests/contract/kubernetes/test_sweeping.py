"""The suite's own broom: nothing of a run stays, whatever stands in the way."""

import uuid

import pytest

from tests.contract.kubernetes.conftest import (
    LABELS,
    PATIENCE_SECONDS,
    RUN_LABEL,
    Core,
    bind,
    new_name,
    pod_body,
)
from tests.support.kubernetes.sweeping import CLUSTER_WIDE, NAMESPACES, sweep
from tests.support.kubernetes.wire import Wire

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def labels() -> dict[str, str]:
    """Return the labels of a run of its own: no other test may be swept away."""
    return {**LABELS, RUN_LABEL: f"swept-{uuid.uuid4().hex[:8]}"}


def left(wire: Wire, labels: dict[str, str]) -> list[str]:
    selector = f"{RUN_LABEL}={labels[RUN_LABEL]}"
    found = []
    for path in (*CLUSTER_WIDE, NAMESPACES):
        listed = wire.get(path, labelSelector=selector).body
        found += [one["metadata"]["name"] for one in listed.get("items") or []]
    return found


def test_what_holds_on_is_swept_away_too(core: Core, wire: Wire, labels: dict[str, str]) -> None:
    name = new_name()
    metadata = {"name": name, "labels": labels}
    core.create_namespace({"metadata": metadata})
    assert wire.post("/api/v1/nodes", {"metadata": metadata}).code == 201
    held = pod_body("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    core.create_namespaced_pod(name, held)
    core.create_namespaced_pod(name, pod_body("bound"))
    bind(core, name, "bound", name)
    # A webhook that nobody answers would keep the pods for ever, if it did not go first.
    deaf = {
        "name": "deaf.contract.gpu-ledger.io",
        "clientConfig": {"url": "https://127.0.0.1:9/none"},
        "rules": [
            {
                "operations": ["DELETE", "UPDATE"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
            }
        ],
        "objectSelector": {"matchLabels": {RUN_LABEL: labels[RUN_LABEL]}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    kind = "ValidatingWebhookConfiguration"
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata}
    assert wire.post(WEBHOOKS, {**body, "webhooks": [deaf]}).code == 201
    before = left(wire, labels)

    sweep(wire, f"{RUN_LABEL}={labels[RUN_LABEL]}", patience_seconds=2 * PATIENCE_SECONDS)

    assert before == [name, name, name]
    assert left(wire, labels) == []
    assert wire.get(f"{NAMESPACES}/{name}").code == 404


def test_what_belongs_to_another_run_stays(
    core: Core, wire: Wire, namespace: str, labels: dict[str, str]
) -> None:
    sweep(wire, f"{RUN_LABEL}={labels[RUN_LABEL]}", patience_seconds=PATIENCE_SECONDS)

    assert core.read_namespace(namespace).status.phase == "Active"
