"""Incidents: exceptions of one cause about one thing in one cluster, and what they hold back."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, Q, QuerySet

from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.collection.windows import WindowState
from metering.domain.corrections.exceptions import (
    BLOCKING_KINDS,
    DEVICE_KINDS,
    NODE_KINDS,
    ExceptionKind,
)
from metering.domain.errors import NamespaceNotUnboundError
from metering.models import ExceptionState, MeteringException, MeteringWindow
from metering.protocols.held_costs import HeldUse
from tenants.models import Project
from tenants.selectors.directory import namespace_directory

LOOK_AHEAD: Final = timedelta(days=3650)
"""A namespace is bound at most so far ahead."""
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
class Incident:
    """Exceptions of one cause about one thing in one cluster.

    Attributes:
        id: The same for all of them, whichever are open.
        cause: The cause in the details, such as "unknown_resource"; "" where the kind is enough.
        cluster: The cluster's name.
        namespace: The namespace of the pods; "" for a node or a whole hour.
        resource: The device it is about, as Kubernetes names it; "" for any.
        node: The node it is about; "" for any.
        exceptions: How many exceptions there are.
        hours: Of how many different hours.
        pods: About how many different pods; 0 for none.
        first_start: The first hour.
        last_start: The last hour.
        oldest_id: The exception of the first hour: what is repaired from there on settles all.
        uses: What is not billed, by size, price group and organization.
    """

    id: UUID
    kind: ExceptionKind
    cause: str
    cluster_id: UUID
    cluster: str
    namespace: str
    resource: str
    node: str
    exceptions: int
    hours: int
    pods: int
    first_start: datetime
    last_start: datetime
    oldest_id: int
    uses: tuple[HeldUse, ...]

    @property
    def held(self) -> tuple[HeldPart, ...]:
        """What is not billed, by size: small ones first, unknown ones last."""
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for use in self.uses:
            sums[use.size][0] += use.unit_seconds
            sums[use.size][1] += use.pod_seconds
        order = {size: index for index, size in enumerate(_SIZES)}
        return tuple(
            HeldPart(size, *sums[size])
            for size in sorted(sums, key=lambda size: order.get(size, len(order)))
        )

    @property
    def held_unit_seconds(self) -> int:
        """Units x seconds that are not billed, of all sizes."""
        return sum(use.unit_seconds for use in self.uses)

    @property
    def is_counted_in_units(self) -> bool:
        """Whether its amounts are GPUs or parts of them; unknown for an unknown resource."""
        return self.cause != UnsizedCause.UNKNOWN_RESOURCE

    @property
    def is_blocking(self) -> bool:
        """Whether it keeps its hours from being sealed."""
        return self.kind in BLOCKING_KINDS


# A pod's exception takes its size from the allocation ledger, and its organization from the binding
# of its hour. What a device is about is its resource, what a node is about is the node; all else is
# about a namespace or the whole hour.
_INCIDENTS: Final = """
WITH alike AS (
  SELECT e.incident, e.id, e.kind, e.cluster_id, e.namespace, e.window_start, e.held_unit_seconds,
         coalesce(e.details->>'cause', '') AS cause,
         CASE WHEN e.kind = ANY(%s) THEN coalesce(e.details->>'resource', '') ELSE '' END
           AS resource,
         CASE WHEN e.kind = ANY(%s) THEN coalesce(e.details->>'node', e.subject) ELSE '' END
           AS node,
         CASE WHEN e.namespace = '' THEN '' ELSE split_part(e.subject, ' ', 1) END AS pod_uid,
         coalesce(a.size, '') AS size, coalesce(a.price_group, '') AS price_group,
         p.organization_id,
         greatest(coalesce((e.details->>'units')::bigint, 1), 1) AS units
    FROM metering_meteringexception e
    LEFT JOIN metering_podallocation a
      ON a.cluster_id = e.cluster_id AND a.resource = e.details->>'resource'
     AND a.pod_uid = split_part(e.subject, ' ', 1)
    LEFT JOIN tenants_namespacebinding b
      ON b.cluster_id = e.cluster_id AND b.namespace = e.namespace AND b.valid @> e.window_start
    LEFT JOIN tenants_project p ON p.id = b.project_id
   WHERE e.id IN ({chosen})
), parts AS (
  SELECT incident, size, price_group, organization_id, max(window_start) AS last_start,
         sum(held_unit_seconds)::bigint AS held_unit_seconds,
         sum(held_unit_seconds / units)::bigint AS held_pod_seconds
    FROM alike
   WHERE held_unit_seconds <> 0
   GROUP BY 1, 2, 3, 4
), reported AS (
  SELECT incident,
         jsonb_agg(jsonb_build_array(organization_id, size, price_group, last_start,
           held_unit_seconds, held_pod_seconds)
           ORDER BY size, price_group, organization_id) AS held
    FROM parts
   GROUP BY incident
), counted AS (
  SELECT incident, kind, cause, cluster_id, namespace, resource, node,
         count(*) AS exceptions, count(DISTINCT window_start) AS hours,
         count(DISTINCT pod_uid) FILTER (WHERE pod_uid <> '') AS pods,
         min(window_start) AS first_start, max(window_start) AS last_start,
         (array_agg(id ORDER BY window_start, id))[1] AS oldest_id
    FROM alike
   GROUP BY incident, kind, cause, cluster_id, namespace, resource, node
)
SELECT n.incident, n.kind, n.cause, n.cluster_id, c.name, n.namespace, n.resource, n.node,
       n.exceptions, n.hours, n.pods, n.first_start, n.last_start, n.oldest_id,
       coalesce(t.held, '[]')::text
  FROM counted n
  JOIN tenants_cluster c ON c.id = n.cluster_id
  LEFT JOIN reported t USING (incident)
 ORDER BY n.kind = ANY(%s) DESC, n.exceptions DESC, n.kind, c.slug, n.namespace, n.resource,
          n.node, n.cause
 LIMIT %s
"""


def incidents_of(
    rows: QuerySet[MeteringException], *, limit: int | None = None
) -> tuple[Incident, ...]:
    """Return exceptions, alike by alike: what stops an hour first, then by how many there are.

    Args:
        rows: The exceptions that count; one statement.
        limit: How many incidents at most; None for all.
    """
    try:
        chosen, given = rows.order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(
            _INCIDENTS.format(chosen=chosen),
            [
                [kind.value for kind in DEVICE_KINDS],
                [kind.value for kind in NODE_KINDS],
                *given,
                sorted(kind.value for kind in BLOCKING_KINDS),
                limit,
            ],
        )
        return tuple(_incident(row) for row in cursor.fetchall())


def _incident(row: tuple[Any, ...]) -> Incident:
    cluster_id = row[3]
    return Incident(
        id=row[0],
        kind=ExceptionKind(row[1]),
        cause=row[2],
        cluster_id=cluster_id,
        cluster=row[4],
        namespace=row[5],
        resource=row[6],
        node=row[7],
        exceptions=row[8],
        hours=row[9],
        pods=row[10],
        first_start=row[11],
        last_start=row[12],
        oldest_id=row[13],
        uses=tuple(_use(cluster_id, part) for part in json.loads(row[14])),
    )


def _use(cluster_id: UUID, part: list[Any]) -> HeldUse:
    organization_id, size, price_group, last_start, unit_seconds, pod_seconds = part
    return HeldUse(
        cluster_id=cluster_id,
        organization_id=None if organization_id is None else UUID(organization_id),
        size=size,
        price_group=price_group,
        last_start=datetime.fromisoformat(last_start),
        unit_seconds=unit_seconds,
        pod_seconds=pod_seconds,
    )


def open_among(rows: QuerySet[MeteringException]) -> QuerySet[MeteringException]:
    """Return those of some exceptions that are open."""
    return rows.filter(state=ExceptionState.OPEN)


def one_of_each_incident(rows: QuerySet[MeteringException]) -> QuerySet[MeteringException]:
    """Return the exception of the first hour of each incident among some exceptions."""
    first = rows.order_by("incident", "window_start", "pk").distinct("incident")
    return MeteringException.objects.filter(pk__in=first.values("pk"))


def exceptions_of_incidents(
    rows: QuerySet[MeteringException], incident_ids: Iterable[UUID]
) -> QuerySet[MeteringException]:
    """Return those of some exceptions that belong to incidents."""
    return rows.filter(incident__in=list(incident_ids))


def windows_of(rows: QuerySet[MeteringException]) -> QuerySet[MeteringWindow]:
    """Return the hours that exceptions are about, oldest first."""
    windows = MeteringWindow.objects.filter(pk__in=rows.order_by().values("window_id"))
    return windows.order_by("start_at", "pk")


@dataclass(frozen=True)
class BindingEffect:
    """What binding a namespace from an hour on would put on a bill.

    Attributes:
        sealed_hours: Sealed hours that are rechecked, so that a correction bills them.
        unsealed_hours: Hours that are not sealed yet, and are billed when they are.
        late_hours: Hours older than the sources' retention; no recheck takes them.
        end_at: When the next binding of the namespace begins; None without one.
        first_start: The first hour that is billed; None when there is none.
        last_start: The last one.
        uses: What is billed then, as use of the organization.
    """

    sealed_hours: int
    unsealed_hours: int
    late_hours: int
    end_at: datetime | None
    first_start: datetime | None
    last_start: datetime | None
    uses: tuple[HeldUse, ...]


def first_unbound(rows: QuerySet[MeteringException]) -> MeteringException:
    """Return the open exception of the first hour in which a namespace belongs to no project.

    Raises:
        NamespaceNotUnboundError: None of the exceptions is open and about that.
    """
    unbound = open_among(rows).filter(kind=ExceptionKind.UNBOUND_NAMESPACE.value)
    found = unbound.order_by("window_start", "pk").first()
    if found is None:
        raise NamespaceNotUnboundError("No open exception of it is about an unbound namespace.")
    return found


def bound_from(found: MeteringException) -> datetime | None:
    """Return when the next binding of the namespace begins, after the exception's hour."""
    directory = namespace_directory(
        found.cluster_id, begin_at=found.window_start, end_at=found.window_start + LOOK_AHEAD
    )
    begins = (one.begin_at for one in directory if one.namespace == found.namespace)
    return min((begin for begin in begins if begin > found.window_start), default=None)


def binding_effect(
    found: MeteringException, *, project: Project, oldest_at: datetime
) -> BindingEffect:
    """Return what binding a namespace from the hour of an exception on would bill.

    Args:
        found: An exception about a namespace without a project, of the first hour.
        project: The project it would be bound to.
        oldest_at: The start of the last hour that is too old for a recheck.
    """
    rows = open_among(
        MeteringException.objects.filter(
            cluster=found.cluster_id,
            namespace=found.namespace,
            kind=ExceptionKind.UNBOUND_NAMESPACE.value,
            window_start__gte=found.window_start,
        )
    )
    end_at = bound_from(found)
    if end_at is not None:
        rows = rows.filter(window_start__lt=end_at)
    is_sealed = Q(window__state=WindowState.SEALED.value)
    is_late = is_sealed & Q(window_start__lte=oldest_at)
    counted = rows.aggregate(
        late=Count("window_start", filter=is_late, distinct=True),
        sealed=Count("window_start", filter=is_sealed, distinct=True),
        unsealed=Count("window_start", filter=~is_sealed, distinct=True),
    )
    billed = incidents_of(rows.exclude(is_late))
    return BindingEffect(
        sealed_hours=counted["sealed"] - counted["late"],
        unsealed_hours=counted["unsealed"],
        late_hours=counted["late"],
        end_at=end_at,
        first_start=billed[0].first_start if billed else None,
        last_start=billed[0].last_start if billed else None,
        uses=tuple(
            replace(use, organization_id=project.organization_id)
            for incident in billed
            for use in incident.uses
        ),
    )
