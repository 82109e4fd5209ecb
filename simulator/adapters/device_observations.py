"""What scrapes of dcgm-exporter show of a simulated cluster's devices."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby, pairwise
from typing import Final

from metering.domain.devices.error_tables import ROW_REMAP_FAILURE
from metering.protocols import DeviceObservation, EnergyObservation, Figure
from metering.protocols.health import HealthObservation, HealthRun, HealthSignal
from simulator.adapters.observations import Window
from simulator.cluster.exporters.device_series import DeviceTimeline
from simulator.cluster.exporters.exposition import ClusterExposition

_RATIO_STEP: Final = Decimal("0.000001")
_Workload = tuple[str, str]
_Run = tuple[_Workload, datetime, datetime]


def devices_seen(
    exposition: ClusterExposition, ticks: Sequence[datetime], window: Window
) -> tuple[DeviceObservation, ...]:
    """Return every device's runs of one workload inside the window, by UUID, instance and time."""
    timelines = sorted(
        exposition.timelines, key=lambda one: (one.gpu.uuid, one.instance_id, one.profile)
    )
    return tuple(
        _observe(timeline, exposition, ticks, run)
        for timeline in timelines
        for run in _runs(timeline, ticks, window)
    )


def models_seen(exposition: ClusterExposition) -> dict[str, frozenset[str]]:
    """Return the GPU models that each node's devices name."""
    models: defaultdict[str, set[str]] = defaultdict(set)
    for one in exposition.timelines:
        models[one.node.name].add(one.gpu.model)
    return {node: frozenset(named) for node, named in models.items()}


MISSING_FIGURES: Final = tuple(sorted(set(Figure) - {Figure.ENERGY}))
"""A simulated history holds busy ratios and energy only; see `openmetrics`."""


def health_seen(exposition: ClusterExposition, ticks: Sequence[datetime]) -> HealthObservation:
    """Return which devices were broken at the scrapes."""
    nodes = {one.gpu.uuid: one.node.name for one in exposition.timelines}
    signals = []
    for failure in exposition.cluster.failures:
        seen = [at for at in ticks if failure.begin_at <= at < failure.end_at]
        if seen:
            run = HealthRun(Decimal(1), seen[0], seen[-1])
            node = nodes[failure.gpu_uuid]
            signals.append(
                HealthSignal(failure.gpu_uuid, node, "", "", ROW_REMAP_FAILURE, "", (run,))
            )
    return HealthObservation(
        signals=tuple(signals), step_seconds=exposition.cluster.scrape_interval_seconds
    )


def energies_seen(
    exposition: ClusterExposition, observations: Sequence[DeviceObservation]
) -> tuple[EnergyObservation, ...]:
    """Return what each physical GPU took, marked where one of its observations begins or ends."""
    marks: defaultdict[tuple[str, str], set[datetime]] = defaultdict(set)
    for one in observations:
        marks[one.uuid, one.node] |= {one.begin_at, one.end_at}
    found = []
    for (uuid, node), moments in sorted(marks.items()):
        instants = sorted(moments)
        taken = [exposition.powers[uuid].millijoules(_second(at)) for at in instants]
        found.append(
            EnergyObservation(
                uuid=uuid,
                node=node,
                marks=tuple(instants),
                taken_millijoules=tuple(one - taken[0] for one in taken),
            )
        )
    return tuple(found)


def _observe(
    timeline: DeviceTimeline,
    exposition: ClusterExposition,
    ticks: Sequence[datetime],
    run: _Run,
) -> DeviceObservation:
    (namespace, pod), begin, end = run
    seen = [at for at in ticks if begin <= at < end]
    power = exposition.powers[timeline.gpu.uuid]
    return DeviceObservation(
        uuid=timeline.gpu.uuid,
        node=timeline.node.name,
        model=timeline.gpu.model,
        instance_id=timeline.instance_id,
        instance_profile=timeline.profile,
        namespace=namespace,
        pod=pod,
        begin_at=begin,
        end_at=end,
        busy_ratio=_mean([timeline.busy(_second(at)) for at in seen]),
        samples=len(seen),
        expected_samples=sum(1 for _ in exposition.cluster.scheduled_scrapes(begin, end)),
        energy_millijoules=None
        if timeline.instance_id
        else power.millijoules(_second(end)) - power.millijoules(_second(begin)),
        figure_samples={Figure.ENERGY.value: len(seen)} if seen else {},
    )


def _runs(timeline: DeviceTimeline, ticks: Sequence[datetime], window: Window) -> Iterator[_Run]:
    """Yield the stretches of one workload, clipped to the window.

    A sample covers the time until the next one, but not across a gap of more than two and a
    half scrapes, and not for more than a scrape after the last one.
    """
    ends = [
        following if following - at <= window.scrape * 5 / 2 else at + window.scrape
        for at, following in pairwise(ticks)
    ]
    ends += [at + window.scrape for at in ticks[-1:]]
    stays = [(_workload(timeline, at), at, end) for at, end in zip(ticks, ends, strict=True)]
    for workload, group in groupby(stays, key=lambda stay: stay[0]):
        members = list(group)
        begin, end = max(members[0][1], window.start_at), min(members[-1][2], window.end_at)
        if begin < end:
            yield workload, begin, end


def _workload(timeline: DeviceTimeline, at: datetime) -> _Workload:
    pod = timeline.at(_second(at)).named_pod
    return ("", "") if pod is None else (pod.namespace, pod.name)


def _mean(thousandths: Sequence[int]) -> Decimal | None:
    if not thousandths:
        return None
    mean = Decimal(sum(thousandths)) / (1000 * len(thousandths))
    return mean.quantize(_RATIO_STEP, rounding=ROUND_HALF_UP)


def _second(at: datetime) -> int:
    return int(at.timestamp())
