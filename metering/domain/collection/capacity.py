"""Capacity: per node and resource, billed + held + idle = what the node offered.

A sum above what was offered, beyond what the sampling of the node and the bounded ends of pods can
explain, needs a decision: a pod may be counted twice, or an offer be reported too low.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from metering.domain.allocations.timeline import gap_between, seconds_between

EDGE_SCRAPES: Final = 2
"""A node's first and last sample may each be off by up to one scrape."""


@dataclass(frozen=True)
class ObservedCapacity:
    """What a node offered of one resource, and how much of it was observed in use.

    Attributes:
        offered_unit_seconds: Units x the seconds in which the node was observed to offer them, or
            in which nothing was observed.
        disputed_unit_seconds: Held only because two sources differ; perhaps it was not used at all.
        slack_unit_seconds: By how much uncertain ends may overstate the usage.
        units_in_use_max: The most units one pod held of it.
    """

    allocatable_units: int
    offered_unit_seconds: int
    billed_unit_seconds: int
    held_unit_seconds: int
    disputed_unit_seconds: int = 0
    slack_unit_seconds: int = 0
    units_in_use_max: int = 0


@dataclass(frozen=True)
class Balance:
    """An offer divided into billed, held and idle, which add up to the capacity.

    Attributes:
        held_unit_seconds: Includes disputed usage up to the free capacity: what another pod surely
            used cannot have been used twice.
        idle_unit_seconds: Negative when more was used than offered.
        is_over_capacity: Whether the excess is more than sampling explains.
        is_unseen: Whether pods used what the node was never observed to offer, likewise.
    """

    capacity_unit_seconds: int
    idle_unit_seconds: int
    held_unit_seconds: int = 0
    is_over_capacity: bool = False
    is_unseen: bool = False


def balance_of(
    offer: ObservedCapacity, *, scrape_interval_seconds: int, window_seconds: int
) -> Balance:
    """Return an offer's capacity and its idle part.

    Usage that exceeds the observed seconds of the node by no more than sampling explains raises the
    capacity to the usage: the pod proves that the node existed. So does usage of a resource the
    node was never observed to offer; it is marked, because the export may be incomplete.
    """
    seen = offer.offered_unit_seconds
    held = offer.held_unit_seconds
    used = offer.billed_unit_seconds + held
    edge_seconds = min(window_seconds, EDGE_SCRAPES * scrape_interval_seconds)
    edge_units = max(offer.allocatable_units, offer.units_in_use_max)
    excess = used - seen - edge_units * edge_seconds - offer.slack_unit_seconds
    if used <= seen:
        disputed = min(offer.disputed_unit_seconds, seen - used)
        return Balance(seen, seen - used - disputed, held + disputed)
    if excess <= 0:
        return Balance(used, 0, held)
    if offer.allocatable_units == 0:
        return Balance(used, 0, held, is_unseen=True)
    return Balance(seen, seen - used, held, is_over_capacity=True)


def blind_seconds(
    ticks: Sequence[datetime],
    *,
    start_at: datetime,
    end_at: datetime,
    scrape_interval_seconds: int,
) -> int:
    """Return the whole seconds of [start_at, end_at) that lie in holes between two scrapes.

    A pod observed on both sides of a hole held its devices throughout, so its node offered them
    throughout. A scrape covers half an interval to each side; time before the first and after the
    last scrape is no hole.
    """
    gap = gap_between(scrape_interval_seconds)
    half = timedelta(seconds=scrape_interval_seconds) / 2
    return sum(
        seconds_between(max(earlier + half, start_at), min(later - half, end_at))
        for earlier, later in itertools.pairwise(ticks)
        if later - earlier > gap
    )
