"""Reviews as API servers send them, for the tests of the endpoint."""

import json
from typing import Any

JSON = dict[str, Any]
UID = "f0a1b2c3-1111-4222-8333-944455556666"
REVIEW_UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
FREE = {"resource.kubernetes.io/extended-resource-claim": "true"}
"""Annotations of a claim that says it was counted with a pod."""


def container(name: str = "main", **resources: str | int) -> JSON:
    """Return a container that limits itself to resources; `gpu` stands for nvidia.com/gpu."""
    limits = {"nvidia.com/gpu" if key == "gpu" else key: value for key, value in resources.items()}
    return {"name": name, "resources": {"limits": limits, "requests": limits}}


def pod(gpus: int = 1, *, owner: str = "", **spec: object) -> JSON:
    """Return a pod with one container that asks for GPUs."""
    annotations = {"annotations": {"gpu-ledger.io/owner": owner}} if owner else {}
    containers = [container(gpu=str(gpus)) if gpus else {"name": "main"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-x7k2p", "namespace": "team-llm", "uid": UID, **annotations},
        "spec": {"containers": containers, **spec},
    }


def job(gpus: int = 1, *, owner: str = "", parallelism: int = 1) -> JSON:
    """Return a Job of such pods."""
    made = pod(gpus, owner=owner)
    annotations = made["metadata"].get("annotations")
    metadata = {"annotations": annotations} if annotations else {}
    template = {"metadata": metadata, "spec": made["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team-llm"},
        "spec": {"parallelism": parallelism, "template": template},
    }


def claim(*counts: int, **metadata: object) -> JSON:
    """Return a claim with one request for each number of devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "two", "namespace": "team-llm", "uid": "claim-uid", **metadata},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
                    for count in counts
                ]
            }
        },
    }


def made_by(obj: JSON, api_version: str, kind: str) -> JSON:
    """Return an object that another one controls."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "train", "controller": True}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}


def request(obj: JSON | None, *, user: str = "alice", **changes: object) -> JSON:
    """Return the request of a review about an object, asked for by somebody."""
    version, kind = ("v1", "Pod") if obj is None else (obj["apiVersion"], obj["kind"])
    group, _, number = version.rpartition("/")
    return {
        "uid": REVIEW_UID,
        "kind": {"group": group, "version": number, "kind": kind},
        "resource": {"group": group, "version": number, "resource": f"{kind.lower()}s"},
        "name": "train-x7k2p",
        "namespace": "team-llm",
        "operation": "CREATE",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        **changes,
    }


def review(obj: JSON | None, *, user: str = "alice", **changes: object) -> JSON:
    """Return a whole review."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": request(obj, user=user, **changes),
    }


def body(obj: JSON | None, *, user: str = "alice", **changes: object) -> bytes:
    """Return a review as it comes over the wire."""
    return json.dumps(review(obj, user=user, **changes)).encode()
