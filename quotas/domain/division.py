"""Division: how one limit is spread over several namespaces, which Kubernetes cannot sum.

A ResourceQuota holds in one namespace only. To give each namespace of a project the whole limit
would admit it several times over, so the limit is divided: what is held stays covered first, and
the spare follows use by largest remainder. The parts never add up to more than the limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Place:
    """One namespace of one cluster."""

    cluster: str
    namespace: str


@dataclass(frozen=True)
class Part:
    """One place's part of a limit.

    Attributes:
        used_units: What pods hold there now.
        wanted_units: What the place was last told it may hold.
        ceiling_units: The most the place may be saying until it is read again: a smaller number
            that has not been seen to arrive does not count yet.
    """

    used_units: int
    wanted_units: int = 0
    ceiling_units: int = 0


def divide_limit(limit_units: int, parts: Mapping[Place, Part]) -> dict[Place, int]:
    """Return what each place should be told next, by place.

    A division that adds up and leaves nobody full while another has spare is kept as it is, so
    that quotas do not follow every pod. No part is raised before the parts that are lowered for
    it have been seen to arrive: the ceilings never add up to more than the limit because of it.
    """
    wanted = {place: part.wanted_units for place, part in parts.items()}
    if not _may_stay(limit_units, parts):
        wanted = share_units(limit_units, {p: part.used_units for p, part in parts.items()})
    return _raise_after_lowering(limit_units, parts, wanted)


def share_units(limit_units: int, used: Mapping[Place, int]) -> dict[Place, int]:
    """Return shares that add up to the limit exactly, by place; none when there is no place.

    While the limit covers what is used, each share does too, and the spare goes by use plus one,
    so that idle places take part too. Otherwise the whole limit goes by use.
    """
    spare_units = limit_units - sum(used.values())
    if spare_units < 0:
        return split_largest_remainder(limit_units, used)
    extra = split_largest_remainder(spare_units, {p: units + 1 for p, units in used.items()})
    return {place: units + extra[place] for place, units in used.items()}


def split_largest_remainder(total_units: int, weights: Mapping[Place, int]) -> dict[Place, int]:
    """Return whole parts of a total in proportion to weights; they add up to the total.

    What is left after rounding down goes to the largest remainders, the first place by name where
    they are equal.

    Args:
        total_units: Zero or more.
        weights: Zero or more each; at least one is positive unless there is no place.
    """
    if not weights:
        return {}
    weight_sum = sum(weights.values())
    parts = {place: total_units * weight // weight_sum for place, weight in weights.items()}
    left_units = total_units - sum(parts.values())
    for place in _by_remainder(total_units, weights)[:left_units]:
        parts[place] += 1
    return parts


def _by_remainder(total_units: int, weights: Mapping[Place, int]) -> Sequence[Place]:
    weight_sum = sum(weights.values())
    return sorted(weights, key=lambda place: (-(total_units * weights[place] % weight_sum), place))


def _may_stay(limit_units: int, parts: Mapping[Place, Part]) -> bool:
    if sum(part.wanted_units for part in parts.values()) != limit_units:
        return False
    has_full = any(part.used_units >= part.wanted_units for part in parts.values())
    has_spare = any(part.used_units < part.wanted_units for part in parts.values())
    return not (has_full and has_spare)


def _raise_after_lowering(
    limit_units: int, parts: Mapping[Place, Part], wanted: Mapping[Place, int]
) -> dict[Place, int]:
    """Return the wanted parts, raised only as far as the ceilings of all places leave room."""
    room_units = max(0, limit_units - sum(part.ceiling_units for part in parts.values()))
    told = {}
    for place in sorted(parts):
        ceiling_units = parts[place].ceiling_units
        raise_units = min(room_units, max(0, wanted[place] - ceiling_units))
        room_units -= raise_units
        told[place] = min(wanted[place], ceiling_units + raise_units)
    return told
