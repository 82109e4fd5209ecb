"""Everything a run made is removed, whatever happened in between."""

import time

from tests.support.kubernetes.wire import Wire

CLUSTER_WIDE = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/api/v1/nodes",
)
NAMESPACES = "/api/v1/namespaces"
NO_GRACE = {"gracePeriodSeconds": 0}


def close_namespace(wire: Wire, name: str) -> None:
    """Delete a namespace; pods on nodes that nobody runs would keep it for ever."""
    home = f"{NAMESPACES}/{name}"
    for job in wire.get(f"/apis/batch/v1/namespaces/{name}/jobs").body.get("items", []):
        path = f"/apis/batch/v1/namespaces/{name}/jobs/{job['metadata']['name']}"
        wire.delete(path, {"propagationPolicy": "Background"})
    for pod in wire.get(f"{home}/pods").body.get("items", []):
        path = f"{home}/pods/{pod['metadata']['name']}"
        if pod["metadata"].get("finalizers"):
            wire.patch(path, {"metadata": {"finalizers": None}})
        wire.delete(path, NO_GRACE)
    wire.delete(home)


def sweep(wire: Wire, selector: str, *, patience_seconds: float) -> None:
    """Remove what carries a label, and wait until it is gone.

    Webhooks go first: one that nobody answers would stand in the way of all else.
    """
    for path in CLUSTER_WIDE:
        for one in wire.get(path, labelSelector=selector).body.get("items") or []:
            wire.delete(f"{path}/{one['metadata']['name']}")
    deadline = time.monotonic() + patience_seconds
    while left := wire.get(NAMESPACES, labelSelector=selector).body["items"]:
        assert time.monotonic() < deadline, f"{len(left)} namespaces of this run are still there."
        for one in left:
            close_namespace(wire, one["metadata"]["name"])
        time.sleep(0.2)
