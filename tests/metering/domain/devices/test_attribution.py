"""A device speaks of a pod alone where exporter and ledger agree; absence is no idleness."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from metering.domain.catalogue.units import SharingMode
from metering.domain.devices.attribution import (
    Attributed,
    Kind,
    attribute_devices,
    place_of,
    profile_in,
)
from metering.domain.devices.figures import Attribution, PodDeviceUse

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
END = HOUR + timedelta(hours=1)
NODE = "node-1"
WHOLE = Kind("nvidia.com/gpu", "large", "H100/whole", SharingMode.WHOLE)
SLICED = Kind("nvidia.com/gpu", "small", "A100/1of4", SharingMode.TIME_SLICING)
MIG = Kind("nvidia.com/mig-1g.10gb", "small", "H100/1g.10gb", SharingMode.MIG)
MPS = Kind("nvidia.com/gpu", "small", "A100/1of4", SharingMode.MPS)


def at(seconds: int) -> datetime:
    return HOUR + timedelta(seconds=seconds)


@dataclass(frozen=True)
class ShownDevice:
    node: str = NODE
    instance_id: str = ""
    instance_profile: str = ""
    namespace: str = ""
    pod: str = ""
    begin_at: datetime = HOUR
    end_at: datetime = END
    is_shared: bool = False


def serving(pod: str = "train-0", **fields: object) -> ShownDevice:
    return ShownDevice(namespace="team", pod=pod, **fields)  # type: ignore[arg-type]


def holding(
    pod: str = "train-0",
    mode: SharingMode = SharingMode.WHOLE,
    begin: int = 0,
    end: int = 3600,
    units: int = 1,
    node: str = NODE,
) -> PodDeviceUse:
    return PodDeviceUse("team", pod, mode, at(begin), at(end), units * (end - begin), node)


def reported(
    *devices: ShownDevice, holdings: tuple[PodDeviceUse, ...] = (), kind: Kind | None = WHOLE
) -> list[tuple[str, int | None]]:
    """Return whom each device speaks of where the node hands everything out as one kind."""
    kinds = {} if kind is None else {(NODE, ""): kind, (NODE, "1g.10gb"): kind}
    found = attribute_devices(devices, holdings=holdings, kinds=kinds)
    assert all(one.kind == kind for one in found)
    return [(one.attribution.value, one.holding) for one in found]


def test_a_whole_gpu_speaks_of_the_pod_that_held_it() -> None:
    assert reported(serving(), holdings=(holding(),)) == [("exclusive", 0)]


def test_an_instance_speaks_of_the_pod_that_held_it() -> None:
    instance = serving(instance_id="9", instance_profile="1g.10gb")

    assert reported(instance, holdings=(holding(mode=SharingMode.MIG),), kind=MIG) == [
        ("exclusive", 0)
    ]


@pytest.mark.parametrize("kind", [SLICED, MPS])
@pytest.mark.parametrize("device", [ShownDevice(), serving()], ids=["unnamed", "one of several"])
def test_a_device_of_a_sharing_node_speaks_of_nobody_alone(kind: Kind, device: ShownDevice) -> None:
    held = (holding(mode=kind.sharing_mode),)

    assert reported(device, holdings=held, kind=kind) == [("shared", None)]


def test_an_instance_that_is_shared_speaks_of_nobody_alone() -> None:
    instance = serving(instance_id="9", instance_profile="1g.10gb")
    held = (holding(mode=SharingMode.TIME_SLICING),)

    assert reported(instance, holdings=held, kind=SLICED) == [("shared", None)]


def test_several_named_pods_share_whatever_the_labels_of_the_node_say() -> None:
    assert reported(ShownDevice(is_shared=True), holdings=(holding(),)) == [("shared", None)]


def test_the_device_of_a_claim_that_pods_share_speaks_of_nobody_alone() -> None:
    held = tuple(replace(holding(pod), split_among=2) for pod in ("train-0", "train-1"))

    assert reported(serving(), ShownDevice(), holdings=held) == [("shared", None), ("idle", None)]


def test_a_pod_that_the_ledger_does_not_know_leaves_its_device_unattributed() -> None:
    assert reported(serving("stranger")) == [("unattributed", None)]


def test_two_pods_of_one_name_leave_the_device_unattributed() -> None:
    held = (holding(end=1800), holding(begin=1800))

    assert reported(serving(), holdings=held) == [("unattributed", None)]


def test_a_device_nobody_held_is_idle() -> None:
    assert reported(ShownDevice(), serving(), holdings=(holding(),)) == [
        ("idle", None),
        ("exclusive", 0),
    ]


def test_a_device_on_a_node_without_labels_is_idle_when_nobody_held_anything() -> None:
    assert reported(ShownDevice(), kind=None) == [("idle", None)]


def test_a_missing_label_is_no_idle_gpu() -> None:
    assert reported(ShownDevice(), holdings=(holding(),)) == [("unattributed", None)]


def test_one_of_two_gpus_that_lost_its_label_is_no_idle_gpu() -> None:
    found = reported(serving(), ShownDevice(), holdings=(holding(units=2),))

    assert found == [("exclusive", 0), ("unattributed", None)]


def test_nobody_is_idle_on_a_node_where_a_pod_is_not_billed_yet() -> None:
    devices = (ShownDevice(), ShownDevice(node="node-2"))

    found = attribute_devices(devices, holdings=(), kinds={}, held_nodes={NODE})

    assert [one.attribution.value for one in found] == ["unattributed", "idle"]


@pytest.mark.parametrize(
    ("named_from", "expected"), [(300, "idle"), (301, "unattributed")], ids=["slow", "too slow"]
)
def test_an_exporter_may_take_five_minutes_to_name_a_pod(named_from: int, expected: str) -> None:
    before = ShownDevice(end_at=at(named_from))
    named = serving(begin_at=at(named_from))

    assert reported(before, named, holdings=(holding(),))[0] == (expected, None)


def test_a_short_pod_that_was_never_named_is_not_overlooked() -> None:
    held = (holding(begin=1000, end=1200),)

    assert reported(ShownDevice(), holdings=held) == [("unattributed", None)]


@pytest.mark.parametrize(
    "elsewhere",
    [
        holding(node="node-2"),
        holding(mode=SharingMode.MIG),
        holding(mode=SharingMode.TIME_SLICING),
        holding(begin=3600, end=7200),
    ],
    ids=["another node", "an instance", "a share", "another hour"],
)
def test_a_pod_that_held_something_else_says_nothing_of_a_whole_gpu(
    elsewhere: PodDeviceUse,
) -> None:
    assert reported(ShownDevice(), holdings=(elsewhere,)) == [("idle", None)]


def test_a_device_is_reported_in_its_place() -> None:
    first, second = serving("a"), serving("b")
    held = (holding("b"), holding("a"))

    assert reported(first, second, holdings=held) == [("exclusive", 1), ("exclusive", 0)]


def test_what_a_device_is_handed_out_as_is_looked_up_by_its_profile() -> None:
    media = ShownDevice(instance_id="9", instance_profile="1g.10gb+me")

    assert place_of(media) == (NODE, "1g.10gb.me")
    [found] = attribute_devices([media], holdings=(), kinds={(NODE, "1g.10gb.me"): MIG})
    assert found == Attributed(Attribution.IDLE, None, MIG)
    [other] = attribute_devices([replace(media, node="x")], holdings=(), kinds={})
    assert other.kind is None


@pytest.mark.parametrize(
    ("group", "profile"),
    [
        ("H100/whole", ""),
        ("A100/1of4", ""),
        ("H100/1g.10gb", "1g.10gb"),
        ("H100/1g.10gb/1of2", "1g.10gb"),
        ("H100/1g.10gb.me", "1g.10gb.me"),
        ("", ""),
    ],
)
def test_a_price_group_names_its_profile(group: str, profile: str) -> None:
    assert profile_in(group) == profile
