"""The standard scenario: three organizations, two clusters, some sixty pods alive at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from simulator.cluster import hardware, incidents
from simulator.cluster.demo_lanes import (
    AMPERE_NODES,
    FAILING_SLOT,
    HOPPER_NODES,
    INCIDENT_SLOT,
    ampere_lanes,
    hopper_lanes,
)
from simulator.cluster.demo_tenancy import (
    AMPERE,
    HOPPER,
    ORGANIZATIONS,
    namespaces_of,
)
from simulator.cluster.hardware import slots_of
from simulator.cluster.lanes import Lane, pods_of
from simulator.cluster.scenario import (
    DeviceFailure,
    Outage,
    Pod,
    Scenario,
    SimulatedCluster,
)

SCRAPE_INTERVAL_SECONDS: Final = 120
"""A month of both clusters is about 15 million samples then; at 30 s it would be 60 million."""


def standard_outage(month_start: datetime) -> Outage:
    """Return the demo's outage: 25 minutes in which Prometheus saw nothing of hopper."""
    begin_at = month_start + timedelta(days=10, hours=14, minutes=10)
    return Outage(begin_at, begin_at + timedelta(minutes=25))


def standard_failure(month_start: datetime) -> DeviceFailure:
    """Return the demo's broken GPU, which jobs of robotics and genomics run on."""
    begin_at = month_start + timedelta(days=20, hours=9, minutes=40)
    slot = slots_of(HOPPER_NODES[1])[FAILING_SLOT]
    return DeviceFailure(slot.gpu_uuid, begin_at, begin_at + timedelta(days=1))


def demo_scenario(
    seed: int,
    month_start: datetime,
    until: datetime,
    *,
    outages: tuple[Outage, ...] | None = None,
    scrape_interval_seconds: int = SCRAPE_INTERVAL_SECONDS,
) -> Scenario:
    """Return the standard scenario, true from two hours before `month_start` to `until`.

    Pods alive at `month_start` began up to days before it. A later `until` adds pods and changes
    none, so a live exporter may grow the scenario as time passes.

    Args:
        seed: Equal seeds give equal scenarios, on every machine.
        month_start: Begin of the month, aware UTC.
        until: Pods are created before this.
        outages: Holes in what was scraped of hopper; None for the standard one, () for none. The
            first one gets its three scripted pods.
        scrape_interval_seconds: How often both clusters are scraped.
    """
    holes = (standard_outage(month_start),) if outages is None else outages

    def lived(lanes: Iterable[Lane], extra: Iterable[Pod]) -> tuple[Pod, ...]:
        ours = [pod for pod in extra if pod.created_at < until]
        for lane in lanes:
            ours += pods_of(lane, seed=seed, begin_at=month_start, until=until)
        return tuple(sorted(ours, key=lambda pod: (pod.created_at, pod.uid)))

    hopper = replace(
        _HOPPER,
        pods=lived(hopper_lanes(), _hopper_incidents(seed, month_start, holes)),
        outages=holes,
        failures=(standard_failure(month_start),),
        scrape_interval_seconds=scrape_interval_seconds,
    )
    refused = incidents.refused_pod(seed, month_start, AMPERE_NODES[0].name)
    ampere = replace(
        _AMPERE,
        pods=lived(ampere_lanes(), [refused]),
        scrape_interval_seconds=scrape_interval_seconds,
    )
    return Scenario(
        seed=seed,
        begin_at=month_start,
        until=until,
        organizations=ORGANIZATIONS,
        clusters=(hopper, ampere),
    )


def _hopper_incidents(seed: int, month_start: datetime, holes: tuple[Outage, ...]) -> Iterator[Pod]:
    node = HOPPER_NODES[0]
    slot = slots_of(node)[INCIDENT_SLOT]
    yield incidents.pending_pod(seed, month_start)
    yield incidents.unpriced_pod(seed, month_start, node.name, slot)
    if holes:
        yield from incidents.outage_pods(seed, holes[0], node.name, slot)


_HOPPER: Final = SimulatedCluster(
    slug=HOPPER,
    name="Hopper (H100)",
    nodes=HOPPER_NODES,
    namespaces=namespaces_of(HOPPER),
    pods=(),
    offered_resources=(
        hardware.GPU_RESOURCE,
        hardware.SMALL_H100.resource,
        hardware.TWO_H100.resource,
        hardware.THREE_H100.resource,
    ),
    scrape_interval_seconds=SCRAPE_INTERVAL_SECONDS,
    scrape_offset_seconds=7,
)
_AMPERE: Final = SimulatedCluster(
    slug=AMPERE,
    name="Ampere (A100)",
    nodes=AMPERE_NODES,
    namespaces=namespaces_of(AMPERE),
    pods=(),
    offered_resources=(hardware.GPU_RESOURCE, hardware.SHARED_RESOURCE),
    scrape_interval_seconds=SCRAPE_INTERVAL_SECONDS,
    scrape_offset_seconds=23,
)
