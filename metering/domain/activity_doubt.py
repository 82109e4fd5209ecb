"""Doubt about activity: a counter that stands at 0 is believed only where nothing contradicts it.

The exporter's profiling counters are known to stick at 0 after weeks. Nobody is accused of waste by
a counter that the GPU's own power and clock, or its utilization, give the lie to.
Source: NVIDIA/dcgm-exporter issue 662.
"""

from dataclasses import dataclass
from typing import Final

POWER_MILLIWATTS_MIN: Final = 150_000
"""More than data-centre GPUs take idle, with a context open and memory full."""
CLOCK_MEGAHERTZ_MIN: Final = 1_000
"""An idle GPU falls to a few hundred; one with an open context may not, so power must agree."""
UTILIZATION_MILLIONTHS_MIN: Final = 50_000


@dataclass(frozen=True)
class Activeness:
    """Means over one stretch; None for what was not sampled.

    Attributes:
        engine_total: Sum over the samples of the profiling counter; 0 when it stood at 0.
    """

    engine_total: int | None
    power_milliwatts: int | None = None
    clock_megahertz: int | None = None
    utilization_millionths: int | None = None


def is_contradicted(seen: Activeness) -> bool:
    """Whether the profiling counter says idle while something else says it was not."""
    if seen.engine_total != 0:
        return False
    if (seen.utilization_millionths or 0) >= UTILIZATION_MILLIONTHS_MIN:
        return True
    is_fast = seen.clock_megahertz is None or seen.clock_megahertz >= CLOCK_MEGAHERTZ_MIN
    return is_fast and (seen.power_milliwatts or 0) >= POWER_MILLIWATTS_MIN
