"""Energy lines: what a GPU took, through its counter or its power, cut anywhere."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import sub
from typing import Final

from metering.adapters.prometheus.devices.columns import WATTS_MAX, Column
from metering.adapters.prometheus.nodes import Hours

_HALVES_PER_MILLIJOULE: Final = 2_000
"""Milliwatts x milliseconds are microjoules, and a trapezoid is half of its two sides' sum."""


@dataclass(frozen=True, slots=True)
class EnergyLine:
    """Millijoules taken since the first sample, at each sample's time in Unix milliseconds."""

    times: tuple[int, ...]
    taken: tuple[int, ...]

    def between(self, begin: int, end: int) -> int | None:
        """Return the millijoules from begin to end, None where the line does not cover them.

        What lies outside the samples is not extrapolated.
        """
        if len(self.times) < 2 or begin >= self.times[-1] or end <= self.times[0]:  # noqa: PLR2004 - A line.
            return None
        return self.at(end) - self.at(begin)

    def at(self, moment: int) -> int:
        """Return what had been taken at a moment; before and after the samples nothing is."""
        if moment <= self.times[0]:
            return 0
        if moment >= self.times[-1]:
            return self.taken[-1]
        after = bisect_right(self.times, moment)
        begin, end = self.times[after - 1], self.times[after]
        low, high = self.taken[after - 1], self.taken[after]
        return low + (high - low) * (moment - begin) // (end - begin)


UNKNOWN: Final = EnergyLine((), ())


def energy_line(counter: Column) -> EnergyLine:
    """Return the line of a counter; a counter that fell restarted at 0.

    Source: nvml.h, nvmlDeviceGetTotalEnergyConsumption: millijoules since the driver was loaded. A
    line that rises faster than a GPU can draw power is discarded.
    """
    times, readings = tuple(counter.times), tuple(counter.values)
    steps = [high - low if high >= low else high for low, high in pairwise(readings)]
    lasting = map(sub, times[1:], times)
    # Millijoules per millisecond are watts.
    if any(step > WATTS_MAX * time for step, time in zip(steps, lasting, strict=True)):
        return UNKNOWN
    return EnergyLine(times, tuple(accumulate(steps, initial=0)) if times else ())


def power_line(power: Column, hours: Hours) -> EnergyLine:
    """Return the line of a GPU that has no counter, from its power in milliwatts by trapezoids.

    Power between samples far apart is not known, so a line with a gap has no value.
    """
    longest = hours.scrape * 5 // 2
    taken = [0] if power.times else []
    halves = 0
    samples = zip(power.times, power.values, strict=True)
    for (before, low), (after, high) in pairwise(samples):
        if after - before > longest:
            return UNKNOWN
        halves += (low + high) * (after - before)
        taken.append(halves // _HALVES_PER_MILLIJOULE)
    return EnergyLine(tuple(power.times), tuple(taken))
