"""Open exceptions: how many there are, grouped by cause, and what usage they hold back."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum
from django.db.models.functions import Coalesce

from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.corrections.correction import DisputedUsage
from metering.domain.corrections.exceptions import (
    BLOCKING_KINDS,
    SIDED_KINDS,
    ExceptionKind,
    is_machines_resolution,
    pod_subject,
)
from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
)
from tenants.models import NamespaceBinding


@dataclass(frozen=True)
class ExceptionTotal:
    """Exceptions that are open, of one kind; "" for those of any."""

    kind: str
    exceptions: int
    held_unit_seconds: int


def open_exception_totals(*, begin_at: datetime, end_at: datetime) -> tuple[ExceptionTotal, ...]:
    """Return what is open about the windows that start in [begin_at, end_at), by kind."""
    rows = (
        MeteringException.objects.filter(
            state=ExceptionState.OPEN, window_start__gte=begin_at, window_start__lt=end_at
        )
        .order_by("kind")
        .values_list("kind")
        .annotate(exceptions=Count("id"), held=Coalesce(Sum("held_unit_seconds"), 0))
    )
    return tuple(ExceptionTotal(kind, count, int(held)) for kind, count, held in rows)


def open_exceptions_of_organizations(
    spans: Mapping[UUID, tuple[datetime, datetime]],
) -> dict[UUID, ExceptionTotal]:
    """Return what is open about namespaces of organizations, each in its hours; one statement.

    The held unit-seconds leave out unknown devices, whose units no catalogue rule knows.

    Args:
        spans: Organization to its [begin, end). One with nothing open is left out.
    """
    given: dict[str, Any] = {
        "ids": list(spans),
        "begins": [begin for begin, _ in spans.values()],
        "ends": [end for _, end in spans.values()],
    }
    with connection.cursor() as cursor:
        cursor.execute(_OF_ORGANIZATIONS, given)
        return {key: ExceptionTotal("", count, held) for key, count, held in cursor.fetchall()}


def of_organization(rows: QuerySet[MeteringException], slug: str) -> QuerySet[MeteringException]:
    """Return those about namespaces that were bound to an organization in their hour."""
    bound = NamespaceBinding.objects.filter(
        cluster=OuterRef("cluster"),
        namespace=OuterRef("namespace"),
        valid__contains=OuterRef("window_start"),
        project__organization__slug=slug,
    )
    return rows.filter(Exists(bound))


_OF_ORGANIZATIONS: Final = """
SELECT s.id, count(*),
       coalesce(sum(e.held_unit_seconds) FILTER (WHERE e.kind <> 'unknown_device'), 0)::bigint
  FROM metering_meteringexception e
  JOIN tenants_namespacebinding b
    ON b.cluster_id = e.cluster_id AND b.namespace = e.namespace AND b.valid @> e.window_start
  JOIN tenants_project p ON p.id = b.project_id
  JOIN unnest(%(ids)s::uuid[], %(begins)s::timestamptz[], %(ends)s::timestamptz[])
       AS s(id, begin_at, end_at)
    ON s.id = p.organization_id AND e.window_start >= s.begin_at AND e.window_start < s.end_at
 WHERE e.state = 'open'
 GROUP BY 1
"""
GROUPS_MAX: Final = 200
"""More causes than these are too many to read at once; those that stop an hour come first."""

# A pod's exception takes its size from the allocation ledger. What a device is about is its
# resource, what a node is about is the node; all else is about a namespace or the whole hour.
_GROUPS: Final = """
WITH alike AS (
  SELECT e.id, e.kind, e.cluster_id, e.namespace, e.window_start, e.held_unit_seconds,
         coalesce(e.details->>'cause', '') AS cause,
         CASE WHEN e.kind = ANY(%(of_device)s) THEN coalesce(e.details->>'resource', '')
              ELSE '' END AS resource,
         CASE WHEN e.kind = ANY(%(of_node)s) THEN coalesce(e.details->>'node', e.subject)
              ELSE '' END AS node,
         CASE WHEN e.namespace = '' THEN '' ELSE split_part(e.subject, ' ', 1) END AS pod_uid,
         coalesce(a.size, '') AS size,
         greatest(coalesce((e.details->>'units')::bigint, 1), 1) AS units
    FROM metering_meteringexception e
    LEFT JOIN metering_podallocation a
      ON a.cluster_id = e.cluster_id AND a.resource = e.details->>'resource'
     AND a.pod_uid = split_part(e.subject, ' ', 1)
   WHERE e.state = 'open'
), parts AS (
  SELECT kind, cause, cluster_id, namespace, resource, node, size,
         sum(held_unit_seconds)::bigint AS held_unit_seconds,
         sum(held_unit_seconds / units)::bigint AS held_pod_seconds
    FROM alike
   GROUP BY kind, cause, cluster_id, namespace, resource, node, size
), reported AS (
  SELECT kind, cause, cluster_id, namespace, resource, node,
         jsonb_agg(jsonb_build_array(size, held_unit_seconds, held_pod_seconds) ORDER BY size)
           AS held
    FROM parts
   GROUP BY kind, cause, cluster_id, namespace, resource, node
), counted AS (
  SELECT kind, cause, cluster_id, namespace, resource, node,
         count(*) AS exceptions,
         count(DISTINCT pod_uid) FILTER (WHERE pod_uid <> '') AS pods,
         min(window_start) AS first_start, max(window_start) AS last_start,
         (array_agg(id ORDER BY window_start, id))[1] AS oldest_id,
         sum(held_unit_seconds) AS held_in_all
    FROM alike
   GROUP BY kind, cause, cluster_id, namespace, resource, node
)
SELECT n.kind, n.cause, n.cluster_id, c.name, n.namespace, n.resource, n.node, n.exceptions,
       n.pods, n.first_start, n.last_start, n.oldest_id, t.held::text
  FROM counted n
  JOIN reported t USING (kind, cause, cluster_id, namespace, resource, node)
  JOIN tenants_cluster c ON c.id = n.cluster_id
 ORDER BY n.kind = ANY(%(blocking)s) DESC, n.exceptions DESC, n.kind, c.slug, n.namespace,
          n.resource, n.node, n.cause
 LIMIT %(limit)s
"""
_SIZES: Final = ("small", "medium", "large")


@dataclass(frozen=True)
class HeldPart:
    """What is held of one size.

    Attributes:
        size: small, medium, large; "" while no rule gives one.
        unit_seconds: Units x seconds that are not billed.
        pod_seconds: The time alone, whatever number of units was requested.
    """

    size: str
    unit_seconds: int
    pod_seconds: int


@dataclass(frozen=True)
class AlikeExceptions:
    """Open exceptions of one cause about one thing in one cluster.

    Attributes:
        cause: The cause in the details, such as "unknown_resource"; "" where the kind is enough.
        cluster: The cluster's name.
        namespace: The namespace of the pods; "" for a node or a whole hour.
        resource: The device it is about, as Kubernetes names it; "" for any.
        node: The node it is about; "" for any.
        exceptions: How many hours and pods wait.
        pods: How many different pods they are about; 0 for none.
        first_start: The first hour.
        last_start: The last hour.
        oldest_id: The exception of the first hour: what is repaired from there on settles all.
        held: What is not billed, by size.
    """

    kind: ExceptionKind
    cause: str
    cluster_id: UUID
    cluster: str
    namespace: str
    resource: str
    node: str
    exceptions: int
    pods: int
    first_start: datetime
    last_start: datetime
    oldest_id: int
    held: tuple[HeldPart, ...]

    @property
    def is_counted_in_units(self) -> bool:
        """Whether its amounts are GPUs or parts of them; unknown for an unknown resource."""
        return self.cause != UnsizedCause.UNKNOWN_RESOURCE

    @property
    def is_blocking(self) -> bool:
        """Whether it keeps its hours from being sealed."""
        return self.kind in BLOCKING_KINDS


def open_exception_groups(*, limit: int = GROUPS_MAX) -> tuple[AlikeExceptions, ...]:
    """Return what is open, alike by alike: what stops an hour first, then by how many there are.

    Args:
        limit: How many groups at most.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _GROUPS,
            {
                "of_device": [ExceptionKind.UNKNOWN_DEVICE.value],
                "of_node": [ExceptionKind.UNKNOWN_NODE.value, ExceptionKind.OVER_CAPACITY.value],
                "blocking": sorted(kind.value for kind in BLOCKING_KINDS),
                "limit": limit,
            },
        )
        return tuple(_group(row) for row in cursor.fetchall())


def _group(row: tuple[Any, ...]) -> AlikeExceptions:
    return AlikeExceptions(
        kind=ExceptionKind(row[0]),
        cause=row[1],
        cluster_id=row[2],
        cluster=row[3],
        namespace=row[4],
        resource=row[5],
        node=row[6],
        exceptions=row[7],
        pods=row[8],
        first_start=row[9],
        last_start=row[10],
        oldest_id=row[11],
        held=_held(row[12]),
    )


def _held(text: str) -> tuple[HeldPart, ...]:
    """Return what is held by size, without sizes of which nothing is."""
    parts = [HeldPart(*part) for part in json.loads(text)]
    order = {size: place for place, size in enumerate(_SIZES)}
    return tuple(
        sorted(
            (part for part in parts if part.unit_seconds),
            key=lambda part: order.get(part.size, len(order)),
        )
    )


def holdings_of(window: MeteringWindow) -> Mapping[str, DisputedUsage]:
    """Return what was held in a window by subject, resolved exceptions too; two statements."""
    decided = {
        pod_subject(uid=uid, resource=resource)
        for uid, resource in ReconciliationDecision.objects.filter(
            cluster_id=window.cluster_id, window_start=window.start_at
        ).values_list("pod_uid", "resource")
    }
    disputed: set[str] = set()
    left_off: dict[str, int] = defaultdict(int)
    rows = MeteringException.objects.filter(window_id=window.pk, held_unit_seconds__gt=0)
    for kind, subject, state, resolution, held in rows.values_list(
        "kind", "subject", "state", "resolution", "held_unit_seconds"
    ):
        is_sided = kind in SIDED_KINDS
        left_off[subject] += 0
        if is_sided and subject in decided:
            continue
        if state == ExceptionState.OPEN and is_sided:
            disputed.add(subject)
        elif state != ExceptionState.OPEN and not is_machines_resolution(resolution):
            left_off[subject] += held
    return {
        subject: DisputedUsage(is_disputed=subject in disputed, left_off_unit_seconds=held)
        for subject, held in left_off.items()
    }
