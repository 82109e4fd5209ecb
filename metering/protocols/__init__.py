"""What metering needs from outside: a source of which pods held which GPUs, and when.

All times are aware UTC datetimes. Names of resources and of node labels are spelled as
kube-state-metrics spells them (`[^a-zA-Z0-9_]` becomes `_`): sanitising loses information, so the
domain compares by sanitising the names it knows, never by reversing one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

import msgspec

from metering.protocols.health import NO_HEALTH, HealthObservation


@dataclass(frozen=True)
class ClusterTarget:
    """One cluster, as a source needs to know it.

    Attributes:
        slug: Our name of the cluster.
        prometheus_url: Base URL of its Prometheus; "" for sources that need none.
        prometheus_credential_reference: The name of a secret for it, never the secret; "" for none.
        prometheus_scope_org_id: The tenant a shared Mimir or Thanos is asked for; "" for none.
        scrape_interval_seconds: How often kube-state-metrics is scraped.
        selector_label: Label of this cluster's series in a shared Prometheus; "" for none.
        selector_value: The value of that label.
        user_label: Sanitised pod label that names the owning user; "" for none.
        label_aliases: Our label name to the site's names, best first.
        metric_aliases: Our metric name to the site's names, best first.
    """

    slug: str
    prometheus_url: str = ""
    prometheus_credential_reference: str = ""
    prometheus_scope_org_id: str = ""
    scrape_interval_seconds: int = 30
    selector_label: str = ""
    selector_value: str = ""
    user_label: str = ""
    label_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metric_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ScrapeTarget:
    """One address that the exporter of pods and nodes was scraped at.

    Attributes:
        name: Its `instance`, unique in one observation.
        ticks: Its successful scrapes near the window over all copies of Prometheus, oldest first.
        failures: Scrapes that failed while no copy of Prometheus reached it.
        has_series: Whether it carried a GPU pod or node. A target that carried none is another
            port of the exporter, idle, or a leftover in service discovery.
        is_missed: Whether it should have been scraped all the time: it is a shard that others tell
            of, or it carried pods within the last day that no target has shown since.
    """

    name: str
    ticks: tuple[datetime, ...]
    failures: int = 0
    has_series: bool = True
    is_missed: bool = False


class ContainerKind(StrEnum):
    """How a container, or what is added to all, takes part in the pod's effective request."""

    REGULAR = "regular"
    INIT = "init"
    SIDECAR = "sidecar"
    OVERHEAD = "overhead"


class ContainerRequest(msgspec.Struct, frozen=True):
    """What one container asks of one resource.

    Attributes:
        container: Its name; "" for the overhead of the pod.
        order: Position among the init containers; None when the source does not know it.
    """

    container: str
    kind: ContainerKind
    resource: str
    units: int
    order: int | None = None


class PodObservation(msgspec.Struct, frozen=True):
    """One pod, identified by its uid, as seen around a window.

    Attributes:
        node: "" while it is not bound.
        scheduled_at: When it was bound; None if it never was.
        finished_at: Last container's end; only given for pods in a terminal phase.
        terminal_seen_at: First observation of a terminal phase; None when none was seen.
        first_seen_at: First observation of the object inside the query.
        last_seen_at: Last observation of the object inside the query.
        owner: Value of the cluster's user label; "" without one.
        node_labels: Labels of its node at the observation nearest to the bind, sanitised keys.
        targets: Names of the scrape targets that carried it, sorted; empty when not known.
        defects: What was reported of it that cannot be or contradicts itself, one sentence each;
            the other attributes are then the best estimate, with the largest of several values.
            A request that cannot be has -1 units.
        is_end_known: False when the defects leave open whether, or when, it ended.
    """

    uid: str
    namespace: str
    name: str
    node: str
    requests: tuple[ContainerRequest, ...]
    scheduled_at: datetime | None
    first_seen_at: datetime
    last_seen_at: datetime
    finished_at: datetime | None = None
    terminal_seen_at: datetime | None = None
    owner: str = ""
    priority_class: str = ""
    node_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    targets: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    is_end_known: bool = True


class NodeObservation(msgspec.Struct, frozen=True):
    """One node's offer over the window.

    Attributes:
        labels: As last seen inside the window, sanitised keys.
        allocatable: Sanitised resource name to units, the most it offered inside the window.
        covered_seconds: Seconds of the window in which the node was seen to offer it.
        offered_unit_seconds: Sanitised resource name to units x seconds, where the units changed
            inside the window; else they are `allocatable` x `covered_seconds`.
        first_seen_at: First sample of it inside the query; None when not known.
        last_seen_at: Last sample of it inside the query; None when not known.
        targets: Names of the scrape targets that carried it, sorted; empty when not known.
        defects: What was reported of its offer that cannot be, one sentence each; it is left out
            of the other attributes.
    """

    node: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    covered_seconds: int
    offered_unit_seconds: Mapping[str, int] = msgspec.field(default_factory=dict)
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None
    targets: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()


class Figure(StrEnum):
    """Figures of a device whose samples are counted, beside the busy one."""

    SM_ACTIVE = "sm_active"
    TENSOR_ACTIVE = "tensor_active"
    DRAM_ACTIVE = "dram_active"
    MEMORY = "memory"
    POWER = "power"
    ENERGY = "energy"


class DeviceObservation(msgspec.Struct, frozen=True):
    """One device, or one MIG instance of it, over the part of the window it served one workload.

    A device that served several pods one after another comes as several observations. Copies of
    the same device (virtual-GPU mode, high-availability twins) are merged before they come here.

    Attributes:
        uuid: The physical GPU.
        instance_id: MIG instance id; "" for a whole GPU.
        instance_profile: MIG profile, such as "1g.10gb"; "" for a whole GPU.
        namespace: Namespace of the pod the exporter names; "" when idle or not attributable.
        pod: Name of that pod.
        busy_ratio: Mean share of time in use over the samples seen, 0 to 1; None when no series.
        samples: How many samples of the busy series were seen.
        expected_samples: How many there should have been.
        energy_millijoules: Energy of the physical GPU over the same part; None when unknown, and
            None on MIG instances, where the counter is the parent's: see EnergyObservation.
        sm_active_ratio: Mean share of SMs with work; None where the exporter does not say.
        tensor_active_ratio: Mean share of cycles the tensor pipe worked.
        dram_active_ratio: Mean share of cycles the memory worked.
        memory_used_peak_mebibytes: Largest amount of memory in use at a sample.
        memory_total_mebibytes: Used, free and reserved together.
        power_mean_milliwatts: Of the physical GPU, also on an instance.
        figure_samples: How many samples were seen of each figure but the busy one, by `Figure`; a
            figure that is not named was not seen.
        is_busy_uncertain: The activity stood at 0 while power and clock said otherwise, or an
            instance's could be: nothing may be concluded from it.
        is_shared: Several pods were named at once, or the exporter numbered the shares.
    """

    uuid: str
    node: str
    model: str
    instance_id: str
    instance_profile: str
    namespace: str
    pod: str
    begin_at: datetime
    end_at: datetime
    busy_ratio: Decimal | None
    samples: int
    expected_samples: int
    energy_millijoules: int | None = None
    sm_active_ratio: Decimal | None = None
    tensor_active_ratio: Decimal | None = None
    dram_active_ratio: Decimal | None = None
    memory_used_peak_mebibytes: int | None = None
    memory_total_mebibytes: int | None = None
    power_mean_milliwatts: int | None = None
    figure_samples: Mapping[str, int] = msgspec.field(default_factory=dict)
    is_busy_uncertain: bool = False
    is_shared: bool = False


class EnergyObservation(msgspec.Struct, frozen=True):
    """Energy of one physical GPU, marked wherever one of its observations begins or ends.

    Copies, pod changes and counter resets are merged before they come here; the difference of two
    marks is what the GPU took between them.

    Attributes:
        marks: Moments inside the window, ascending, at least two.
        taken_millijoules: Taken since the first mark, one for each mark, never falling.
        idle_milliwatts: The lowest power sampled in the window; None when none was.
    """

    uuid: str
    node: str
    marks: tuple[datetime, ...]
    taken_millijoules: tuple[int, ...]
    idle_milliwatts: int | None = None


@dataclass(frozen=True)
class Evidence:
    """One query behind an observation, so that it can be asked again and compared.

    Attributes:
        at: The time it was evaluated at; of several the last one.
        samples: How many its response had.
        from_at: The first of several times; None for one alone.
        step_seconds: How far they are apart; 0 for one alone.
    """

    query: str
    at: datetime
    sha256: str
    samples: int
    from_at: datetime | None = None
    step_seconds: int = 0

    def to_json(self) -> dict[str, str | int]:
        """Return it as it is stored, without what one time alone has not."""
        stored: dict[str, str | int] = {
            "query": self.query,
            "at": self.at.isoformat(),
            "sha256": self.sha256,
            "samples": self.samples,
        }
        if self.from_at is None:
            return stored
        return {**stored, "from_at": self.from_at.isoformat(), "step_seconds": self.step_seconds}


@dataclass(frozen=True)
class Observation:
    """What a source saw of one cluster over [start_at, end_at).

    Attributes:
        as_of: The time of the source query.
        ticks: Successful scrapes of all targets that carried anything, from before the window to
            after it, oldest first. A pod's absence means something only at those of its own.
        expected_ticks: How many scrapes belong into [start_at, end_at).
        clock_skew_seconds: By how much the source's clock was ahead of the Kubernetes API's; below
            0 it was behind. All times here are on the API's clock.
        targets: The scrape targets behind `ticks`, by name; empty when the source cannot say.
        pods: Every pod that asked for a GPU resource and was seen near the window, by uid.
        nodes: Every node that offered one, by name.
        device_models: By node, the GPU models its device metrics name; without a node that has
            none. Labels of a node name one model only, so several are a reason not to size by them.
    """

    cluster: str
    start_at: datetime
    end_at: datetime
    as_of: datetime
    source: str
    ticks: tuple[datetime, ...]
    expected_ticks: int
    pods: tuple[PodObservation, ...]
    nodes: tuple[NodeObservation, ...]
    evidence: tuple[Evidence, ...] = ()
    targets: tuple[ScrapeTarget, ...] = ()
    clock_skew_seconds: int = 0
    device_models: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceFigures:
    """What a source reports of one cluster's devices over [start_at, end_at); never billed.

    Attributes:
        devices: See DeviceObservation; empty when the source has no device metrics.
        energies: One for each physical GPU whose energy is known, by UUID.
        missing_figures: Figures that no device of the cluster reported at all, sorted: their
            metric is not exported, which is not the same as zero.
        health: Error signals of the devices.
    """

    cluster: str
    start_at: datetime
    end_at: datetime
    source: str
    devices: tuple[DeviceObservation, ...] = ()
    energies: tuple[EnergyObservation, ...] = ()
    missing_figures: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    health: HealthObservation = NO_HEALTH


@dataclass(frozen=True)
class ObservedSpan:
    """What `UsageSource.observe` is asked about: [start_at, end_at), as of a time."""

    start_at: datetime
    end_at: datetime
    as_of: datetime


class UsageSource(Protocol):
    """A source of usage. Implementations: Prometheus, simulated."""

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return what was seen of a cluster around [start_at, end_at), asked as of `as_of`.

        Args:
            target: The cluster.
            start_at: Begin of the window, included.
            end_at: End of the window, excluded.
            as_of: Time of the query, at least `end_at` plus two scrapes, so that "still there at
                the end" is decided by a later sample.

        Raises:
            SourceUnavailableError: The answer is missing, partial, warned about or cannot be
                believed; nothing may be concluded from it.
        """
        ...

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> "UsageSource":
        """Return a source that has asked about several hours together, where that is cheaper.

        Its `observe` returns for each of them what ours does, but for the evidence, and for
        everything else the same; one that has no such way returns itself.

        Args:
            target: The cluster.
            spans: Hours, oldest first, as `observe` will be asked about them.

        Raises:
            SourceUnavailableError: As `observe` does; each hour may still be observed alone.
        """
        ...

    def memory(self, target: ClusterTarget) -> timedelta | None:
        """Return for how long samples are kept; None where the source does not say.

        Raises:
            SourceUnavailableError: As `observe` does.
        """
        ...

    def observe_devices(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> DeviceFigures:
        """Return what devices of a cluster did in [start_at, end_at), asked apart from the bill.

        Args:
            target: The cluster.
            start_at: Begin of the window, included.
            end_at: End of the window, excluded.
            as_of: Time of the query, at least `end_at` plus two scrapes.

        Raises:
            SourceUnavailableError: As `observe` does.
        """
        ...
