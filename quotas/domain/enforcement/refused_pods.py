"""Refused pods: what a namespace's ResourceQuota refuses, as controllers of the cluster report it.

Only a controller leaves a trace: an event, and conditions. A person whose own pod is refused reads
that at the terminal, and nothing in the cluster remembers it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

JSON = Mapping[str, Any]
_REFUSAL: Final = re.compile(
    r"exceeded quota: gpu-ledger(?P<scope>-nominal|-burst)?, requested: (?P<asked>.+?), used: "
)
"""Source: kubernetes/apiserver, pkg/admission/plugin/resourcequota/controller.go."""


@dataclass(frozen=True)
class RefusedWorkload:
    """A workload that lacks pods because of its namespace's quota.

    Attributes:
        workload: As "Kind/name".
        requested: ResourceQuota key to units of one pod, those that did not fit.
        pods: How many pods it lacks.
        asked_at: When one was first refused, UTC.
        is_burst: Whether its pods are preemptible.
    """

    namespace: str
    workload: str
    requested: Mapping[str, int]
    pods: int
    asked_at: datetime
    is_burst: bool = False


@dataclass(frozen=True)
class QuotaRefusal:
    """What one of our quotas refused to a pod: units by ResourceQuota key."""

    requested: Mapping[str, int]
    is_burst: bool


def find_refusal(message: str) -> QuotaRefusal | None:
    """Return what a message says one of our quotas refused; None for any other message."""
    match = _REFUSAL.search(message)
    if match is None:
        return None
    amounts = (part.partition("=") for part in match["asked"].split(","))
    requested = {key: int(units) for key, _, units in amounts if units.isdecimal() and int(units)}
    return QuotaRefusal(requested, is_burst=match["scope"] == "-burst") if requested else None


def lacking_pods(kind: str, controller: JSON) -> int:
    """Return how many pods a controller still tries to create; 0 for a kind that is not known.

    Args:
        kind: "ReplicaSet", "ReplicationController", "StatefulSet" or "Job".
        controller: As the API server returns it.
    """
    spec, status = controller.get("spec") or {}, controller.get("status") or {}
    holds = {
        one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"
    }
    if kind == "Job":
        return 0 if holds & {"Complete", "Failed", "Suspended"} else _lacking_of_job(spec, status)
    if kind != "StatefulSet" and "ReplicaFailure" not in holds:
        return 0
    wanted = spec.get("replicas")
    return max(0, (1 if wanted is None else int(wanted)) - int(status.get("replicas") or 0))


def _lacking_of_job(spec: JSON, status: JSON) -> int:
    active = int(status.get("active") or 0)
    wanted = spec.get("parallelism")
    lacking = (1 if wanted is None else int(wanted)) - active
    if spec.get("completions") is not None:
        left = int(spec["completions"]) - int(status.get("succeeded") or 0) - active
        lacking = min(lacking, left)
    return max(0, lacking)
