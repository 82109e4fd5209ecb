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
class NamespaceCap:
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
    headroom_units: int | None
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


def cap_of(
    namespace: str,
    size: GPUSize,
    *,
    sizes: Mapping[str, frozenset[GPUSize]],
    hard: Mapping[str, int],
    used: Mapping[str, int],
) -> NamespaceCap:
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
    return NamespaceCap(
        namespace,
        _most(left.get(key) for key in keys),
        _most(left.get(key) for key, name in keys.items() if name in sure) if sure else 0,
        hard_units=sum(hard[key] for key in numbered),
        used_units=sum(used.get(key, 0) for key in numbered),
        is_sure=len(sure) == len(here),
    )


def headroom_of(quota_caps: Sequence[NamespaceCap]) -> int | None:
    """Return the most that still fit in one of the namespaces; None where no number binds."""
    return _most(quota_cap.headroom_units for quota_cap in quota_caps)


def certain_headroom_of(quota_caps: Sequence[NamespaceCap]) -> int | None:
    """Return the most that surely fit in one of the namespaces; None where no number binds."""
    return _most(
        None if quota_cap.headroom_units is None else quota_cap.sure_units
        for quota_cap in quota_caps
    )


def is_full(quota_caps: Sequence[NamespaceCap]) -> bool:
    """Whether nothing fits any more, because something is there: not where nothing was granted."""
    return headroom_of(quota_caps) == 0 and any(quota_cap.used_units for quota_cap in quota_caps)


def waiting_units(quota_caps: Sequence[NamespaceCap], *, running_units: int) -> int | None:
    """Return how much of what counts does not run; None where names may be of other sizes too."""
    if not all(quota_cap.is_sure for quota_cap in quota_caps):
        return None
    return max(0, sum(quota_cap.used_units for quota_cap in quota_caps) - running_units)


def believed(quota_cap: NamespaceCap, *, read_at: datetime, is_old: bool) -> NamespaceCap:
    """Return a cap that limits nothing, marked stale, if it was read too long ago.

    Args:
        quota_cap: The cap as it was read.
        read_at: When, UTC.
        is_old: Whether that is too long ago.
    """
    if not is_old or quota_cap.headroom_units is None:
        return quota_cap
    return NamespaceCap(quota_cap.namespace, None, None, unread_since=read_at)


def stale_text(quota_caps: Sequence[NamespaceCap], *, cluster: str) -> str:
    """Return the message that stale quotas are not considered; "" when none is stale.

    Args:
        quota_caps: Caps of the project's namespaces in the cluster.
        cluster: Its slug.
    """
    old = {
        quota_cap.namespace: quota_cap.unread_since
        for quota_cap in quota_caps
        if quota_cap.unread_since is not None
    }
    if not old:
        return ""
    since = f"not read since {max(old.values()):%Y-%m-%d %H:%M} UTC"
    if len(old) == 1:
        return f"The quota of {next(iter(old))} in cluster {cluster} is not considered: {since}."
    return f"The quotas of {', '.join(old)} in cluster {cluster} are not considered: {since}."


def cluster_constraints(
    places: Mapping[str, Sequence[NamespaceCap]], *, is_limited: bool, free_units: int | None
) -> ClusterConstraints:
    """Return the clusters whose quotas admit less than a limit does.

    Args:
        places: The caps of a project, by cluster.
        is_limited: Whether there is a limit to compare with; an unlimited one is one.
        free_units: What it leaves; None when unlimited.
    """
    clusters = sorted(places.items())
    full = tuple(cluster for cluster, quota_caps in clusters if is_full(quota_caps))
    tight = (
        ConstrainedCluster(cluster, left)
        for cluster, quota_caps in clusters
        if (left := _left(quota_caps)) is not None
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
        stale=tuple(
            cluster
            for cluster, quota_caps in clusters
            if any(quota_cap.unread_since for quota_cap in quota_caps)
        ),
    )


def _left(quota_caps: Sequence[NamespaceCap]) -> int | None:
    """Return what all namespaces leave together; None where no number binds in one of them."""
    headrooms = [quota_cap.headroom_units for quota_cap in quota_caps]
    known = [headroom for headroom in headrooms if headroom is not None]
    return sum(known) if headrooms and len(known) == len(headrooms) else None


def _most(headrooms: Iterable[int | None]) -> int | None:
    """Return the largest; None when one is not bounded, or there is none."""
    known = []
    for headroom in headrooms:
        if headroom is None:
            return None
        known.append(headroom)
    return max(known, default=None)
