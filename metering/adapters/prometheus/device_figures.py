"""Figures of one run of a device: from what its columns say to what is told of it.

No samples is None, never 0: a metric that is not exported and an idle GPU are told apart.
"""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.columns import RATIO, Tally
from metering.domain.activity_doubt import Activeness, is_contradicted
from metering.protocols import Figure

Tallies = Mapping[str, Tally]
"""Our metric name to what its column says of one run."""
COUNTED: Final[Mapping[Figure, str]] = {
    Figure.SM_ACTIVE: known.SM_ACTIVE,
    Figure.TENSOR_ACTIVE: known.TENSOR_ACTIVE,
    Figure.DRAM_ACTIVE: known.DRAM_ACTIVE,
    Figure.MEMORY: known.MEMORY_USED,
    Figure.POWER: known.POWER,
    Figure.ENERGY: known.ENERGY,
}
"""Which metric's samples a figure's coverage is counted by."""
_COUNTED: Final = tuple((figure.value, metric) for figure, metric in COUNTED.items())
_STEP: Final = Decimal("0.000001")


def figures_of(tallies: Tallies, *, is_uncertain: bool, is_busy_by_engine: bool) -> dict[str, Any]:
    """Return the fields of a DeviceObservation that tell figures beyond the busy one.

    Args:
        tallies: What was sampled.
        is_uncertain: The profiling counters are contradicted, so that their zeros mean nothing.
        is_busy_by_engine: Whether the busy figure is one of them.
    """
    return {
        "sm_active_ratio": _profiled(tallies.get(known.SM_ACTIVE), is_uncertain=is_uncertain),
        "tensor_active_ratio": _profiled(
            tallies.get(known.TENSOR_ACTIVE), is_uncertain=is_uncertain
        ),
        "dram_active_ratio": _profiled(tallies.get(known.DRAM_ACTIVE), is_uncertain=is_uncertain),
        "memory_used_peak_mebibytes": _peak(tallies.get(known.MEMORY_USED)),
        "memory_total_mebibytes": _memory_total(tallies),
        "power_mean_milliwatts": mean(tallies.get(known.POWER)),
        "figure_samples": {
            figure: tallies[metric].slots
            for figure, metric in _COUNTED
            if metric in tallies and tallies[metric].slots
        },
        "is_busy_doubtful": is_uncertain and is_busy_by_engine,
    }


def ratio(tally: Tally | None) -> Decimal | None:
    """Return a mean of millionths as a ratio, None without samples."""
    if tally is None or tally.samples == 0:
        return None
    return (Decimal(tally.total) / (tally.samples * RATIO)).quantize(_STEP, rounding=ROUND_HALF_UP)


def mean(tally: Tally | None) -> int | None:
    """Return a mean rounded down to a whole number, None without samples."""
    return tally.total // tally.samples if tally is not None and tally.samples else None


def is_stuck(tallies: Tallies) -> bool:
    """Whether the engine's counter stood at 0 over a run while something else says it was busy."""
    engine = tallies.get(known.BUSY_RATIO)
    return is_contradicted(
        Activeness(
            engine_total=engine.total if engine is not None and engine.samples else None,
            power_milliwatts=mean(tallies.get(known.POWER)),
            clock_megahertz=mean(tallies.get(known.SM_CLOCK)),
            utilization_millionths=mean(tallies.get(known.BUSY_PERCENT)),
        )
    )


def _profiled(tally: Tally | None, *, is_uncertain: bool) -> Decimal | None:
    if is_uncertain and tally is not None and tally.total == 0:
        return None
    return ratio(tally)


def _peak(tally: Tally | None) -> int | None:
    return tally.peak if tally is not None and tally.samples else None


def _memory_total(tallies: Tallies) -> int | None:
    """Return used + free + reserved of one scrape; older exporters do not tell what is reserved."""
    used, free = tallies.get(known.MEMORY_USED), tallies.get(known.MEMORY_FREE)
    if used is None or free is None or not used.samples or used.first_at != free.first_at:
        return None
    reserved = tallies.get(known.MEMORY_RESERVED)
    is_told = reserved is not None and reserved.samples and reserved.first_at == used.first_at
    return used.first + free.first + (reserved.first if reserved is not None and is_told else 0)
