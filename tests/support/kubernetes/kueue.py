"""Kueue's queues on a real API server: definitions of our own, and a stand-in for its controller.

The definitions have what the enforcer writes and what decides how a server merges it; Kueue's own
have more. Source of the fields: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from quotas.adapters.kueue import API_VERSION
from tests.support.kubernetes.wire import MERGE, Body, Wire

GROUP, VERSION = API_VERSION.split("/")
LABELS: Final = {"gpu-ledger.io/contract": "true"}
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVED: Final = f"/apis/{API_VERSION}"
NAMESPACE: Final = "/api/v1/namespaces/kueue-system"
QUEUES: Final = ("clusterqueues", "localqueues")
PATIENCE_SECONDS: Final = 60
EVERY_SECONDS: Final = 0.05
OPEN: Final = "None"
TEXT: Final[Body] = {"type": "string"}
ANYTHING: Final[Body] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
QUANTITY: Final[Body] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}


def listed(items: Body) -> Body:
    """Return the schema of a list that is owned as a whole and never empty."""
    return {"type": "array", "minItems": 1, "x-kubernetes-list-type": "atomic", "items": items}


def object_of(*required: str, **properties: Body) -> Body:
    return {"type": "object", "required": list(required), "properties": properties}


RESOURCE: Final = object_of(
    "name", "nominalQuota", name=TEXT, nominalQuota=QUANTITY, borrowingLimit=QUANTITY
)
FLAVOR: Final = object_of("name", "resources", name=TEXT, resources=listed(RESOURCE))
RESOURCE_GROUP: Final = object_of(
    "coveredResources", "flavors", coveredResources=listed(TEXT), flavors=listed(FLAVOR)
)
STOP_POLICY: Final[Body] = {**TEXT, "enum": [OPEN, "Hold", "HoldAndDrain"], "default": OPEN}
SPECS: Final[dict[str, Body]] = {
    "ClusterQueue": object_of(
        cohortName=TEXT,
        namespaceSelector=ANYTHING,
        stopPolicy=STOP_POLICY,
        resourceGroups={**listed(RESOURCE_GROUP), "minItems": 0},
    ),
    "LocalQueue": object_of("clusterQueue", clusterQueue=TEXT, stopPolicy=STOP_POLICY),
    "ResourceFlavor": ANYTHING,
}


def definition(kind: str, *, is_namespaced: bool) -> Body:
    plural = f"{kind.lower()}s"
    schema = object_of(spec=SPECS[kind], status=ANYTHING)
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": LABELS},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced" if is_namespaced else "Cluster",
            "versions": [version],
        },
    }


def has_kueue(wire: Wire) -> bool:
    """Whether a server has definitions of Kueue that are not ours."""
    reply = wire.get(f"{DEFINITIONS}/clusterqueues.{GROUP}")
    return reply.code == HTTPStatus.OK and not _is_ours(reply.body)


def _is_ours(found: Body) -> bool:
    labels: dict[str, str] = found.get("metadata", {}).get("labels", {})
    return LABELS.items() <= labels.items()


@contextmanager
def installed(wire: Wire) -> Iterator[None]:
    """Install the definitions and play Kueue's controller; nothing is left afterwards."""
    remove(wire)
    try:
        for kind in SPECS:
            body = definition(kind, is_namespaced=kind == "LocalQueue")
            assert wire.post(DEFINITIONS, body).code == 201
        wait_for(lambda: all(wire.get(f"{SERVED}/{plural}").code == 200 for plural in QUEUES))
        stop = threading.Event()
        thread = threading.Thread(target=_control, args=(wire, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
    finally:
        remove(wire)


def remove(wire: Wire) -> None:
    """Remove our definitions with every queue, and the namespace made for the configuration."""
    for kind in SPECS:
        wire.delete(f"{DEFINITIONS}/{kind.lower()}s.{GROUP}")
    if _is_ours(wire.get(NAMESPACE).body):
        wire.delete(NAMESPACE)
        wait_for(lambda: wire.get(NAMESPACE).code == 404)
    wait_for(lambda: wire.get(SERVED).code == 404)
    wait_for(lambda: all(wire.get(f"{SERVED}/{plural}").code == 404 for plural in QUEUES))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "The definitions of Kueue did not settle in time."
        time.sleep(EVERY_SECONDS)


def _control(wire: Wire, stop: threading.Event) -> None:
    """Observe each new generation of a queue, as Kueue's controller does."""
    while not stop.wait(EVERY_SECONDS):
        for plural in QUEUES:
            for queue in wire.get(f"{SERVED}/{plural}").body.get("items", []):
                _observe(wire, plural, queue)


def _observe(wire: Wire, plural: str, queue: Body) -> None:
    metadata, generation = queue["metadata"], queue["metadata"]["generation"]
    known = queue.get("status", {}).get("conditions") or [{}]
    if known[0].get("observedGeneration") == generation:
        return
    is_open = queue["spec"].get("stopPolicy", OPEN) == OPEN
    condition = {
        "type": "Active",
        "status": str(is_open),
        "reason": "Ready" if is_open else "Stopped",
        "observedGeneration": generation,
        "lastTransitionTime": metadata["creationTimestamp"],
    }
    home = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    path = f"{SERVED}/{home}{plural}/{metadata['name']}/status"
    wire.patch(path, {"status": {"conditions": [condition]}}, MERGE)
