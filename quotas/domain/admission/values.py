"""Values of admission: what a pod requests, and the verdict with its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from metering.domain.catalogue.units import GPUSize


@dataclass(frozen=True)
class Demand:
    """A pod's request for one resource.

    Attributes:
        resource: Raw resource name, or "claim/<device class>".
        size: The size it counts to; before its bind the largest it can be.
        units: Effective request, 1 or more.
        model_groups: Every GPU model group it may land on, such as ("A100", "H100"), sorted. A
            limit of a model group counts the pod when its group is among these; once the pod is
            bound, only its own group stands here. Empty when the cluster offers the resource on
            no node yet: then it counts against every group of that size.
        sharing_modes: Every way it may be served: "dedicated", "whole", "mig", "mps",
            "time-slicing", sorted.
    """

    resource: str
    size: GPUSize
    units: int
    model_groups: tuple[str, ...] = ()
    sharing_modes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodQuestion:
    """One pod that requests admission.

    Attributes:
        pod_uid: `metadata.uid` from the API server; the key of its reservation.
        owner: Our user name of the person it belongs to; "" when unknown.
        is_burst: Whether its PriorityClass is one of the preemptible ones.
        is_dry_run: Whether to write nothing.
    """

    cluster_id: UUID
    namespace: str
    pod_uid: str
    pod_name: str
    owner: str
    demands: tuple[Demand, ...]
    controller: str = ""
    priority_class: str = ""
    is_burst: bool = False
    is_dry_run: bool = False


class VerdictCode(StrEnum):
    """Why a pod was admitted or denied. Codes that start with "allowed" admit it."""

    ALLOWED = "allowed"
    ALLOWED_BEFORE = "allowed_before"
    """The same pod uid was admitted before; nothing was counted again."""
    ALLOWED_UNGOVERNED = "allowed_ungoverned"
    """Neither project nor organization has any limit."""
    LIMIT_REACHED = "limit_reached"
    NOTHING_GRANTED = "nothing_granted"
    """Its tenant is governed, and no limit above grants this size."""
    ALLOWANCE_USED = "allowance_used"
    """The month's allowance of unit-hours is used up."""
    SUSPENDED = "suspended"
    REPLAYED_OTHERWISE = "replayed_otherwise"
    """The uid was used before: with another body, or by a pod that has ended."""
    DEMAND_TOO_LARGE = "demand_too_large"
    """It requests more of one resource than any pod can."""
    CLOSED = "closed"
    """The project of its namespace, or the organization, is closed."""
    NAMESPACE_UNBOUND = "namespace_unbound"
    """No project has the namespace; only `QUOTA_UNBOUND_NAMESPACES` may let it in."""


@dataclass(frozen=True)
class Blocker:
    """The limit that a pod does not fit under, with its figures at the review.

    Attributes:
        scope: "organization", "project" or "user".
        holder: Slug of the organization or project, or the user name.
        model_group: "" for every model.
        cluster: Slug; "" for every cluster.
        limit_units: What is in force, burst or nominal as the pod is; 0 where nothing is granted.
        used_units: Held by bound pods.
        reserved_units: Admitted and not bound yet.
        asked_units: Units that this pod requests.
    """

    scope: str
    holder: str
    size: GPUSize
    limit_units: int
    used_units: int
    reserved_units: int
    asked_units: int
    model_group: str = ""
    cluster: str = ""
    is_burst: bool = False


@dataclass(frozen=True)
class AdmissionVerdict:
    """The verdict on a pod.

    Attributes:
        blocker: Set for LIMIT_REACHED, NOTHING_GRANTED and ALLOWANCE_USED.
        reason: For SUSPENDED, the text entered at the suspension.
        nearly_full: Limits that are at 90 % or more with this pod: returned as warnings.
    """

    code: VerdictCode
    blocker: Blocker | None = None
    reason: str = ""
    nearly_full: tuple[Blocker, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether the pod may be created."""
        return self.code.value.startswith("allowed")


def verdict_of(answer: Mapping[str, Any]) -> AdmissionVerdict:
    """Return the verdict from the database's JSON.

    Args:
        answer: "code", and where they apply "blocker", "reason" and "nearly_full".
    """
    blocker = answer.get("blocker")
    return AdmissionVerdict(
        code=VerdictCode(answer["code"]),
        blocker=None if blocker is None else _blocker_of(blocker),
        reason=answer.get("reason") or "",
        nearly_full=tuple(_blocker_of(row) for row in answer.get("nearly_full") or ()),
    )


def _blocker_of(row: Mapping[str, Any]) -> Blocker:
    return Blocker(**{**row, "size": GPUSize(row["size"])})
