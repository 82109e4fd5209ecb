"""Energy: a device's counter as a line through its samples, so that any stretch can be cut out.

`increase()` is not used: it extrapolates to the edges of a range, and it starts anew with every
series, that is with every pod a device serves. The merged counter has neither fault, and because
the line is cut by whole millijoules rounded down, parts always add up to the whole.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Final

WATTS_MAX: Final = 5_000
"""No GPU takes more; a steeper step is a broken counter. Millijoules per millisecond are watts."""


@dataclass(frozen=True, slots=True)
class EnergyLine:
    """Millijoules taken since the first sample, at each sample's time in Unix milliseconds."""

    times: tuple[int, ...]
    taken: tuple[int, ...]

    def between(self, begin: int, end: int) -> int | None:
        """Return the millijoules from begin to end, None where the line says nothing of them.

        What lies outside the samples is not extrapolated.
        """
        if len(self.times) < 2 or begin >= self.times[-1] or end <= self.times[0]:  # noqa: PLR2004 - A line.
            return None
        return self._at(end) - self._at(begin)

    def _at(self, moment: int) -> int:
        if moment <= self.times[0]:
            return 0
        if moment >= self.times[-1]:
            return self.taken[-1]
        after = bisect_right(self.times, moment)
        begin, end = self.times[after - 1], self.times[after]
        low, high = self.taken[after - 1], self.taken[after]
        return low + (high - low) * (moment - begin) // (end - begin)


def energy_line(counter: Mapping[int, Decimal]) -> EnergyLine:
    """Return the line of a counter, by time; a counter that fell began anew at 0.

    Source: nvml.h, nvmlDeviceGetTotalEnergyConsumption: millijoules since the driver was loaded.
    A line that climbs faster than a GPU can is given up as a whole.
    """
    times = tuple(sorted(counter))
    readings = [int(counter[at]) for at in times]
    taken = [0] if times else []
    total = 0
    for (before, low), (after, high) in pairwise(zip(times, readings, strict=True)):
        step = high - low if high >= low else high
        if step > WATTS_MAX * (after - before):
            return EnergyLine((), ())
        total += step
        taken.append(total)
    return EnergyLine(times, tuple(taken))
