"""Device sharing: which projects were on one device, or close to it, with which peer and when."""

import base64
import binascii
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from metering.domain.devices.attribution import CoTenancyEvidence, Peer
from tenants.domain.archives import ArchivedTable
from tenants.models import Cluster, Project
from tenants.selectors.archives import require_rows

# Times of one project on one device or node are merged first, so consecutive pods are one interval
# and the join is by equality. An open interval lasts until the requested end. A cursor continues
# after a pair's hash, because its holder may not see the other's id.
_INTERVALS = """
WITH span AS (SELECT tstzrange(%(begin_at)s, %(end_at)s) AS asked),
shared AS MATERIALIZED (
  SELECT a.cluster_id, a.node, a.resource AS place, a.project_id,
         min(a.sharing_mode) AS mode,
         max(substring(a.price_group FROM '/1of([0-9]+)')::int) AS pods,
         range_agg(tstzrange(a.begin_at, a.end_at) * span.asked) AS times
    FROM metering_podallocation a CROSS JOIN span
   WHERE a.sharing_mode IN ('time-slicing', 'mps') AND a.project_id IS NOT NULL
     AND (%(cluster)s::uuid IS NULL OR a.cluster_id = %(cluster)s::uuid)
     AND a.begin_at < %(end_at)s AND (a.end_at IS NULL OR a.end_at > %(begin_at)s)
   GROUP BY 1, 2, 3, 4
),
offered AS MATERIALIZED (
  SELECT k.cluster_id, k.node, k.resource AS place, max(k.allocatable_units) AS units
    FROM metering_capacityrecord k
   WHERE k.window_start > %(begin_at)s - interval '1 hour' AND k.window_start < %(end_at)s
     AND k.resource IN (SELECT place FROM shared)
   GROUP BY 1, 2, 3
),
instances AS MATERIALIZED (
  SELECT d.cluster_id, d.node, d.uuid AS place, d.project_id,
         range_agg(tstzrange(d.begin_at, d.end_at) * span.asked) AS times
    FROM metering_deviceusage d CROSS JOIN span
   WHERE d.attribution = 'exclusive' AND d.instance_id <> ''
     AND (%(cluster)s::uuid IS NULL OR d.cluster_id = %(cluster)s::uuid)
     AND d.window_start > %(begin_at)s - interval '1 hour' AND d.window_start < %(end_at)s
   GROUP BY 1, 2, 3, 4
),
met AS (
  SELECT h.cluster_id, h.node, h.place, h.project_id, o.project_id AS other_id,
         encode(sha256((h.project_id::text || o.project_id::text)::bytea), 'hex') AS pair, h.mode,
         CASE WHEN k.units <= h.pods THEN 'same_device' ELSE 'same_node' END AS evidence,
         unnest(h.times * o.times) AS time
    FROM shared h
    JOIN shared o USING (cluster_id, node, place)
    LEFT JOIN offered k USING (cluster_id, node, place)
   WHERE o.project_id <> h.project_id AND (%(everybody)s OR h.project_id = ANY(%(projects)s))
  UNION ALL
  SELECT h.cluster_id, h.node, h.place, h.project_id, o.project_id,
         encode(sha256((h.project_id::text || o.project_id::text)::bytea), 'hex'), 'mig',
         'same_gpu_instances', unnest(h.times * o.times)
    FROM instances h
    JOIN instances o USING (cluster_id, node, place)
   WHERE o.project_id <> h.project_id AND (%(everybody)s OR h.project_id = ANY(%(projects)s))
)
SELECT lower(m.time), upper(m.time), m.cluster_id, m.pair, c.slug, m.node, m.place, m.mode,
       m.evidence, p.id, p.slug, g.id, g.slug, q.id, q.slug, r.id, r.slug
  FROM met m
  JOIN tenants_cluster c ON c.id = m.cluster_id
  JOIN tenants_project p ON p.id = m.project_id
  JOIN tenants_organization g ON g.id = p.organization_id
  JOIN tenants_project q ON q.id = m.other_id
  JOIN tenants_organization r ON r.id = q.organization_id
 WHERE (%(organization)s::uuid IS NULL OR g.id = %(organization)s::uuid)
   AND (%(after_time)s::timestamptz IS NULL
        OR (lower(m.time), m.cluster_id, m.node, m.place, m.pair)
           > (%(after_time)s::timestamptz, %(after_cluster)s::uuid, %(after_node)s,
              %(after_place)s, %(after_pair)s))
 ORDER BY lower(m.time), m.cluster_id, m.node, m.place, m.pair
 LIMIT %(limit)s
"""
_AFTER = ("time", "cluster", "node", "place", "pair")


@dataclass(frozen=True)
class CoTenancyInterval:
    """One interval in which a project and a peer shared a device or a node.

    Attributes:
        place: The resource, such as "nvidia.com/gpu"; of MIG instances the GPU's uuid.
        sharing_mode: "time-slicing", "mps" or "mig".
        other_project: Slug; "" where the caller may not read it.
        other_organization: Likewise.
        peer: The kind of peer where its name is hidden.
        mark: The cursor after this interval.
    """

    begin_at: datetime
    end_at: datetime
    cluster: str
    node: str
    place: str
    sharing_mode: str
    evidence: CoTenancyEvidence
    organization_id: UUID
    organization: str
    project_id: UUID
    project: str
    peer: Peer
    other_organization: str
    other_project: str
    mark: str


@dataclass(frozen=True)
class ReadableIntervals:
    """The intervals and names a caller may read.

    Attributes:
        projects: Ids; None for all.
    """

    projects: Collection[UUID] | None

    def knows(self, project_id: UUID) -> bool:
        """Whether a project may be named."""
        return self.projects is None or project_id in self.projects


def reach_of(projects: QuerySet[Project] | None) -> ReadableIntervals:
    """Return what a reader of these projects may see, in one statement; None sees all."""
    ids = None if projects is None else frozenset(projects.values_list("pk", flat=True))
    return ReadableIntervals(ids)


def cluster_of_report(slug: str, *, projects: QuerySet[Project] | None) -> UUID | None:
    """Return the id of a cluster by its slug; None for one that is not visible or does not exist.

    Args:
        slug: As in the report.
        projects: Only a cluster on which one of them has, or had, a namespace; None for any.
    """
    rows = Cluster.objects.filter(slug=slug)
    if projects is not None:
        rows = rows.filter(bindings__project__in=projects.values("pk"))
    found: UUID | None = rows.values_list("pk", flat=True).first()
    return found


def device_sharing(  # noqa: PLR0913 - A report's questions; all are keyword only.
    *,
    begin_at: datetime,
    end_at: datetime,
    reach: ReadableIntervals,
    limit: int,
    organization_id: UUID | None = None,
    cluster_id: UUID | None = None,
    after: str = "",
) -> tuple[CoTenancyInterval, ...]:
    """Return the intervals of shared devices, oldest first; two statements.

    Args:
        begin_at: From when, included.
        end_at: Until when, excluded; not in the future.
        reach: The projects whose intervals are returned.
        limit: At most so many.
        organization_id: Only this organization's; None for all.
        cluster_id: Only in this cluster; None for all.
        after: The cursor of the last interval returned; "" for the beginning.

    Raises:
        ValueError: The cursor is malformed.
        MonthArchivedError: Some of these hours are in an archive.
    """
    last = _read_cursor(after)
    require_rows(ArchivedTable.DEVICES, begin_at=begin_at, end_at=end_at)
    given: dict[str, Any] = {
        "begin_at": begin_at,
        "end_at": end_at,
        "everybody": reach.projects is None,
        "projects": list(reach.projects or ()),
        "organization": organization_id,
        "cluster": cluster_id,
        "limit": limit,
        **{f"after_{name}": value for name, value in zip(_AFTER, last, strict=True)},
    }
    with connection.cursor() as cursor:
        cursor.execute(_INTERVALS, given)
        return tuple(_interval(row, reach=reach) for row in cursor.fetchall())


def _interval(row: tuple[Any, ...], *, reach: ReadableIntervals) -> CoTenancyInterval:
    begin_at, end_at, cluster_id, pair, cluster, node, place, mode, evidence, *people = row
    project_id, project, organization_id, organization, *other = people
    other_id, other_project, other_organization_id, other_organization = other
    is_known = reach.knows(other_id)
    is_own = other_organization_id == organization_id
    key = (begin_at.isoformat(), str(cluster_id), node, place, pair)
    return CoTenancyInterval(
        begin_at=begin_at,
        end_at=end_at,
        cluster=cluster,
        node=node,
        place=place,
        sharing_mode=mode,
        evidence=CoTenancyEvidence(evidence),
        organization_id=organization_id,
        organization=organization,
        project_id=project_id,
        project=project,
        peer=Peer.OTHER_PROJECT if is_own else Peer.OTHER_TENANT,
        other_organization=other_organization if is_known or is_own else "",
        other_project=other_project if is_known else "",
        mark=base64.urlsafe_b64encode(json.dumps(key).encode()).decode(),
    )


def _read_cursor(text: str) -> tuple[str | None, ...]:
    """Return where a list continues; only None values for its beginning.

    Raises:
        ValueError: The cursor is malformed.
    """
    if not text:
        return (None,) * len(_AFTER)
    try:
        found = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (binascii.Error, UnicodeError) as error:
        raise ValueError("The cursor is malformed.") from error
    if not isinstance(found, list) or [type(part) for part in found] != [str] * len(_AFTER):
        raise ValueError("The cursor has other parts.")
    datetime.fromisoformat(found[0])
    UUID(found[1])
    return tuple(found)
