"""Shares of one device: what is billed and what is idle add up to the device, in every mode."""

from collections.abc import Mapping
from fractions import Fraction

import pytest

from metering.domain.collection.windows import WindowState
from metering.models import CapacityRecord, UsageRecord
from metering.services.catalogue import ensure_catalogue
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import RAW_H100, UNSIZED, ledgered, offered, watched
from tests.support.metering.collecting import collect, exceptions
from tests.support.metering.seen import ACTOR, HOUR, SLICED_A100, ended_pod, node, observation

QUARTERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "time-slicing": ("nvidia_com_gpu", SLICED_A100),
    "time-slicing, renamed": (
        "nvidia_com_gpu_shared",
        {**SLICED_A100, "nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"},
    ),
    "mps": ("nvidia_com_gpu", {**SLICED_A100, "nvidia_com_gpu_sharing_strategy": "mps"}),
    "mig on a30, single": (
        "nvidia_com_gpu",
        {
            "nvidia_com_gpu_product": "NVIDIA-A30-MIG-1g.6gb",
            "nvidia_com_mig_strategy": "single",
            "nvidia_com_gpu_replicas": "1",
        },
    ),
    "mig on a30, mixed": (
        "nvidia_com_mig_1g_6gb",
        {
            "nvidia_com_gpu_product": "NVIDIA-A30",
            "nvidia_com_mig_strategy": "mixed",
            "nvidia_com_mig_1g_6gb_product": "NVIDIA-A30-MIG-1g.6gb",
            "nvidia_com_mig_1g_6gb_replicas": "1",
        },
    ),
}
WHOLE = Fraction(1)
HOUR_SECONDS = 3600


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The open window.
    ensure_catalogue(actor=ACTOR, at=HOUR)


def device_seconds() -> tuple[Fraction, Fraction]:
    """Return billed and idle device-seconds over all records of the hour."""
    rows = CapacityRecord.objects.values_list(
        "share_numerator", "share_denominator", "billed_unit_seconds", "idle_unit_seconds"
    )
    billed = sum((Fraction(n, d) * used for n, d, used, _ in rows), Fraction(0))
    idle = sum((Fraction(n, d) * left for n, d, _, left in rows), Fraction(0))
    return billed, idle


def weighed_usage() -> Fraction:
    rows = UsageRecord.objects.values_list("share_numerator", "share_denominator", "unit_seconds")
    return sum((Fraction(n, d) * used for n, d, used in rows), Fraction(0))


@pytest.mark.parametrize("mode", QUARTERS)
@pytest.mark.parametrize("is_watched", [False, True], ids=["Prometheus", "both"])
def test_four_quarter_shares_for_an_hour_and_idle_are_one_gpu_hour(
    cluster: Cluster, mode: str, *, is_watched: bool
) -> None:
    resource, labels = QUARTERS[mode]
    ends = (3600, 3600, 1800, 901)
    if is_watched:
        _watch_quarters(cluster, resource=resource, labels=labels, ends=ends)
    seen = observation(
        *(
            ended_pod(str(index), 0, end, resource=resource, labels=labels)
            for index, end in enumerate(ends)
        ),
        nodes=(node(allocatable={resource: 4}, labels=labels),),
    )

    assert collect(seen).state is WindowState.RECONCILED

    billed, idle = device_seconds()
    assert billed == weighed_usage() == Fraction(sum(ends), 4)
    assert billed + idle == WHOLE * HOUR_SECONDS
    assert exceptions() == []


@pytest.mark.parametrize("mode", QUARTERS)
def test_four_quarters_used_all_hour_are_exactly_one_gpu_hour(cluster: Cluster, mode: str) -> None:
    del cluster
    resource, labels = QUARTERS[mode]
    seen = observation(
        *(ended_pod(str(index), 0, 3600, resource=resource, labels=labels) for index in range(4)),
        nodes=(node(allocatable={resource: 4}, labels=labels),),
    )

    collect(seen)

    assert device_seconds() == (Fraction(HOUR_SECONDS), Fraction(0))


def test_a_2g_and_five_1g_instances_weigh_what_they_are_of_the_gpu(cluster: Cluster) -> None:
    """The geometry of the worked example: one 2g and five 1g of an H100's seven slices."""
    mixed = {
        **RAW_H100,
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "nvidia.com/mig-2g.20gb.product": "NVIDIA-H100-80GB-HBM3-MIG-2g.20gb",
    }
    watched(cluster)
    one, two = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"
    offered(cluster, allocatable={one: 5, two: 1}, labels=mixed)
    # The shares of an hour in which the example's instances were busy.
    ledgered(cluster, "2g", 0, 2160, resource=two, node_labels=mixed, **_UNSETTLED)
    for index, percent in enumerate((90, 40, 20, 70, 10)):
        seconds = 36 * percent
        ledgered(cluster, f"1g-{index}", 0, seconds, resource=one, node_labels=mixed, **_UNSETTLED)
    Cluster.objects.filter(pk=cluster.pk).update(prometheus_url="")

    assert collect(observation()).state is WindowState.RECONCILED

    billed, idle = device_seconds()
    assert weighed_usage() == billed == Fraction(2 * 60 + 90 + 40 + 20 + 70 + 10, 700) * 3600
    assert billed == Fraction(1, 2) * HOUR_SECONDS
    assert billed + idle == HOUR_SECONDS
    assert exceptions() == []


_UNSETTLED = {**UNSIZED, "price_group": "", "sharing_mode": "", "product": ""}


def _watch_quarters(
    cluster: Cluster, *, resource: str, labels: Mapping[str, str], ends: tuple[int, ...]
) -> None:
    raw = {
        "nvidia_com_gpu": "nvidia.com/gpu",
        "nvidia_com_gpu_shared": "nvidia.com/gpu.shared",
        "nvidia_com_mig_1g_6gb": "nvidia.com/mig-1g.6gb",
    }[resource]
    watched(cluster)
    offered(cluster, allocatable={raw: 4}, labels=labels)
    for index, end in enumerate(ends):
        ledgered(cluster, str(index), 0, end, resource=raw, node_labels=dict(labels), **_UNSETTLED)
