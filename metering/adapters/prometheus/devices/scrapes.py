"""Scrapes of a counter in a window, from its number of samples and their times at both edges.

Prometheus scrapes a target at regular times and stores at most one sample of a series each time. So
the number shows which of them are there where it is all of them, and how many are missing where
they are as far apart as the cluster's scrapes.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from metering.adapters.prometheus.devices.columns import Run, expected_scrapes
from metering.adapters.prometheus.nodes import Hours

_REGULAR: Final = 10
"""Scrapes whose distances differ by less than one part in so many are regular."""
_SECOND: Final = 1_000


class Scrapes(NamedTuple):
    """The scrapes of a device in the window: seen, expected, and how many samples they brought."""

    slots: int
    expected: int
    samples: int


def count_scrapes(times: Sequence[int], samples: int, hours: Hours) -> Scrapes | None:
    """Return the scrapes in the window; None where the edges do not show them.

    Args:
        times: Unix milliseconds of the samples around the window's start, then around its end.
        samples: How many Prometheus counts in the window.
        hours: The window.
    """
    low, high = bisect_left(times, hours.start), bisect_left(times, hours.end)
    middle = bisect_left(times, (hours.start + hours.end) // 2)
    if not low < middle < high or not _is_spanning(times, low, hours):
        return None
    first, last = times[low], times[high - 1]
    step = _step(times[:middle], times[middle:], hours.scrape)
    if step is None or first >= hours.start + hours.scrape:
        return None
    slots = _slots(samples, last - first, step=step, scrape=hours.scrape)
    if slots is None:
        return None
    run = Run(("", ""), hours.start, hours.end)
    return Scrapes(slots, expected_scrapes(run, first, seen=slots, scrape=hours.scrape), samples)


def _is_spanning(times: Sequence[int], low: int, hours: Hours) -> bool:
    """Whether samples reach from the window's start to its end.

    Prometheus 2 counts a sample one millisecond before the start and Prometheus 3 does not.
    """
    return (
        (low > 0 or times[low] == hours.start)
        and (low == 0 or times[low - 1] != hours.start - 1)
        and times[-1] + hours.scrape >= hours.end
    )


def _step(start: Sequence[int], end: Sequence[int], scrape: int) -> int | None:
    """Return by how much scrapes are apart, in milliseconds; None where they are not regular."""
    steps = [later - earlier for part in (start, end) for earlier, later in pairwise(part)]
    if not steps or min(steps) <= 0 or max(steps) - min(steps) > min(steps) // _REGULAR:
        return None
    mean = sum(steps) // len(steps)
    if abs(mean - scrape) <= scrape // _REGULAR:
        return scrape
    return (mean + _SECOND // 2) // _SECOND * _SECOND or None


def _slots(samples: int, lasting: int, *, step: int, scrape: int) -> int | None:
    """Return how many of the cluster's scrapes brought a sample; None where that is not clear.

    Args:
        samples: Of the counter in the window.
        lasting: From the first of them to the last.
        step: How far they are apart.
        scrape: How far the cluster's scrapes are apart.
    """
    complete = (lasting + step // 2) // step + 1
    if samples > complete or (step < scrape and samples < complete):
        return None
    return samples if step >= scrape else (lasting + scrape // 2) // scrape + 1
