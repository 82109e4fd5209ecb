"""What metering needs from a cluster's API: a consistent list, then every change after it.

Raw names: resources, labels and devices are spelled as Kubernetes spells them. All times are aware
UTC datetimes. A state is one object as one answer of the API reported it; nothing is stored here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from metering.protocols import ContainerRequest


@dataclass(frozen=True)
class WatchTarget:
    """One cluster, as a watch needs to know it.

    Attributes:
        slug: Our name of the cluster.
        kubernetes_url: Where its API answers, https; "" takes that of the credentials.
        credential_reference: The name of a secret, or "in-cluster"; never the secret.
        user_label: Raw pod label that names the owning user; "" for none.
        owner_annotation: Pod annotation that admission checks; "" where admission does not check
            it and any user could write it.
        class_names: Device class to the extended resource name that it was last known to give to
            its devices; what is watched of classes goes before it. It is no part of the identity.
    """

    slug: str
    kubernetes_url: str = ""
    credential_reference: str = ""
    user_label: str = ""
    owner_annotation: str = ""
    class_names: Mapping[str, str] = field(default_factory=dict, compare=False)


class WatchedKind(StrEnum):
    """What is watched, each with a resourceVersion of its own."""

    PODS = "pods"
    NODES = "nodes"
    CLAIMS = "resourceclaims"
    SLICES = "resourceslices"
    CLASSES = "deviceclasses"


class Change(StrEnum):
    """What an event says of its object; a bookmark carries no object, only a version."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True)
class PodState:
    """One pod as the API reported it.

    Attributes:
        node: "" while it is not bound.
        phase: "Pending", "Running", "Succeeded", "Failed" or "Unknown".
        reason: `status.reason`, such as "Evicted" or "UnexpectedAdmissionError"; "" for none.
        requests: GPU requests of every container, raw resource names, init containers in order.
            What a device class serves is named by the class, "deviceclass.resource.kubernetes.io/
            <class>".
            An amount that cannot be, such as half a GPU, stands here as -1 and among `defects`.
        claims: Names of the ResourceClaims it uses, from `status.resourceClaimStatuses` and spec.
        extended_claim: Name of the ResourceClaim that the scheduler made for what it requests as a
            resource, from `status.extendedResourceClaimStatus`; "" without one.
        scheduled_at: lastTransitionTime of PodScheduled=True; None while it is not bound.
        started_at: Earliest start of any container; None when none ever ran.
        finished_at: Latest finishedAt over all containers, ordinary init and sidecars too. Given
            only when no container runs and the phase is terminal, or when the object is being
            deleted and every container that has a status is terminated.
        deletion_at: `metadata.deletionTimestamp`, which already includes the grace period.
        owner: Value of the cluster's user label; "" without one.
        stamped_owner: Value of the target's owner annotation, which goes before it once admission
            is known to have seen the pod; "" without one.
        controller: Controlling owner as "Kind/name"; "" without one.
        defects: What of the object cannot be believed, one sentence each, such as a request for
            half a GPU or a time in the year 9999 (None then, or the time of the observation for
            `created_at`). Such a pod is for a person: it is not billed unseen.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str
    node: str
    phase: str
    created_at: datetime
    reason: str = ""
    requests: tuple[ContainerRequest, ...] = ()
    claims: tuple[str, ...] = ()
    extended_claim: str = ""
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deletion_at: datetime | None = None
    owner: str = ""
    stamped_owner: str = ""
    controller: str = ""
    priority_class: str = ""
    priority: int | None = None
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeState:
    """One node: raw labels, and whole allocatable units of extended GPU resources by raw name.

    Attributes:
        defects: What of it cannot be believed; see PodState.
    """

    uid: str
    name: str
    resource_version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    is_ready: bool = True
    is_schedulable: bool = True
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClaimedDevice:
    """One device that a claim holds: its request's device class, and where the device is."""

    device_class: str
    driver: str
    pool: str
    device: str


@dataclass(frozen=True)
class ClaimState:
    """One ResourceClaim (resource.k8s.io/v1).

    Attributes:
        devices: What it holds; empty while it is not allocated. Devices of `adminAccess` requests
            are left out, since they keep nobody else away.
        allocated_at: `status.allocation.allocationTimestamp` where the server sets it.
        node: The one node its allocation selects; "" when it does not say.
        consumers: Uid and name of every pod in `status.reservedFor`.
        deletion_at: `metadata.deletionTimestamp`.
        is_for_extended_resource: Whether its annotation says that the scheduler made it for what a
            pod requests as a resource; any client could write that.
        defects: What of it cannot be believed; see PodState.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str
    created_at: datetime
    devices: tuple[ClaimedDevice, ...] = ()
    allocated_at: datetime | None = None
    node: str = ""
    consumers: tuple[tuple[str, str], ...] = ()
    deletion_at: datetime | None = None
    is_for_extended_resource: bool = False
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class SliceState:
    """One ResourceSlice: what each of its devices is.

    Attributes:
        devices: By device name: attributes by name as plain text, capacities as
            "capacity/<name>".
    """

    uid: str
    name: str
    resource_version: str
    driver: str
    pool: str
    node: str
    devices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassState:
    """One DeviceClass: the extended resource name of its devices, "" without one."""

    uid: str
    name: str
    resource_version: str
    created_at: datetime
    extended_resource: str = ""


ObjectState = PodState | NodeState | ClaimState | SliceState | ClassState


@dataclass(frozen=True)
class ListPage:
    """One page of a consistent list; `resource_version` is the list's, the same on every page."""

    states: tuple[ObjectState, ...]
    resource_version: str


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch; `state` is None for a bookmark.

    A line about an object that concerns nobody here, such as a pod without a GPU, comes out as a
    bookmark too: what counts of it is only how far the stream has come.

    Attributes:
        received_at: When it came in, by our clock. Only a deletion without any better evidence
            uses it.
        is_prompt: Whether it came in as it happened. False for what may have piled up before the
            stream was opened: `received_at` is then only when it was heard of.
    """

    change: Change
    resource_version: str
    received_at: datetime
    state: ObjectState | None = None
    is_prompt: bool = True


class WatchExpiredError(Exception):
    """Raised when the server no longer knows a version (410): list again and compare by uid."""


class ClusterWatchSource(Protocol):
    """A cluster's API. Implementations: Kubernetes, simulated."""

    def serves(self, target: WatchTarget, kind: WatchedKind) -> bool:
        """Whether the server knows this kind; old ones have no resource.k8s.io/v1.

        Raises:
            SourceUnavailableError: The server cannot be asked.
        """
        ...

    def list(self, target: WatchTarget, kind: WatchedKind) -> Iterator[ListPage]:
        """Yield a consistent list in pages: no resourceVersion is sent, so nothing is stale.

        Raises:
            WatchExpiredError: A continue token ran out half-way; what was yielded is no list.
            SourceUnavailableError: The answer is missing or cannot be believed.
        """
        ...

    def watch(
        self, target: WatchTarget, kind: WatchedKind, *, resource_version: str, timeout_seconds: int
    ) -> Iterator[WatchEvent]:
        """Yield every change after a version, bookmarks too, until the server ends the stream.

        The first event is a bookmark of the version asked for: the server took it. A stream that
        ends is no error: it is resumed from the last version.

        Raises:
            WatchExpiredError: The version is too old, or the stream said so.
            SourceUnavailableError: The stream broke, stalled, or said what cannot be believed.
        """
        ...
