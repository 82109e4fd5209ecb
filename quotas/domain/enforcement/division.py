"""Division: how one limit is spread over several namespaces, which Kubernetes cannot sum.

A ResourceQuota holds in one namespace only. Where nothing else counts, the whole limit in each
namespace of a project would admit it several times over, so the limit is divided: what is held
stays covered first, and the spare follows use by largest remainder. The parts never add up to more
than the limit, and move to the namespace whose pods were refused. Where admission counts every pod
of every namespace, each gets the whole limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, order=True)
class ClusterNamespace:
    """One namespace of one cluster."""

    cluster: str
    namespace: str


@dataclass(frozen=True, order=True)
class AskedUnits:
    """Pods that a namespace's quota refuses.

    Attributes:
        asked_at: When the first was refused, UTC.
        pod_units: Units of each, 1 or more.
        pods: How many.
    """

    asked_at: datetime
    pod_units: int
    pods: int


@dataclass(frozen=True)
class NamespaceShare:
    """One namespace's part of a limit.

    Attributes:
        used_units: What pods use there now.
        wanted_units: The part last planned for the namespace.
        ceiling_units: The largest value the namespace's quota may still have in the cluster: a
            smaller value counts only once it was read back.
        cap_units: The most a narrower limit leaves to it; None without one.
        asked: Pods that it lacks because of its quota.
    """

    used_units: int
    wanted_units: int = 0
    ceiling_units: int = 0
    cap_units: int | None = None
    asked: tuple[AskedUnits, ...] = ()


def divide_limit(
    limit_units: int, parts: Mapping[ClusterNamespace, NamespaceShare]
) -> dict[ClusterNamespace, int]:
    """Return the next part of each namespace.

    A division is kept while it adds up and no namespace is full while another has spare units, so
    that quotas do not change with every pod. A part is raised only after the parts lowered for it
    were read back, so a raise never lifts the sum of the ceilings above the limit.
    """
    return raise_after_lowering(limit_units, parts, settle_shares(limit_units, parts))


def settle_shares(
    limit_units: int, parts: Mapping[ClusterNamespace, NamespaceShare]
) -> dict[ClusterNamespace, int]:
    """Return the final part of each namespace, whatever its quota is now.

    Spare units go to pods that were refused first, and only then by use.
    """
    needed = cover_asked(limit_units, parts)
    caps = {place: part.cap_units for place, part in parts.items()}
    shares = share_units(
        limit_units, {place: part.used_units for place, part in parts.items()}, caps, needed
    )
    if _may_stay(sum(shares.values()), parts, needed):
        return {place: part.wanted_units for place, part in parts.items()}
    return shares


def cover_asked(
    limit_units: int, parts: Mapping[ClusterNamespace, NamespaceShare]
) -> dict[ClusterNamespace, int]:
    """Return what each namespace uses, and needs for refused pods that fit into spare units.

    Those that were refused first come first. What does not fit now is left out, so that others may
    use the units meanwhile; and no pod gets a part of its units.
    """
    needed = {place: part.used_units for place, part in parts.items()}
    spare_units = limit_units - sum(needed.values())
    asked = sorted((one, place) for place, part in parts.items() for one in part.asked)
    for one, place in asked:
        cap_units = parts[place].cap_units
        left_units = spare_units
        if cap_units is not None:
            left_units = min(spare_units, cap_units - needed[place])
        pods = min(one.pods, max(0, left_units) // one.pod_units)
        needed[place] += pods * one.pod_units
        spare_units -= pods * one.pod_units
    return needed


def whole_shares(
    limit_units: int, parts: Mapping[ClusterNamespace, NamespaceShare]
) -> dict[ClusterNamespace, int]:
    """Return the whole limit for each namespace, as far as narrower limits leave it."""
    return {
        place: limit_units if part.cap_units is None else min(limit_units, part.cap_units)
        for place, part in parts.items()
    }


def share_units(
    limit_units: int,
    used: Mapping[ClusterNamespace, int],
    caps: Mapping[ClusterNamespace, int | None] | None = None,
    needed: Mapping[ClusterNamespace, int] | None = None,
) -> dict[ClusterNamespace, int]:
    """Return shares that add up to the limit, or to as much of it as the caps let through.

    While the limit covers what is used, each share does too, and the spare goes by use plus one, so
    that idle namespaces get a share too. Otherwise the whole limit is divided by use. Use beyond a
    cap counts against the limit, and goes to no other namespace.

    Args:
        limit_units: Zero or more.
        used: Units in use, by namespace.
        caps: The largest part of a namespace; one that is missing or None has no cap.
        needed: What each share covers before the spare is divided, at least what is used; together
            no more than the limit unless that is exceeded already. None for what is used.
    """
    tops = {place: units for place, units in (caps or {}).items() if units is not None}
    spare_units = limit_units - sum(used.values())
    if spare_units < 0:
        return _capped(split_largest_remainder(limit_units, used), tops)
    shares = dict(used if needed is None else needed)
    spare_units = limit_units - sum(shares.values())
    hungry = {place for place in used if _has_headroom(place, shares, tops)}
    # Each iteration fills a namespace to its cap or distributes everything.
    while spare_units and hungry:
        extra = split_largest_remainder(spare_units, {p: used[p] + 1 for p in sorted(hungry)})
        for place, units in extra.items():
            headroom_units = tops.get(place, shares[place] + units) - shares[place]
            shares[place] += min(units, headroom_units)
        spare_units = limit_units - sum(shares.values())
        hungry = {place for place in hungry if _has_headroom(place, shares, tops)}
    return _capped(shares, tops)


def split_largest_remainder(
    total_units: int, weights: Mapping[ClusterNamespace, int]
) -> dict[ClusterNamespace, int]:
    """Return whole parts of a total in proportion to weights; they add up to the total.

    What is left after rounding down goes to the largest remainders, in order of name where they are
    equal.

    Args:
        total_units: Zero or more.
        weights: Zero or more each; at least one is positive unless there is no namespace.
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
    limit_units: int,
    parts: Mapping[ClusterNamespace, NamespaceShare],
    wanted: Mapping[ClusterNamespace, int],
) -> dict[ClusterNamespace, int]:
    """Return the wanted parts, raised only as far as the sum of all ceilings allows."""
    headroom_units = max(0, limit_units - sum(part.ceiling_units for part in parts.values()))
    ceilings = {}
    for place in sorted(parts):
        ceiling_units = parts[place].ceiling_units
        raise_units = min(headroom_units, max(0, wanted[place] - ceiling_units))
        headroom_units -= raise_units
        ceilings[place] = min(wanted[place], ceiling_units + raise_units)
    return ceilings


def _by_remainder(
    total_units: int, weights: Mapping[ClusterNamespace, int]
) -> Sequence[ClusterNamespace]:
    weight_sum = sum(weights.values())
    return sorted(weights, key=lambda place: (-(total_units * weights[place] % weight_sum), place))


def _has_headroom(
    place: ClusterNamespace,
    shares: Mapping[ClusterNamespace, int],
    tops: Mapping[ClusterNamespace, int],
) -> bool:
    return place not in tops or shares[place] < tops[place]


def _capped(
    shares: Mapping[ClusterNamespace, int], tops: Mapping[ClusterNamespace, int]
) -> dict[ClusterNamespace, int]:
    return {place: min(units, tops.get(place, units)) for place, units in shares.items()}


def _may_stay(
    reachable_units: int,
    parts: Mapping[ClusterNamespace, NamespaceShare],
    needed: Mapping[ClusterNamespace, int],
) -> bool:
    """Whether the last division still serves everybody as well as any other would."""
    if any(part.wanted_units < needed[place] > part.used_units for place, part in parts.items()):
        return False
    if sum(part.wanted_units for part in parts.values()) != reachable_units:
        return False
    if any(_is_above_cap(part) for part in parts.values()):
        return False
    has_full = any(_is_full(part) for part in parts.values())
    has_spare = any(part.used_units < part.wanted_units for part in parts.values())
    return not (has_full and has_spare)


def _is_above_cap(part: NamespaceShare) -> bool:
    return part.cap_units is not None and part.wanted_units > part.cap_units


def _is_full(part: NamespaceShare) -> bool:
    """Whether pods fill a namespace whose part could be raised."""
    is_capped = part.cap_units is not None and part.wanted_units >= part.cap_units
    return part.used_units >= part.wanted_units and not is_capped
