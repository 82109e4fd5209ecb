"""Walls of projects: the quotas of their namespaces, where admission does not ask us.

One statement; two more where such a quota was ever read. Elsewhere reservations know what waits.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.db.models.functions import JSONObject

from metering.domain.catalogue_rules import DEFAULT_RULES
from metering.domain.gpu_sizes import GPUSize
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.device_sizes import sizes_seen
from quotas.domain.resource_sizes import likely_sizes
from quotas.domain.walls import Wall, believed, wall_of
from quotas.models import EnforcementTarget
from quotas.selectors.enforcement import DRIFT_CHECK_EVERY
from quotas.selectors.units_now import WITHOUT_ADMISSION
from tenants.models import NamespaceBinding

BELIEVED_FOR: Final = DRIFT_CHECK_EVERY * 5 // 2
"""25 minutes: one reading may fail. After that pods have come and gone that nobody has seen."""
Sizes = Mapping[str, frozenset[GPUSize]]


@dataclass(frozen=True)
class PlaceWall:
    """The quota of one namespace, as last read; empty when never.

    Attributes:
        live: "hard" and "used", "burst_hard" and "burst_used", each by key.
        read_at: When, UTC; None when never.
        age: How long ago that was; zero when never.
    """

    namespace: str
    sizes: Sizes
    live: Mapping[str, Mapping[str, int]]
    read_at: datetime | None = None
    age: timedelta = timedelta(0)

    def of(self, size: GPUSize, *, is_burst: bool = False) -> Wall:
        """Return what it leaves of a size to ordinary or to preemptible pods.

        One that was not read for long leaves whatever is asked.
        """
        hard, used = self.live.get("hard", {}), self.live.get("used", {})
        burst = self.live.get("burst_used", {})
        if is_burst:
            hard, used = self.live.get("burst_hard", {}), burst
        else:
            # What is used is told of all pods together.
            used = {key: units - burst.get(key, 0) for key, units in used.items()}
        wall = wall_of(self.namespace, size, sizes=self.sizes, hard=hard, used=used)
        if self.read_at is None:
            return wall
        return believed(wall, read_at=self.read_at, is_old=self.age > BELIEVED_FOR)


Walls = Mapping[tuple[UUID, UUID], tuple[PlaceWall, ...]]
"""By project and cluster; every namespace the project has there."""


def walls_of_projects(project_ids: Collection[UUID], *, at: datetime) -> Walls:
    """Return the walls of projects in clusters whose admission is off.

    Args:
        project_ids: Whose namespaces.
        at: When, UTC: decides whose a namespace is, and how old a reading is.
    """
    rows = _rows(project_ids, at=at)
    if not any(live for *_, live, _ in rows):
        return {}
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    seen = sizes_seen(at=at)
    offers: dict[UUID, Sizes] = {
        cluster_id: {
            name: likely_sizes(name, rules=rules, seen=seen.get((cluster_id, name), ()))
            for name in offered
        }
        for _, cluster_id, _, offered, _, _ in rows
    }
    found: dict[tuple[UUID, UUID], tuple[PlaceWall, ...]] = {}
    for project_id, cluster_id, namespace, _, live, read_at in rows:
        age = timedelta(0) if read_at is None else at - read_at
        wall = PlaceWall(namespace, offers[cluster_id], live or {}, read_at, age)
        key = (project_id, cluster_id)
        found[key] = (*found.get(key, ()), wall)
    return found


def _rows(project_ids: Collection[UUID], *, at: datetime) -> list[tuple[Any, ...]]:
    read = EnforcementTarget.objects.filter(
        cluster=OuterRef("cluster"), namespace=OuterRef("namespace"), checked_at__isnull=False
    )
    said = JSONObject(
        hard="live_hard",
        used="live_used",
        burst_hard="live_burst",
        burst_used="live_burst_used",
    )
    rows = NamespaceBinding.objects.filter(
        project__in=list(project_ids),
        valid__contains=at,
        cluster__admission_mode__in=WITHOUT_ADMISSION,
    ).annotate(live=Subquery(read.values(said=said)), read_at=Subquery(read.values("checked_at")))
    columns = ("project_id", "cluster_id", "namespace", "cluster__offered_resources")
    ordered = rows.order_by("cluster__slug", "namespace")
    return list(ordered.values_list(*columns, "live", "read_at"))
