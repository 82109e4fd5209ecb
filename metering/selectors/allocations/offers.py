"""Offers: what the nodes of clusters offered last, and what pods hold of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection

from metering.domain.catalogue.units import GPUSize
from metering.models import NodeRecord

LOOKBACK: Final = timedelta(hours=24)
"""An older offer does not describe the present."""

_ROOM: Final = """
WITH bound AS (
  SELECT DISTINCT cluster_id FROM tenants_namespacebinding
   WHERE project_id = %(project)s AND valid @> %(at)s),
latest AS (
  SELECT cluster_id, max(window_start) AS hour FROM metering_capacityrecord
   WHERE cluster_id IN (SELECT cluster_id FROM bound)
     AND window_start > %(since)s AND window_start <= %(at)s
   GROUP BY 1),
offered AS (
  SELECT r.cluster_id, sum(r.allocatable_units) AS units
    FROM metering_capacityrecord r
    JOIN latest l ON l.cluster_id = r.cluster_id AND l.hour = r.window_start
   WHERE r.size = %(size)s
     AND (%(group)s = '' OR split_part(r.price_group, '/', 1) = %(group)s)
   GROUP BY 1),
held AS (
  SELECT cluster_id, sum(units) AS units FROM metering_podallocation
   WHERE end_at IS NULL AND size = %(size)s
     AND cluster_id IN (SELECT cluster_id FROM bound)
     AND (%(group)s = '' OR split_part(price_group, '/', 1) = %(group)s)
   GROUP BY 1)
SELECT c.id, c.slug, l.hour,
       CASE WHEN l.hour IS NULL THEN NULL ELSE COALESCE(o.units, 0)::bigint END,
       COALESCE(h.units, 0)::bigint
  FROM bound b
  JOIN tenants_cluster c ON c.id = b.cluster_id
  LEFT JOIN latest l ON l.cluster_id = c.id
  LEFT JOIN offered o ON o.cluster_id = c.id
  LEFT JOIN held h ON h.cluster_id = c.id
 ORDER BY c.slug
"""


@dataclass(frozen=True)
class ClusterHeadroom:
    """One cluster's units of one size.

    Attributes:
        seen_at: Begin of the hour in which its nodes were seen; None when not lately.
        offered_units: What they offered then; None when not seen lately.
        held_units: What pods of any tenant hold now.
    """

    cluster_id: UUID
    slug: str
    seen_at: datetime | None
    offered_units: int | None
    held_units: int

    @property
    def free_units(self) -> int | None:
        """What no pod holds, on all nodes together; None when the offer is not known."""
        if self.offered_units is None:
            return None
        return max(0, self.offered_units - self.held_units)


def cluster_headroom(
    *, project_id: UUID, size: GPUSize, model_group: str, at: datetime
) -> tuple[ClusterHeadroom, ...]:
    """Return the clusters in which a project has a namespace, by slug; one statement.

    Args:
        project_id: The project of the namespaces.
        size: Of which size.
        model_group: Of which model; "" for every one.
        at: When, UTC.
    """
    given = {
        "project": project_id,
        "size": size.value,
        "group": model_group,
        "at": at,
        "since": at - LOOKBACK,
    }
    with connection.cursor() as cursor:
        cursor.execute(_ROOM, given)
        return tuple(ClusterHeadroom(*row) for row in cursor.fetchall())


@dataclass(frozen=True)
class OfferingNode:
    """One node as it is now.

    Attributes:
        labels: The raw labels that are kept of it: those of its GPUs.
        units: Raw GPU resource names to allocatable units.
    """

    node: str
    labels: Mapping[str, str]
    units: Mapping[str, int]


def nodes_offering(cluster_id: UUID) -> tuple[OfferingNode, ...]:
    """Return the nodes of a cluster that offer any GPU, by name, in one statement.

    A node that is not ready or takes no pods now is among them: it may again in a minute.
    """
    rows = NodeRecord.objects.filter(cluster_id=cluster_id, end_at=None).order_by("node")
    return tuple(
        OfferingNode(node=node, labels=labels, units=units)
        for node, labels, units in rows.values_list("node", "labels", "allocatable")
        if units
    )
