"""Walls: what the quotas of a project's namespaces leave, as the cluster itself counts it.

A cluster counts every pod that exists, also one that waits for a node. Where nobody asks us before
a pod is made, only running pods are known; the wall, as it was last read, then knows better.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.resource_quota import OPEN_UNITS, keys_of


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
    """

    namespace: str
    room_units: int | None
    sure_units: int | None
    hard_units: int = 0
    used_units: int = 0
    is_sure: bool = True


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
        hard: What the quota says, by key; what has no key there is not held back.
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


def _most(rooms: Iterable[int | None]) -> int | None:
    """Return the largest; None when one is not bounded, or there is none."""
    known = []
    for room in rooms:
        if room is None:
            return None
        known.append(room)
    return max(known, default=None)
