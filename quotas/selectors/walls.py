"""Walls of projects: the quotas of their namespaces, where admission does not ask us.

One statement; two more where such a quota was ever read. Elsewhere reservations know what waits.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.db.models.functions import JSONObject

from metering.domain.catalogue_rules import DEFAULT_RULES
from metering.domain.gpu_sizes import GPUSize
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.device_sizes import sizes_seen
from quotas.domain.resource_sizes import likely_sizes
from quotas.domain.walls import Wall, wall_of
from quotas.models import EnforcementTarget
from quotas.selectors.units_now import WITHOUT_ADMISSION
from tenants.models import NamespaceBinding

Sizes = Mapping[str, frozenset[GPUSize]]


@dataclass(frozen=True)
class PlaceWall:
    """The quota of one namespace, as last read; empty when never.

    Attributes:
        live: "hard" and "used", "burst_hard" and "burst_used", each by key.
    """

    namespace: str
    sizes: Sizes
    live: Mapping[str, Mapping[str, int]]

    def of(self, size: GPUSize, *, is_burst: bool = False) -> Wall:
        """Return what it leaves of a size to ordinary or to preemptible pods."""
        hard, used = self.live.get("hard", {}), self.live.get("used", {})
        burst = self.live.get("burst_used", {})
        if is_burst:
            hard, used = self.live.get("burst_hard", {}), burst
        else:
            # What is used is told of all pods together.
            used = {key: units - burst.get(key, 0) for key, units in used.items()}
        return wall_of(self.namespace, size, sizes=self.sizes, hard=hard, used=used)


Walls = Mapping[tuple[UUID, UUID], tuple[PlaceWall, ...]]
"""By project and cluster; every namespace the project has there."""


def walls_of_projects(project_ids: Collection[UUID], *, at: datetime) -> Walls:
    """Return the walls of projects in clusters whose admission is off.

    Args:
        project_ids: Whose namespaces.
        at: When, UTC: decides whose a namespace is.
    """
    rows = _rows(project_ids, at=at)
    if not any(live for *_, live in rows):
        return {}
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    seen = sizes_seen(at=at)
    offers: dict[UUID, Sizes] = {
        cluster_id: {
            name: likely_sizes(name, rules=rules, seen=seen.get((cluster_id, name), ()))
            for name in offered
        }
        for _, cluster_id, _, offered, _ in rows
    }
    found: dict[tuple[UUID, UUID], tuple[PlaceWall, ...]] = {}
    for project_id, cluster_id, namespace, _, live in rows:
        wall = PlaceWall(namespace, offers[cluster_id], live or {})
        key = (project_id, cluster_id)
        found[key] = (*found.get(key, ()), wall)
    return found


def _rows(project_ids: Collection[UUID], *, at: datetime) -> list[tuple[Any, ...]]:
    read = EnforcementTarget.objects.filter(
        cluster=OuterRef("cluster"), namespace=OuterRef("namespace"), checked_at__isnull=False
    ).values(
        said=JSONObject(
            hard="live_hard",
            used="live_used",
            burst_hard="live_burst",
            burst_used="live_burst_used",
        )
    )
    rows = NamespaceBinding.objects.filter(
        project__in=list(project_ids),
        valid__contains=at,
        cluster__admission_mode__in=WITHOUT_ADMISSION,
    ).annotate(live=Subquery(read))
    columns = ("project_id", "cluster_id", "namespace", "cluster__offered_resources", "live")
    return list(rows.order_by("cluster__slug", "namespace").values_list(*columns))
