"""What a source may have seen: plain builders of observations, and a source that replays them.

`HOUR` is the window of every test unless it says otherwise; times inside it are reported in seconds
from its start.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from metering.domain.collection.windows import DEFAULT_POLICY
from metering.protocols import (
    ClusterTarget,
    ContainerKind,
    ContainerRequest,
    DeviceFigures,
    DeviceObservation,
    Evidence,
    NodeObservation,
    Observation,
    ObservedSpan,
    PodObservation,
    UsageSource,
)
from metering.services.collection.sweeping import Worker
from simulator.adapters.parts import AnswersInParts
from tenants.domain.actors import system_actor
from tenants.domain.errors import SourceUnavailableError

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
SCRAPE = 30
LATER = 900
ACTOR = system_actor("metering.tick")

WHOLE_H100 = {
    "nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3",
    "nvidia_com_gpu_count": "8",
    "nvidia_com_gpu_replicas": "1",
    "nvidia_com_gpu_sharing_strategy": "none",
}
MIXED_H100 = {
    **WHOLE_H100,
    "nvidia_com_mig_strategy": "mixed",
    "nvidia_com_mig_1g_10gb_product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    "nvidia_com_mig_1g_10gb_replicas": "1",
}
SINGLE_H100 = {
    "nvidia_com_mig_strategy": "single",
    "nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    "nvidia_com_gpu_replicas": "1",
}
SLICED_A100 = {
    "nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB-SHARED",
    "nvidia_com_gpu_replicas": "4",
    "nvidia_com_gpu_sharing_strategy": "time-slicing",
}


def moment(seconds: int, *, start_at: datetime = HOUR) -> datetime:
    """Return the time so many seconds after the window's start."""
    return start_at + timedelta(seconds=seconds)


def ticks(
    begin: int = -120, end: int = 3600 + LATER, *, step: int = SCRAPE, start_at: datetime = HOUR
) -> tuple[datetime, ...]:
    """Return a scrape every `step` seconds, 7 s after each full step."""
    return tuple(moment(second + 7, start_at=start_at) for second in range(begin, end, step))


def request(
    resource: str = "nvidia_com_gpu",
    units: int = 1,
    *,
    kind: ContainerKind = ContainerKind.REGULAR,
    order: int | None = None,
    container: str = "main",
) -> ContainerRequest:
    """Return one container's request."""
    return ContainerRequest(container, kind, resource, units, order)


def pod(
    uid: str = "uid-1",
    resource: str = "nvidia_com_gpu",
    units: int = 1,
    labels: Mapping[str, str] | None = None,
    **fields: object,
) -> PodObservation:
    """Return a pod that was bound before the window and is still there after it."""
    defaults: dict[str, object] = {
        "uid": uid,
        "namespace": "team-nlp",
        "name": f"pod-{uid}",
        "node": "node-1",
        "requests": (request(resource, units),),
        "scheduled_at": moment(-600),
        "first_seen_at": moment(-113),
        "last_seen_at": moment(3600 + LATER - SCRAPE + 7),
        "node_labels": WHOLE_H100 if labels is None else labels,
    }
    return PodObservation(**{**defaults, **fields})  # type: ignore[arg-type]


def ended_pod(uid: str, begin: int, end: int, **fields: object) -> PodObservation:
    """Return a pod whose containers ran within the window and whose object reported so."""
    return pod(
        uid,
        scheduled_at=moment(begin),
        first_seen_at=moment(begin),
        finished_at=moment(end),
        terminal_seen_at=moment(end + 5),
        **fields,  # type: ignore[arg-type]
    )


def node(
    name: str = "node-1",
    allocatable: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    covered_seconds: int = 3600,
) -> NodeObservation:
    """Return a node that offered eight whole GPUs all the hour."""
    return NodeObservation(
        node=name,
        labels=WHOLE_H100 if labels is None else labels,
        allocatable={"nvidia_com_gpu": 8} if allocatable is None else allocatable,
        covered_seconds=covered_seconds,
    )


def device(uuid: str = "GPU-1", **fields: object) -> DeviceObservation:
    """Return a whole GPU that served pod-uid-1 all the hour, half of it busy."""
    defaults: dict[str, object] = {
        "uuid": uuid,
        "node": "node-1",
        "model": "NVIDIA H100 80GB HBM3",
        "instance_id": "",
        "instance_profile": "",
        "namespace": "team-nlp",
        "pod": "pod-uid-1",
        "begin_at": HOUR,
        "end_at": moment(3600),
        "busy_ratio": Decimal("0.5"),
        "samples": 120,
        "expected_samples": 120,
        "energy_millijoules": 1_000_000,
    }
    return DeviceObservation(**{**defaults, **fields})  # type: ignore[arg-type]


@dataclass(frozen=True)
class SeenHour(Observation):
    """An hour with what its devices did, which is asked apart."""

    figures: DeviceFigures | None = None


def figures_of(*devices: DeviceObservation, **fields: object) -> DeviceFigures:
    """Return what devices did in the hour."""
    defaults: dict[str, object] = {
        "cluster": "hopper",
        "start_at": HOUR,
        "end_at": moment(3600),
        "source": "stub",
        "devices": devices,
    }
    return DeviceFigures(**{**defaults, **fields})  # type: ignore[arg-type]


def observation(
    *pods: PodObservation,
    devices: tuple[DeviceObservation, ...] = (),
    **fields: Any,  # noqa: ANN401 - Any field.
) -> SeenHour:
    """Return what was seen of one cluster in the hour, with eyes open throughout.

    Args:
        pods: What was seen of pods.
        devices: What their devices did.
        fields: Of the observation, or of the figures of devices.
    """
    of_devices = {"energies", "missing_figures", "health"}
    reported = {name: fields.pop(name) for name in of_devices & fields.keys()}
    models: dict[str, frozenset[str]] = {}
    for one in devices:
        models[one.node] = models.get(one.node, frozenset()) | {one.model}
    fields.setdefault("device_models", models)
    fields.setdefault("figures", figures_of(*devices, **reported))
    defaults: dict[str, object] = {
        "cluster": "hopper",
        "start_at": HOUR,
        "end_at": moment(3600),
        "as_of": moment(3600 + LATER),
        "source": "stub",
        "ticks": ticks(),
        "expected_ticks": 3600 // SCRAPE,
        "pods": pods,
        "nodes": (node(),),
        "evidence": (Evidence("up", moment(3600 + LATER), "0" * 64, 120),),
    }
    return SeenHour(**{**defaults, **fields})


@dataclass
class ReplayedSource(AnswersInParts):
    """A simulated source: what it saw of each hour is given; other hours were empty.

    Attributes:
        down: Reason for which it does not answer; "" while it does.
        remembers: How long it says that it keeps samples; None where it does not say.
        asked: The hours asked about and as of when, in order.
        counted: How many pods it counts.
    """

    seen: dict[datetime, Observation] = field(default_factory=dict)
    down: str = ""
    remembers: timedelta | None = None
    asked: list[tuple[datetime, datetime]] = field(default_factory=list)
    counted: int = 0

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return what was seen of the hour; see protocols.UsageSource."""
        self.asked.append((start_at, as_of))
        if self.down:
            raise SourceUnavailableError("Prometheus did not answer.", reason=self.down)
        found = self.seen.get(start_at)
        if found is None:
            found = observation(start_at=start_at, end_at=end_at, ticks=ticks(start_at=start_at))
        return replace(found, cluster=target.slug, as_of=as_of)

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> UsageSource:
        """Return this source; see protocols.UsageSource."""
        del target, spans
        return self

    def count_pods(self, target: ClusterTarget, *, as_of: datetime) -> int:
        """Return how many pods were counted, as it was given."""
        del target, as_of
        return self.counted

    def memory(self, target: ClusterTarget) -> timedelta | None:
        """Return how long it remembers, as it was given."""
        del target
        return self.remembers

    def observe_devices(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> DeviceFigures:
        """Return what devices did in the hour; see protocols.UsageSource."""
        del as_of
        if self.down:
            raise SourceUnavailableError("Prometheus did not answer.", reason=self.down)
        found = self.seen.get(start_at)
        figures = found.figures if isinstance(found, SeenHour) and found.figures else figures_of()
        return replace(figures, cluster=target.slug, start_at=start_at, end_at=end_at)


def worker(*seen: Observation, name: str = "worker-1") -> Worker:
    """Return a worker over a source that saw these hours."""
    source = ReplayedSource({item.start_at: item for item in seen})
    return Worker(name=name, source=source, actor=ACTOR, policy=DEFAULT_POLICY)


@contextmanager
def source_down(metering: Worker, reason: str = "timeout") -> Iterator[None]:
    """Let a worker's source not answer for a while."""
    source = metering.source
    assert isinstance(source, ReplayedSource)
    source.down = reason
    yield
    source.down = ""
