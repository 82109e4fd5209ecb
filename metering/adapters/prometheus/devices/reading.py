"""Reading devices: figures and health of GPUs in a window, queried apart from what is billed.

The devices are divided into parts by their UUIDs before they are queried, so that neither
Prometheus nor this process has more than one part's samples in memory.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.asking import DIVISIBLE, Asking
from metering.adapters.prometheus.devices.aggregates import Aggregates
from metering.adapters.prometheus.devices.columns import Exporters, read_exporters
from metering.adapters.prometheus.devices.health import read_health_levels
from metering.adapters.prometheus.devices.observations import Devices, Measured, observe
from metering.adapters.prometheus.devices.raw import measure_raw
from metering.adapters.prometheus.devices.steady import Steady, read_steady
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.queries import QueryPlan
from metering.adapters.prometheus.samples import Range, read_units, to_time
from metering.domain.collection.parts import HEX
from metering.protocols import DeviceFigures
from tenants.domain.errors import SourceUnavailableError

DEVICE_SCRAPES: Final = 2
"""How far around the window devices are queried: their last sample before and first after."""
DEVICE_SAMPLES_MAX: Final = 2_500_000
"""Of one part, by the count of the series that show a device: a twentieth of Prometheus' own limit,
since exporters may be scraped more often than kube-state-metrics, and there are three times as many
other series."""
DIGITS_MAX: Final = 2
"""256 parts and the rest: 2.5 billion samples."""


def read_device_figures(
    asking: Asking, plan: QueryPlan, *, cluster: str, hours: Hours, source: str
) -> DeviceFigures:
    """Return what the devices of a cluster did over a window.

    Raises:
        SourceUnavailableError: No response, or an invalid one.
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
    health = read_health_levels(asking, plan, near, step_seconds=hours.scrape // 1000)
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
    return sum(read_units(value) or 0 for _, value in asking.rows(plan.device_series(), near))


def _digits_for(samples: int) -> int:
    """Return by how many digits of their UUIDs devices are divided."""
    for digits in range(DIGITS_MAX):
        if samples <= DEVICE_SAMPLES_MAX * len(HEX) ** digits:
            return digits
    return DIGITS_MAX


def _read_part(
    asking: Asking, plan: QueryPlan, near: Range, *, part: str, exporters: Exporters, hours: Hours
) -> Devices:
    """Return a part's devices: by aggregates where they are exact, else from raw samples."""
    steady = _steady_of(asking, Aggregates(plan, part, hours), exporters)
    listed = plan.device_lists(steady.others) if steady is not None else None
    measured = steady.measured if steady is not None and listed is not None else Measured()
    for matchers in (part,) if listed is None else listed:
        measured.add(
            measure_raw(
                asking.matrix(partial(plan.devices, known.PRESENCE, matchers), near),
                asking.matrix(partial(plan.devices, known.FIGURES, matchers), near),
                exporters,
                plan.names,
                hours,
            )
        )
    return observe(measured, scrape=hours.scrape)


def _steady_of(asking: Asking, aggregates: Aggregates, exporters: Exporters) -> Steady | None:
    """Return the steady GPUs; None where the server refuses, as raw samples can be divided."""
    try:
        return read_steady(asking, aggregates, exporters)
    except SourceUnavailableError as error:
        if error.reason not in DIVISIBLE:
            raise
        return None


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
