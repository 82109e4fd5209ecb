"""Open exceptions: how many there are, and what usage they hold back."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum
from django.db.models.functions import Coalesce

from metering.domain.corrections.correction import DisputedUsage
from metering.domain.corrections.exceptions import (
    SIDED_KINDS,
    is_machines_resolution,
    pod_subject,
)
from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
)
from metering.protocols.held_costs import HeldUse
from tenants.models import NamespaceBinding


@dataclass(frozen=True)
class ExceptionTotal:
    """Exceptions that are open, of one kind."""

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


@dataclass(frozen=True)
class HeldUsage:
    """What open exceptions about an organization's namespaces keep off its bill.

    Attributes:
        exceptions: How many there are.
        held_unit_seconds: Without those of unknown devices, whose units no catalogue rule knows.
        uses: What is held, by cluster, size and price group.
    """

    exceptions: int
    held_unit_seconds: int
    uses: tuple[HeldUse, ...]


def held_of_organizations(
    spans: Mapping[UUID, tuple[datetime, datetime]],
) -> dict[UUID, HeldUsage]:
    """Return what is open about namespaces of organizations, each in its hours; one statement.

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
        rows = cursor.fetchall()
    held: dict[UUID, HeldUsage] = {}
    for key, cluster_id, size, group, last_start, exceptions, *seconds in rows:
        known, unit_seconds, pod_seconds = seconds
        before = held.get(key, HeldUsage(0, 0, ()))
        use = HeldUse(cluster_id, key, size, group, last_start, unit_seconds, pod_seconds)
        held[key] = HeldUsage(
            before.exceptions + exceptions,
            before.held_unit_seconds + known,
            (*before.uses, use) if unit_seconds else before.uses,
        )
    return held


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
SELECT s.id, e.cluster_id, coalesce(a.size, '') AS size, coalesce(a.price_group, '') AS price_group,
       max(e.window_start), count(*),
       coalesce(sum(e.held_unit_seconds) FILTER (WHERE e.kind <> 'unknown_device'), 0)::bigint,
       sum(e.held_unit_seconds)::bigint,
       sum(e.held_unit_seconds / greatest(coalesce((e.details->>'units')::bigint, 1), 1))::bigint
  FROM metering_meteringexception e
  JOIN tenants_namespacebinding b
    ON b.cluster_id = e.cluster_id AND b.namespace = e.namespace AND b.valid @> e.window_start
  JOIN tenants_project p ON p.id = b.project_id
  JOIN unnest(%(ids)s::uuid[], %(begins)s::timestamptz[], %(ends)s::timestamptz[])
       AS s(id, begin_at, end_at)
    ON s.id = p.organization_id AND e.window_start >= s.begin_at AND e.window_start < s.end_at
  LEFT JOIN metering_podallocation a
    ON a.cluster_id = e.cluster_id AND a.resource = e.details->>'resource'
   AND a.pod_uid = split_part(e.subject, ' ', 1)
 WHERE e.state = 'open'
 GROUP BY 1, 2, 3, 4
 ORDER BY 1, 2, 3, 4
"""


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
