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
        cap_units: What a narrower limit leaves to it at most; None when there is none.
    """

    used_units: int
    wanted_units: int = 0
    ceiling_units: int = 0
    cap_units: int | None = None


def divide_limit(limit_units: int, parts: Mapping[Place, Part]) -> dict[Place, int]:
    """Return what each place should be told next, by place.

    A division that adds up and leaves nobody full while another has spare is kept as it is, so
    that quotas do not follow every pod. No part is raised before the parts that are lowered for
    it have been seen to arrive: the ceilings never add up to more than the limit because of it.
    """
    return raise_after_lowering(limit_units, parts, settle_shares(limit_units, parts))


def settle_shares(limit_units: int, parts: Mapping[Place, Part]) -> dict[Place, int]:
    """Return what each place should be told in the end, by place, whatever it says now."""
    used = {place: part.used_units for place, part in parts.items()}
    caps = {place: part.cap_units for place, part in parts.items()}
    shares = share_units(limit_units, used, caps)
    if _may_stay(sum(shares.values()), parts):
        return {place: part.wanted_units for place, part in parts.items()}
    return shares


def share_units(
    limit_units: int,
    used: Mapping[Place, int],
    caps: Mapping[Place, int | None] | None = None,
) -> dict[Place, int]:
    """Return shares that add up to the limit, or to as much of it as the caps let through.

    While the limit covers what is used, each share does too, and the spare goes by use plus one,
    so that idle places take part too. Otherwise the whole limit goes by use. What is used beyond
    a cap counts against the limit, and is not given to another place.

    Args:
        limit_units: Zero or more.
        used: Units held, by place.
        caps: The most a place may be told; a place that is left out, or None, has no cap.
    """
    tops = {place: units for place, units in (caps or {}).items() if units is not None}
    spare_units = limit_units - sum(used.values())
    if spare_units < 0:
        return _capped(split_largest_remainder(limit_units, used), tops)
    shares = dict(used)
    hungry = {place for place in used if _has_room(place, shares, tops)}
    # Each round fills a place to its cap or gives everything away.
    while spare_units and hungry:
        extra = split_largest_remainder(spare_units, {p: used[p] + 1 for p in sorted(hungry)})
        for place, units in extra.items():
            room_units = tops.get(place, shares[place] + units) - shares[place]
            shares[place] += min(units, room_units)
        spare_units = limit_units - sum(shares.values())
        hungry = {place for place in hungry if _has_room(place, shares, tops)}
    return _capped(shares, tops)


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


def raise_after_lowering(
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


def _by_remainder(total_units: int, weights: Mapping[Place, int]) -> Sequence[Place]:
    weight_sum = sum(weights.values())
    return sorted(weights, key=lambda place: (-(total_units * weights[place] % weight_sum), place))


def _has_room(place: Place, shares: Mapping[Place, int], tops: Mapping[Place, int]) -> bool:
    return place not in tops or shares[place] < tops[place]


def _capped(shares: Mapping[Place, int], tops: Mapping[Place, int]) -> dict[Place, int]:
    return {place: min(units, tops.get(place, units)) for place, units in shares.items()}


def _may_stay(reachable_units: int, parts: Mapping[Place, Part]) -> bool:
    """Whether the last division still serves everybody as well as any other would."""
    if sum(part.wanted_units for part in parts.values()) != reachable_units:
        return False
    if any(_is_above_cap(part) for part in parts.values()):
        return False
    has_full = any(_is_full(part) for part in parts.values())
    has_spare = any(part.used_units < part.wanted_units for part in parts.values())
    return not (has_full and has_spare)


def _is_above_cap(part: Part) -> bool:
    return part.cap_units is not None and part.wanted_units > part.cap_units


def _is_full(part: Part) -> bool:
    """Whether pods fill a place that could be told more."""
    is_capped = part.cap_units is not None and part.wanted_units >= part.cap_units
    return part.used_units >= part.wanted_units and not is_capped
