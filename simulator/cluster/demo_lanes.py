"""The demo's two clusters: their nodes, and what runs on each device of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from simulator.cluster import hardware
from simulator.cluster.demo_tenancy import UNBOUND_NAMESPACE
from simulator.cluster.hardware import TrueShare, slots_of
from simulator.cluster.lanes import Lane, LaneKind, Workload
from simulator.cluster.scenario import Container, ContainerRole, DeviceSlot, Node

HOPPER_NODES: Final = (
    hardware.whole_node("hopper-whole-1", address="10.0.3.11"),
    hardware.whole_node("hopper-whole-2", address="10.0.3.12"),
    hardware.mig_node(
        "hopper-mig-1",
        address="10.0.3.21",
        geometry=((), (), hardware.SEVEN_SMALL, hardware.ONE_OF_EACH),
    ),
    hardware.mig_node(
        "hopper-mig-2",
        address="10.0.3.22",
        geometry=((), (), hardware.SEVEN_SMALL, hardware.TWO_MEDIUM),
    ),
)
AMPERE_NODES: Final = (
    hardware.shared_node(
        "ampere-slice-1", address="10.0.4.11", strategy="time-slicing", is_renamed=False
    ),
    hardware.shared_node(
        "ampere-slice-2", address="10.0.4.12", strategy="time-slicing", is_renamed=True
    ),
    hardware.shared_node("ampere-mps-1", address="10.0.4.21", strategy="mps", is_renamed=False),
    hardware.shared_node("ampere-mps-2", address="10.0.4.22", strategy="mps", is_renamed=True),
    hardware.virtual_node("ampere-virtual-1", address="10.0.4.31"),
)
INCIDENT_SLOT: Final = 7
"""The GPU of hopper-whole-1 that no lane owns; the scripted incidents run there."""
FAILING_SLOT: Final = 4
"""The GPU of hopper-whole-2 whose memory fails for a day."""


@dataclass(frozen=True)
class _Use:
    """What runs on the next `units` slots of a kind; an empty use leaves them idle."""

    kind: LaneKind
    workloads: tuple[Workload, ...]
    units: int = 1
    containers: tuple[Container, ...] = ()


_PRETRAIN = Workload("llm-train", "pretrain", ("lukas", "mei"))
_TUNE = Workload("llm-train", "tune", ("mei", "mei", ""), "gpu-preemptible")
_EVALUATE = Workload("llm-train", "eval", ("mei", "lukas", ""), "gpu-preemptible")
_CHAT = Workload("llm-serve", "chat", ("mei", ""))
_EMBED = Workload("llm-serve", "embed", ("",))
_FOLD = Workload("genomics", "fold", ("ines",))
_ALIGN = Workload("genomics", "align", ("ines", ""))
_DETECT = Workload("perception", "detect", ("piotr", "amina"))
_TRACK = Workload("perception", "track", ("amina", ""))
_CAMERA = Workload("perception", "camera-api", ("piotr",))
_GRASP = Workload("robotics", "grasp", ("yuki",))
_PLAN = Workload("robotics", "plan", ("yuki", ""), "gpu-preemptible")
_AGENT = Workload("agents", "agent", ("dev", "rosa"))
_ROUTER = Workload("agents", "router", ("dev",))
_SCRATCH = Workload(UNBOUND_NAMESPACE, "notebook", ("dana",))
_COURSE = Workload("courses", "notebook", ("oskar", "", "student-17", "student-23"))
_EXERCISE = Workload("courses", "exercise", ("", "student-17", "student-23"), "gpu-preemptible")
_LABEL = Workload("labeling", "label", ("sven", ""))
_LABEL_API = Workload("labeling", "label-api", ("sven",))
_SKETCH = Workload("perception-dev", "sketch", ("amina", "piotr"))
_TRY = Workload("agents-dev", "try", ("rosa", "dev", ""))
_BOT = Workload("agents-dev", "bot", ("rosa",))
_WORLD = Workload("simulation", "world", ("tom",))
_SWEEP = Workload("simulation", "sweep", ("tom", ""), "gpu-preemptible")

_SERVICE, _STATEFUL = LaneKind.SERVICE, LaneKind.STATEFUL
_NOTEBOOK, _BATCH, _SHORT = LaneKind.NOTEBOOK, LaneKind.BATCH, LaneKind.SHORT
_GPU = hardware.GPU_RESOURCE
_WARMED_UP: Final = (
    Container("metrics-sidecar", ContainerRole.SIDECAR, {_GPU: 1}),
    Container("warmup", ContainerRole.INIT, {_GPU: 2}),
    Container("trainer", ContainerRole.REGULAR, {_GPU: 1}),
)
"""max(1 + 1, 2 + 1) = 3 units: the init container with the sidecar declared before it."""


def hopper_lanes() -> tuple[Lane, ...]:
    """Return the lanes of the H100 cluster."""
    whole_1, whole_2, mig_1, mig_2 = HOPPER_NODES
    whole, small = hardware.WHOLE_H100, hardware.SMALL_H100
    two, three = hardware.TWO_H100, hardware.THREE_H100
    return (
        *_lanes("wa", whole_1, slots_of(whole_1)[:INCIDENT_SLOT], whole, (
            _Use(_BATCH, (_PRETRAIN,), units=4),
            _Use(_STATEFUL, (_TUNE,), units=3, containers=_WARMED_UP),
        )),
        *_lanes("wb", whole_2, slots_of(whole_2), whole, (
            _Use(_BATCH, (_DETECT, _GRASP), units=2),
            _Use(_SERVICE, (_CHAT,)),
            _Use(_SERVICE, (_ROUTER,)),
            _Use(_BATCH, (_GRASP, _FOLD)),
            _Use(_STATEFUL, (_FOLD,)),
            _Use(_SHORT, (_EVALUATE, _AGENT)),
            _Use(_NOTEBOOK, (_SCRATCH,)),
        )),
        *_lanes("mwa", mig_1, slots_of(mig_1), whole, (
            _Use(_SERVICE, (_CAMERA,)), _Use(_BATCH, (_DETECT, _AGENT)),
        )),
        *_lanes("msa", mig_1, slots_of(mig_1, "1g.10gb"), small, (
            _Use(_NOTEBOOK, (_TRACK,)), _Use(_NOTEBOOK, (_PLAN,)), _Use(_NOTEBOOK, (_ALIGN,)),
            _Use(_SERVICE, (_EMBED,)), _Use(_SERVICE, (_CAMERA,)), _Use(_BATCH, (_ALIGN, _PLAN)),
            _Use(_SHORT, (_EVALUATE, _TRACK)), _Use(_STATEFUL, (_AGENT,)),
        )),
        *_lanes("mta", mig_1, slots_of(mig_1, "2g.20gb"), two, (_Use(_BATCH, (_TRACK, _TUNE)),)),
        *_lanes("mha", mig_1, slots_of(mig_1, "3g.40gb"), three, (_Use(_SERVICE, (_EMBED,)),)),
        *_lanes("mwb", mig_2, slots_of(mig_2), whole, (
            _Use(_SERVICE, (_CHAT,)), _Use(_BATCH, (_FOLD, _PLAN)),
        )),
        *_lanes("msb", mig_2, slots_of(mig_2, "1g.10gb"), small, (
            _Use(_BATCH, (_AGENT, _ALIGN), units=2), _Use(_NOTEBOOK, (_AGENT,)),
            _Use(_NOTEBOOK, (_TUNE,)), _Use(_SERVICE, (_ROUTER,)), _Use(_SERVICE, (_EMBED,)),
            _Use(_SHORT, (_PLAN, _EVALUATE)),
        )),
        *_lanes("mhb", mig_2, slots_of(mig_2, "3g.40gb"), three, (
            _Use(_STATEFUL, (_GRASP,)), _Use(_BATCH, (_DETECT, _AGENT)),
        )),
    )  # fmt: skip


def ampere_lanes() -> tuple[Lane, ...]:
    """Return the lanes of the A100 cluster."""
    slice_1, slice_2, mps_1, mps_2, virtual = AMPERE_NODES
    course = _Use(_NOTEBOOK, (_COURSE,))
    return (
        *_lanes("sa", slice_1, slots_of(slice_1), hardware.SLICED_A100, (
            course, course, course, _Use(_SHORT, (_EXERCISE,)), _Use(_STATEFUL, (_COURSE,)),
            _Use(_BATCH, (_SKETCH, _TRY)), _Use(_NOTEBOOK, (_SKETCH,)),
        )),
        *_lanes("sb", slice_2, slots_of(slice_2), hardware.SHARED_A100, (
            _Use(_BATCH, (_TRY, _SWEEP), units=2), course, course, _Use(_NOTEBOOK, (_TRY,)),
            _Use(_STATEFUL, (_LABEL,)), _Use(_SHORT, (_EXERCISE, _TRY)), _Use(_SERVICE, (_BOT,)),
        )),
        *_lanes("pa", mps_1, slots_of(mps_1), hardware.MPS_A100, (
            _Use(_SERVICE, (_LABEL_API,)), _Use(_SERVICE, (_LABEL_API,)), _Use(_SERVICE, (_BOT,)),
            _Use(_BATCH, (_WORLD, _SWEEP)), _Use(_BATCH, (_WORLD, _LABEL)),
            _Use(_STATEFUL, (_WORLD,)), _Use(_SHORT, (_SWEEP,)), _Use(_NOTEBOOK, (_SKETCH,)),
        )),
        *_lanes("pb", mps_2, slots_of(mps_2), hardware.MPS_SHARED_A100, (
            _Use(_SERVICE, (_BOT,)), _Use(_SERVICE, (_LABEL_API,)), _Use(_BATCH, (_SWEEP,)),
            _Use(_BATCH, (_LABEL, _SKETCH)), _Use(_STATEFUL, (_WORLD,)),
            _Use(_NOTEBOOK, (_TRY,)), course, _Use(_BATCH, (_WORLD,)),
        )),
        *_lanes("va", virtual, slots_of(virtual), hardware.UNMAPPED, (
            _Use(_SERVICE, (_LABEL_API,), containers=(
                Container("server", requests={hardware.UNMAPPED_RESOURCE: 50}),
            )),
        )),
    )  # fmt: skip


def _lanes(
    prefix: str, node: Node, slots: tuple[DeviceSlot, ...], share: TrueShare, uses: tuple[_Use, ...]
) -> Iterator[Lane]:
    """Yield one lane per use, each on the next slots of the node."""
    free = iter(slots)
    for number, use in enumerate(uses, start=1):
        yield Lane(
            name=f"{prefix}{number}",
            node=node.name,
            slots=tuple(next(free) for _ in range(use.units)),
            share=share,
            kind=use.kind,
            workloads=use.workloads,
            units=use.units,
            containers=use.containers,
        )
