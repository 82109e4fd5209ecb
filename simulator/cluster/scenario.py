"""What is true in a simulated world: organizations, clusters, nodes, devices and pods.

Everything is frozen, whole seconds, aware UTC, and free of a clock. Labels and resources are
spelled raw, as the Kubernetes API has them. The `true_*` fields are set by hand by the author
of the scenario, so that an oracle needs no catalogue.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property

from simulator.cluster.tenancy import OrganizationPlan, ProjectPlan

USER_LABEL = "billing.example.com/user"
"""Raw key of the pod label that names the owning user."""


class PodPhase(StrEnum):
    """Phases as Kubernetes spells them."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


TERMINAL = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class OutageKind(StrEnum):
    """What was blind: Prometheus itself (no samples at all), or the exporters (`up` is 0)."""

    PROMETHEUS = "prometheus"
    EXPORTERS = "exporters"


@dataclass(frozen=True)
class Outage:
    """A gap in the scrapes of one cluster: [begin_at, end_at)."""

    begin_at: datetime
    end_at: datetime
    kind: OutageKind = OutageKind.PROMETHEUS

    def covers(self, at: datetime) -> bool:
        """Whether nothing was scraped at this time."""
        return self.begin_at <= at < self.end_at


@dataclass(frozen=True)
class DeviceFailure:
    """A whole GPU that is broken in [begin_at, end_at): its memory has no spare rows left."""

    gpu_uuid: str
    begin_at: datetime
    end_at: datetime


@dataclass(frozen=True)
class MIGInstance:
    """One GPU instance of a partitioned GPU.

    Attributes:
        instance_id: GPU_I_ID, unique on its GPU.
        profile: Such as "1g.10gb".
    """

    instance_id: str
    profile: str


@dataclass(frozen=True)
class GPU:
    """One physical GPU. With `instances` it is in MIG mode and only they are handed out."""

    index: int
    uuid: str
    model: str
    pci_bus_id: str
    instances: tuple[MIGInstance, ...] = ()


@dataclass(frozen=True)
class Node:
    """One machine.

    Attributes:
        labels: Raw keys, such as "nvidia.com/gpu.product".
        allocatable: Raw resource names, such as "nvidia.com/mig-1g.10gb", to units.
        replicas: How many pods share one device; 1 without sharing.
    """

    name: str
    address: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    gpus: tuple[GPU, ...]
    replicas: int = 1


@dataclass(frozen=True)
class DeviceSlot:
    """What one unit of a request is: a GPU, an instance of it, or one replica of either.

    Attributes:
        instance_id: MIG instance; "" for the GPU itself.
        replica: Which of the shares, from 0; 0 without sharing.
    """

    gpu_uuid: str
    instance_id: str = ""
    replica: int = 0


class ContainerRole(StrEnum):
    """How a container counts in its pod's effective request."""

    REGULAR = "regular"
    INIT = "init"
    SIDECAR = "sidecar"


@dataclass(frozen=True)
class Container:
    """One container of a pod; `requests` is raw resource name to units, in order of declaration."""

    name: str
    kind: ContainerRole = ContainerRole.REGULAR
    requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Pod:
    """One pod's whole lifetime, and the truth about what it is to be billed as.

    Attributes:
        created_at: The object exists from here.
        scheduled_at: PodScheduled became true; None for ever pending.
        started_at: Its containers run from here; None when they never did.
        finished_at: Its last container ended with the object still there; None when it was
            deleted while running, never ran, or runs on.
        rejected_at: The kubelet refused it: Failed without a container ever having run.
        deletion_requested_at: deletionTimestamp was set; None unless it was deleted.
        deleted_at: The object is gone from here; None while it stays.
        end_phase: The phase it ends in; RUNNING when deleted while running, PENDING when it never
            left it.
        helper_finished_at: A second container ended here while the pod ran on, so that a
            completion time is shown for a running pod.
        owner: Value of the user label; "" for a pod without the label.
        slots: Devices it holds from scheduled_at to `end_at`.
        true_units: Effective request; 0 for what no size exists for.
        true_size: "small", "medium", "large", or "" for an unmapped device.
        true_price_group: Such as "H100/1g.10gb" or "A100/1of4"; "" for an unmapped device.
        true_sharing_mode: "whole", "mig", "time-slicing", "mps" or "".
        resource: The raw GPU resource it requests.
    """

    uid: str
    namespace: str
    name: str
    node: str
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    deleted_at: datetime | None
    end_phase: PodPhase
    containers: tuple[Container, ...]
    resource: str
    labels: Mapping[str, str]
    owner: str
    owner_kind: str
    owner_name: str
    priority_class: str
    slots: tuple[DeviceSlot, ...]
    true_units: int
    true_size: str
    true_price_group: str
    true_sharing_mode: str
    rejected_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    helper_finished_at: datetime | None = None

    @property
    def end_at(self) -> datetime | None:
        """When it stopped holding devices: last container's end, or the object's; None if open."""
        return self.finished_at or self.rejected_at or self.deleted_at

    @property
    def truth(self) -> tuple[datetime, datetime | None] | None:
        """What is billable, [begin, end); None for a pod that never held a device."""
        if self.scheduled_at is None or self.rejected_at is not None:
            return None
        return self.scheduled_at, self.end_at

    def true_seconds(self, begin_at: datetime, end_at: datetime) -> int:
        """Return the whole billable seconds inside [begin_at, end_at)."""
        if self.truth is None:
            return 0
        first, last = self.truth
        begin, end = max(first, begin_at), min(last or end_at, end_at)
        return max(0, (end - begin) // timedelta(seconds=1))

    def exists(self, at: datetime) -> bool:
        """Whether the object is in the API at this time."""
        return self.created_at <= at and (self.deleted_at is None or at < self.deleted_at)

    def holds(self, at: datetime) -> bool:
        """Whether it holds its devices at this time."""
        if self.truth is None:
            return False
        first, last = self.truth
        return first <= at and (last is None or at < last)

    def phase(self, at: datetime) -> PodPhase:
        """Return the phase the API shows at this time, for a time at which it exists."""
        terminal_at = self.finished_at or self.rejected_at
        if terminal_at is not None and terminal_at <= at:
            return self.end_phase
        if self.started_at is not None and self.started_at <= at:
            return PodPhase.RUNNING
        return PodPhase.PENDING


@dataclass(frozen=True)
class Namespace:
    """A namespace of a cluster, with raw labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedCluster:
    """One cluster and everything that lived in it, pods oldest first.

    Attributes:
        offered_resources: Raw resources a quota must name.
        scrape_interval_seconds: How often both exporters are scraped.
        scrape_offset_seconds: Second within the interval at which kube-state-metrics is scraped.
    """

    slug: str
    name: str
    nodes: tuple[Node, ...]
    namespaces: tuple[Namespace, ...]
    pods: tuple[Pod, ...]
    offered_resources: tuple[str, ...]
    scrape_interval_seconds: int
    scrape_offset_seconds: int = 0
    outages: tuple[Outage, ...] = ()
    failures: tuple[DeviceFailure, ...] = ()

    def scheduled_scrapes(self, begin_at: datetime, end_at: datetime) -> Iterator[datetime]:
        """Yield the times in [begin_at, end_at) at which a scrape was due, oldest first."""
        step = self.scrape_interval_seconds
        begin, end = int(begin_at.timestamp()), int(end_at.timestamp())
        first = begin + (self.scrape_offset_seconds - begin) % step
        return (datetime.fromtimestamp(second, UTC) for second in range(first, end, step))

    def ticks(self, begin_at: datetime, end_at: datetime) -> tuple[datetime, ...]:
        """Return the successful scrapes of kube-state-metrics in [begin_at, end_at)."""
        return tuple(at for at in self.scheduled_scrapes(begin_at, end_at) if not self.is_blind(at))

    def is_blind(self, at: datetime) -> bool:
        """Whether nothing of this cluster was scraped at this time."""
        return any(outage.covers(at) for outage in self.outages)

    def pods_alive(self, at: datetime) -> tuple[Pod, ...]:
        """Return the pods that hold devices at this time, oldest first."""
        return tuple(pod for pod in self.pods if pod.holds(at))

    def objects(self, at: datetime) -> tuple[Pod, ...]:
        """Return the pods the API lists at this time, finished and pending ones too."""
        return tuple(pod for pod in self.pods if pod.exists(at))

    @cached_property
    def node_by_name(self) -> Mapping[str, Node]:
        """Return the nodes by name."""
        return {node.name: node for node in self.nodes}


@dataclass(frozen=True)
class Scenario:
    """A whole simulated world, true for pods created before `until`.

    A scenario of the same seed with a later `until` holds the same pods and more.
    """

    seed: int
    begin_at: datetime
    until: datetime
    organizations: tuple[OrganizationPlan, ...]
    clusters: tuple[SimulatedCluster, ...]

    def cluster(self, slug: str) -> SimulatedCluster:
        """Return one cluster.

        Raises:
            KeyError: There is none of this name.
        """
        return {cluster.slug: cluster for cluster in self.clusters}[slug]

    @cached_property
    def bindings(self) -> Mapping[tuple[str, str], tuple[OrganizationPlan, ProjectPlan]]:
        """Return each namespace's project, by (cluster, namespace); unbound ones are missing."""
        return {
            (place.cluster, place.namespace): (organization, project)
            for organization in self.organizations
            for project in organization.projects
            for place in project.namespaces
        }
