"""Energy: the consumption of a physical GPU, split exactly among the holders of its parts.

A GPU draws power while idle. Idle energy is split by what each part holds, the rest by activity. If
the activity of one part is unknown, all energy is split by what is held. Energy of parts without a
holder is overhead. Parts are whole millijoules and always add up to the whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Final, Protocol

ACTIVITY_STEPS: Final = 1_000_000
"""Activity ratios have six digits."""
IDLE_MILLIWATTS_MAX: Final = 100_000
"""A GPU that was never idle shows no idle power; data-centre GPUs take at most about this."""
_MILLISECOND: Final = timedelta(milliseconds=1)


class EnergyFact(Protocol):
    """What one physical GPU took between marks; see protocols.EnergyObservation."""

    @property
    def marks(self) -> tuple[datetime, ...]:
        """Return the moments, ascending."""
        ...

    @property
    def taken_millijoules(self) -> tuple[int, ...]:
        """Return what was taken since the first mark."""
        ...

    @property
    def idle_milliwatts(self) -> int | None:
        """Return the power it takes idle, None when unknown."""
        ...


@dataclass(frozen=True)
class EnergyPart:
    """A part of a GPU over some time: a whole GPU's run, or a MIG instance's.

    Attributes:
        slices: Compute slices of the GPU; all of them for a whole GPU.
        activity: Busy share of those slices, 0 to 1; None when unknown.
        is_held: Whether a pod holds it; unknown activity matters only then.
    """

    begin_at: datetime
    end_at: datetime
    slices: int
    activity: Decimal | None
    is_held: bool


def share_out(total: int, *, weights: Sequence[int]) -> tuple[int, ...]:
    """Return whole parts of a total by weights; they add up to it, by largest remainder.

    Equal remainders go to the earlier one. Without any weight all parts are 0.

    Raises:
        ValueError: The total or a weight is negative.
    """
    if total < 0 or any(weight < 0 for weight in weights):
        raise ValueError("energy and weights are not negative")
    whole = sum(weights)
    if whole == 0:
        return (0,) * len(weights)
    parts = [total * weight // whole for weight in weights]
    left = total - sum(parts)
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for index in by_remainder[:left]:
        parts[index] += 1
    return tuple(parts)


@dataclass(frozen=True)
class EnergySplit:
    """One GPU's energy: a part for each of its parts, and the unattributed rest."""

    parts: tuple[int, ...]
    overhead: int


def split_device(energy: EnergyFact, *, parts: Sequence[EnergyPart], slices: int) -> EnergySplit:
    """Return how a GPU's energy falls to its parts.

    Args:
        energy: Marked wherever a part begins or ends.
        parts: Stretches of its instances, or of the GPU as a whole.
        slices: Compute slices of the GPU; what no part covers is overhead.
    """
    given = [0] * len(parts)
    overhead = 0
    marked = zip(energy.marks, energy.taken_millijoules, strict=True)
    for (begin_at, low), (end_at, high) in pairwise(marked):
        present = [
            index
            for index, part in enumerate(parts)
            if part.begin_at <= begin_at and end_at <= part.end_at
        ]
        total = high - low
        idle = _idle_part(total, milliwatts=energy.idle_milliwatts, lasting=end_at - begin_at)
        falls = _split_step(total, idle=idle, parts=[parts[i] for i in present], slices=slices)
        for index, amount in zip(present, falls, strict=True):
            given[index] += amount
        overhead += total - sum(falls)
    return EnergySplit(tuple(given), overhead)


def _idle_part(total: int, *, milliwatts: int | None, lasting: timedelta) -> int:
    """Return what a GPU would have taken idle; all of it when its idle power is unknown."""
    if milliwatts is None:
        return total
    idle = min(milliwatts, IDLE_MILLIWATTS_MAX)
    return min(total, idle * (lasting // _MILLISECOND) // 1000)


def _split_step(
    total: int, *, idle: int, parts: Sequence[EnergyPart], slices: int
) -> tuple[int, ...]:
    """Return each part's share of one step; what they do not get is overhead."""
    held = [part.slices for part in parts]
    rest = max(0, slices - sum(held))
    by_holding = share_out(idle, weights=[*held, rest])[: len(parts)]
    active = [_activity_weight(part) for part in parts]
    is_known = all(part.activity is not None for part in parts if part.is_held)
    weights = active if is_known and any(active) else [*held, rest]
    by_activity = share_out(total - idle, weights=weights)[: len(parts)]
    return tuple(a + b for a, b in zip(by_holding, by_activity, strict=True))


def _activity_weight(part: EnergyPart) -> int:
    return part.slices * int((part.activity or Decimal(0)) * ACTIVITY_STEPS)
