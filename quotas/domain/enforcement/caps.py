"""Caps: what the ResourceQuotas of a project's namespaces leave, by the cluster's own count.

A cluster counts every pod that exists, also one that waits for a node. Without the admission
webhook this service knows running pods only; the last read quota status is then more exact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.resource_quota import OPEN_UNITS, keys_of


@dataclass(frozen=True)
class Wall:
    """One namespace's quota, for one size.

    A pod asks for one resource, so the roomiest of those the size comes under decides.

    Attributes:
        room_units: The most that still fit; None where no number binds, or none was read.
        sure_units: Like `room_units`, of resources alone that can be of no other size; 0 when
            there is none.
        hard_units: Of all resources of the size that have a number.
        used_units: As above: by pods that run and pods that wait.
        is_sure: Whether every one of them can be of no other size.
        unread_since: When it was last read, where that is so long ago that it bounds nothing; UTC.
    """

    namespace: str
    room_units: int | None
    sure_units: int | None
    hard_units: int = 0
    used_units: int = 0
    is_sure: bool = True
    unread_since: datetime | None = None


@dataclass(frozen=True)
class ConstrainedCluster:
    """A cluster, and how much its quotas leave there in all namespaces of a project together."""

    cluster: str
    free_units: int


@dataclass(frozen=True)
class ClusterConstraints:
    """Clusters whose own quotas admit less than a limit would; slugs, sorted.

    Attributes:
        full: Nothing more fits.
        constrained: Less fits than the limit leaves.
        stale: Some quota there was read too long ago to be used.
    """

    full: tuple[str, ...] = ()
    constrained: tuple[ConstrainedCluster, ...] = ()
    stale: tuple[str, ...] = ()


def wall_of(
    namespace: str,
    size: GPUSize,
    *,
    sizes: Mapping[str, frozenset[GPUSize]],
    hard: Mapping[str, int],
    used: Mapping[str, int],
) -> Wall:
    """Return what a namespace's quota leaves of a size.

    Args:
        namespace: Its name.
        size: Which size.
        sizes: What each resource the cluster offers may be, by its name.
        hard: Values of the quota by key; a resource without a key is not capped.
        used: What counts against it, by key.
    """
    here = {name: found for name, found in sizes.items() if size in found}
    sure = {name for name, found in here.items() if len(found) == 1}
    keys = {key: name for name in here for key in keys_of(name)}
    numbered = [key for key in keys if hard.get(key, OPEN_UNITS) < OPEN_UNITS]
    left = {key: max(0, hard[key] - used.get(key, 0)) for key in numbered}
    return Wall(
        namespace,
        _most(left.get(key) for key in keys),
        _most(left.get(key) for key, name in keys.items() if name in sure) if sure else 0,
        hard_units=sum(hard[key] for key in numbered),
        used_units=sum(used.get(key, 0) for key in numbered),
        is_sure=len(sure) == len(here),
    )


def room_of(walls: Sequence[Wall]) -> int | None:
    """Return the most that still fit in one of the namespaces; None where no number binds."""
    return _most(wall.room_units for wall in walls)


def sure_room_of(walls: Sequence[Wall]) -> int | None:
    """Return the most that surely fit in one of the namespaces; None where no number binds."""
    return _most(None if wall.room_units is None else wall.sure_units for wall in walls)


def is_full(walls: Sequence[Wall]) -> bool:
    """Whether nothing fits any more, because something is there: not where nothing was granted."""
    return room_of(walls) == 0 and any(wall.used_units for wall in walls)


def waiting_units(walls: Sequence[Wall], *, running_units: int) -> int | None:
    """Return how much of what counts does not run; None where names may be of other sizes too."""
    if not all(wall.is_sure for wall in walls):
        return None
    return max(0, sum(wall.used_units for wall in walls) - running_units)


def believed(wall: Wall, *, read_at: datetime, is_old: bool) -> Wall:
    """Return a cap that limits nothing, marked stale, if it was read too long ago.

    Args:
        wall: The cap as it was read.
        read_at: When, UTC.
        is_old: Whether that is too long ago.
    """
    if not is_old or wall.room_units is None:
        return wall
    return Wall(wall.namespace, None, None, unread_since=read_at)


def unread_words(walls: Sequence[Wall], *, cluster: str) -> str:
    """Return the message that stale quotas are not considered; "" when none is stale.

    Args:
        walls: Caps of the project's namespaces in the cluster.
        cluster: Its slug.
    """
    old = {wall.namespace: wall.unread_since for wall in walls if wall.unread_since is not None}
    if not old:
        return ""
    since = f"not read since {max(old.values()):%Y-%m-%d %H:%M} UTC"
    if len(old) == 1:
        return f"The quota of {next(iter(old))} in cluster {cluster} is not considered: {since}."
    return f"The quotas of {', '.join(old)} in cluster {cluster} are not considered: {since}."


def cluster_constraints(
    places: Mapping[str, Sequence[Wall]], *, is_limited: bool, free_units: int | None
) -> ClusterConstraints:
    """Return the clusters whose quotas admit less than a limit does.

    Args:
        places: The caps of a project, by cluster.
        is_limited: Whether there is a limit to compare with; an unlimited one is one.
        free_units: What it leaves; None when unlimited.
    """
    told = sorted(places.items())
    full = tuple(cluster for cluster, walls in told if is_full(walls))
    tight = (
        ConstrainedCluster(cluster, left)
        for cluster, walls in told
        if (left := _left(walls)) is not None
    )
    return ClusterConstraints(
        full=full,
        constrained=tuple(
            place
            for place in tight
            if is_limited
            and place.cluster not in full
            and (free_units is None or place.free_units < free_units)
        ),
        stale=tuple(cluster for cluster, walls in told if any(wall.unread_since for wall in walls)),
    )


def _left(walls: Sequence[Wall]) -> int | None:
    """Return what all namespaces leave together; None where no number binds in one of them."""
    rooms = [wall.room_units for wall in walls]
    known = [room for room in rooms if room is not None]
    return sum(known) if rooms and len(known) == len(rooms) else None


def _most(rooms: Iterable[int | None]) -> int | None:
    """Return the largest; None when one is not bounded, or there is none."""
    known = []
    for room in rooms:
        if room is None:
            return None
        known.append(room)
    return max(known, default=None)
