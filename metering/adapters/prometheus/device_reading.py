"""Reading devices: what GPUs did in a window, asked apart from what is billed.

The devices are divided into parts by their UUIDs before they are asked about, so that neither
Prometheus nor this process has more than one part's samples in memory.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.devices import Devices, read_devices
from metering.adapters.prometheus.health import health_names, health_query, read_health
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.queries import HEX, QueryPlan
from metering.adapters.prometheus.samples import Range, read_rows, read_units, to_time
from metering.adapters.prometheus.workloads import Exporters, read_exporters
from metering.protocols import DeviceFigures
from metering.protocols.health import HealthObservation

DEVICE_SCRAPES: Final = 2
"""How far around the window devices are asked about: their last sample before and first after."""


DEVICE_SAMPLES_MAX: Final = 10_000_000
"""Of one part, by the count of its series: a fifth of Prometheus' own limit, since exporters may be
scraped more often than kube-state-metrics, and three quarters belong to the second query."""
DIGITS_MAX: Final = 2
"""256 parts and the rest: 2.5 billion samples."""


def read_device_figures(
    asking: Asking, plan: QueryPlan, *, cluster: str, hours: Hours, source: str
) -> DeviceFigures:
    """Return what the devices of a cluster did over a window.

    Raises:
        SourceUnavailableError: No answer, or one that cannot be believed.
    """
    margin = DEVICE_SCRAPES * hours.scrape
    near = Range((hours.start - margin) // 1000, (hours.end + margin) // 1000)
    exporters = read_exporters(asking.vector(plan.exporters, near))
    scrapes = near.seconds * 1000 // hours.scrape
    digits = _digits_for(_count_series(asking, plan, near) * scrapes)
    devices = _together(
        [
            _read_part(asking, plan, near, part=part, exporters=exporters, hours=hours)
            for part in plan.device_parts(digits)
        ]
    )
    health = _read_health(asking, plan, near, step_seconds=hours.scrape // 1000)
    return DeviceFigures(
        cluster=cluster,
        start_at=to_time(hours.start),
        end_at=to_time(hours.end),
        source=source,
        devices=devices.observations,
        energies=devices.energies,
        missing_figures=devices.missing_figures,
        evidence=tuple(asking.evidence),
        health=health,
    )


def _count_series(asking: Asking, plan: QueryPlan, near: Range) -> int:
    query = plan.device_series()
    answer = asking.ask(query, near)
    rows = [read_units(value) or 0 for _, value in read_rows(answer)]
    asking.note(query, near, answer, len(rows))
    return sum(rows)


def _digits_for(samples: int) -> int:
    """Return by how many digits of their UUIDs devices are divided."""
    for digits in range(DIGITS_MAX):
        if samples <= DEVICE_SAMPLES_MAX * len(HEX) ** digits:
            return digits
    return DIGITS_MAX


def _read_part(
    asking: Asking, plan: QueryPlan, near: Range, *, part: str, exporters: Exporters, hours: Hours
) -> Devices:
    return read_devices(
        asking.matrix(partial(plan.devices, known.PRESENCE, part), near),
        asking.matrix(partial(plan.devices, known.FIGURES, part), near),
        exporters,
        plan.names,
        hours,
    )


def _together(parts: Sequence[Devices]) -> Devices:
    """Return the devices of all parts by UUID; a figure is missing where no part has it."""
    if len(parts) == 1:
        return parts[0]
    missing = [set(part.missing_figures) for part in parts if part.observations]
    return Devices(
        observations=tuple(
            sorted(
                (one for part in parts for one in part.observations),
                key=lambda one: (one.uuid, one.instance_id, one.instance_profile, one.begin_at),
            )
        ),
        energies=tuple(
            sorted((one for part in parts for one in part.energies), key=lambda one: one.uuid)
        ),
        missing_figures=tuple(sorted(set.intersection(*missing))) if missing else (),
    )


def _read_health(
    asking: Asking, plan: QueryPlan, near: Range, *, step_seconds: int
) -> HealthObservation:
    names = health_names(plan.names)

    def template(range_seconds: int) -> str:
        return health_query(
            names,
            selector=plan.selector,
            range_seconds=range_seconds,
            step_seconds=step_seconds,
        )

    spelled = replace(asking, names=names)
    series = spelled.matrix(template, near)
    signals = read_health(series, names, step_seconds=step_seconds)
    last = asking.evidence[-1]
    return HealthObservation(
        signals=signals,
        step_seconds=step_seconds,
        query=last.query,
        asked_at=last.at,
        sha256=last.sha256,
    )
