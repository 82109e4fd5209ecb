"""What pods hold: now, by namespace, project, pod and controller; and in an hour, unseen in it.

The binding in force decides the project of a namespace; unbound namespaces are left out.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet, Sum

from metering.domain.catalogue.units import GPUSize
from metering.models import CapacityRecord, ClaimConsumer, PodAllocation, QueuedPod
from metering.selectors.devices.usage import SEEN_WITHIN
from metering.selectors.text_arrays import text_array


@dataclass(frozen=True)
class HeldAtPlace:
    """Units held now in one namespace.

    Attributes:
        model_group: Such as "H100": the price group up to its first slash.
        is_burst: Whether preemptible pods hold them.
    """

    cluster_id: UUID
    namespace: str
    size: GPUSize
    model_group: str
    is_burst: bool
    units: int


def held_by_place(*, burst_classes: Iterable[str]) -> tuple[HeldAtPlace, ...]:
    """Return what open allocations hold, in one statement; what has no size yet is left out.

    Args:
        burst_classes: Names of the priority classes of preemptible pods.
    """
    preemptible = frozenset(burst_classes)
    rows = (
        PodAllocation.objects.filter(end_at__isnull=True)
        .exclude(size="")
        .values_list("cluster_id", "namespace", "size", "price_group", "priority_class")
        .annotate(held=Sum("units"))
        .order_by("cluster_id", "namespace", "size", "price_group", "priority_class")
    )
    return tuple(
        HeldAtPlace(
            cluster_id=cluster_id,
            namespace=namespace,
            size=GPUSize(size),
            model_group=price_group.partition("/")[0],
            is_burst=priority_class in preemptible,
            units=units,
        )
        for cluster_id, namespace, size, price_group, priority_class, units in rows
    )


def only_models(*, at: datetime) -> dict[tuple[UUID, str], str]:
    """Return the GPU model group of each resource name that lately was one only, in one statement.

    Keys are cluster id and resource name, as Kubernetes spells it. A name that means several
    models, or one without a rule, is left out.
    """
    rows = (
        CapacityRecord.objects.filter(window_start__gte=at - SEEN_WITHIN, window_start__lte=at)
        .values_list("cluster_id", "resource", "price_group")
        .order_by("cluster_id", "resource", "price_group")
        .distinct()
    )
    seen: dict[tuple[UUID, str], set[str]] = {}
    for cluster_id, resource, price_group in rows:
        seen.setdefault((cluster_id, resource), set()).add(price_group.partition("/")[0])
    return {
        key: next(iter(groups))
        for key, groups in seen.items()
        if len(groups) == 1 and "" not in groups
    }


_BOUND: Final = """
  FROM metering_podallocation a
  JOIN tenants_cluster c ON c.id = a.cluster_id
  JOIN tenants_namespacebinding b
    ON b.cluster_id = a.cluster_id AND b.namespace = a.namespace AND b.valid @> %(at)s
  JOIN tenants_project p ON p.id = b.project_id
  LEFT JOIN auth_user u ON u.id = b.default_owner_id
 WHERE a.end_at IS NULL AND a.size <> '' AND c.admission_mode = ANY(%(modes)s)
   AND p.organization_id = ANY(%(organizations)s)
"""
_COLUMNS: Final = """
SELECT p.organization_id, b.project_id, COALESCE(NULLIF(a.owner, ''), u.username, ''), a.size,
       split_part(a.price_group, '/', 1), a.cluster_id, a.priority_class
"""
_UNITS: Final = f"""
{_COLUMNS}, sum(a.units)::bigint
{_BOUND}
 GROUP BY 1, 2, 3, 4, 5, 6, 7
"""
_PODS: Final = f"""
{_COLUMNS}, a.units, a.begin_at, a.controller
{_BOUND}
   AND a.size = %(size)s
"""


@dataclass(frozen=True)
class OwnerHolding:
    """Units of one size held by one owner in one project; owner "" is unknown."""

    organization_id: UUID
    project_id: UUID
    owner: str
    size: GPUSize
    model_group: str
    cluster_id: UUID
    priority_class: str
    units: int


@dataclass(frozen=True)
class HoldingPod:
    """One pod that holds units, since when, and what controls it as "Kind/name"."""

    holding: OwnerHolding
    begin_at: datetime
    controller: str


def holdings_now(
    *, at: datetime, organization_ids: Collection[UUID], admission_modes: Collection[str]
) -> tuple[OwnerHolding, ...]:
    """Return what organizations hold in clusters of some admission modes; one statement.

    Args:
        at: When, UTC: decides whose a namespace is.
        organization_ids: The organizations.
        admission_modes: Of which clusters, such as ("off",).
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNITS, _given(at, organization_ids, admission_modes))
        return tuple(_holding(*row) for row in cursor.fetchall())


def holding_pods(
    *,
    at: datetime,
    organization_id: UUID,
    size: GPUSize,
    admission_modes: Collection[str],
) -> tuple[HoldingPod, ...]:
    """Return the pods of one organization that hold a size, in no order; one statement."""
    given: dict[str, Any] = {**_given(at, [organization_id], admission_modes), "size": size.value}
    with connection.cursor() as cursor:
        cursor.execute(_PODS, given)
        return tuple(
            HoldingPod(_holding(*row[:8]), begin_at=row[8], controller=row[9])
            for row in cursor.fetchall()
        )


def _given(
    at: datetime, organization_ids: Collection[UUID], admission_modes: Collection[str]
) -> dict[str, Any]:
    return {
        "at": at,
        "organizations": list(organization_ids),
        "modes": list(admission_modes),
    }


def _holding(  # noqa: PLR0913, PLR0917 - A row's columns, in their order.
    organization_id: UUID,
    project_id: UUID,
    owner: str,
    size: str,
    model_group: str,
    cluster_id: UUID,
    priority_class: str,
    units: int,
) -> OwnerHolding:
    return OwnerHolding(
        organization_id,
        project_id,
        owner,
        GPUSize(size),
        model_group,
        cluster_id,
        priority_class,
        int(units),
    )


@dataclass(frozen=True)
class HeldPod:
    """One pod as the ledger and the watch know it.

    Attributes:
        priority: The value of its PriorityClass; None when the source has none.
        began_at: When it was bound; None before.
        is_ending: Its deletion was requested, or all it held has ended.
    """

    controller: str
    priority_class: str
    priority: int | None
    began_at: datetime | None
    is_ending: bool


@dataclass(frozen=True)
class ClaimUser:
    """A pod that a device claim is reserved for now."""

    pod_uid: str
    pod_name: str
    owner: str


def held_pods(uids: Iterable[str]) -> Mapping[tuple[UUID, str], HeldPod]:
    """Return what is known of pods, by cluster and uid; two statements.

    Args:
        uids: Of the pods; one that is in neither the ledger nor the watch's tables is left out.
    """
    wanted = list(uids)
    deleted: dict[tuple[UUID, str], bool] = {}
    found: dict[tuple[UUID, str], HeldPod] = {}
    for queued in QueuedPod.objects.filter(pod_uid__in=wanted):
        key = queued.cluster_id, queued.pod_uid
        deleted[key] = queued.deletion_at is not None or queued.gone_at is not None
        found[key] = HeldPod("", queued.priority_class, None, None, deleted[key])
    # Ended ones first: a pod with an open allocation has the values of that.
    for row in PodAllocation.objects.filter(pod_uid__in=wanted).order_by("end_at", "pk"):
        key = row.cluster_id, row.pod_uid
        found[key] = HeldPod(
            controller=row.controller,
            priority_class=row.priority_class,
            priority=row.priority,
            began_at=row.begin_at,
            is_ending=deleted.get(key, False) or row.end_at is not None,
        )
    return found


def claim_users(claim_uids: Iterable[str]) -> Mapping[tuple[UUID, str], tuple[ClaimUser, ...]]:
    """Return the pods of device claims now, by cluster and claim, by name; one statement."""
    users: dict[tuple[UUID, str], tuple[ClaimUser, ...]] = {}
    rows = ClaimConsumer.objects.filter(claim_uid__in=list(claim_uids), end_at=None)
    for row in rows.order_by("pod_name", "pod_uid"):
        key = row.cluster_id, row.claim_uid
        user = ClaimUser(row.pod_uid, row.pod_name, row.owner)
        users[key] = (*users.get(key, ()), user)
    return users


@dataclass(frozen=True)
class HeldUnits:
    """Units of one size held in one namespace by whom a label names; owner "" is no label."""

    cluster_id: UUID
    namespace: str
    owner: str
    size: GPUSize
    units: int


def held_units() -> tuple[HeldUnits, ...]:
    """Return what is held now, one per namespace, owner and size, in one statement.

    Device claims count like pods. What has no size yet counts against no quota of a size.
    """
    rows = (
        PodAllocation.objects.filter(end_at__isnull=True)
        .exclude(size="")
        .values_list("cluster_id", "namespace", "owner", "size")
        .annotate(held=Sum("units"))
        .order_by("cluster_id", "namespace", "owner", "size")
    )
    return tuple(
        HeldUnits(cluster_id, namespace, owner, GPUSize(size), held)
        for cluster_id, namespace, owner, size, held in rows
    )


def open_unsized() -> QuerySet[PodAllocation]:
    """Return open allocations of unknown size, to check whether there are any.

    The reason is in the exceptions of the hours that were metered since.
    """
    return PodAllocation.objects.filter(size="", end_at__isnull=True)


LOOKBACK: Final = timedelta(days=90)
"""A quarter: what ran before that was other work."""
LIVES_MAX: Final = 500
"""The newest of each kind; percentiles of more differ by less than their own error."""

_LIVES: Final = """
SELECT project_id, kind, array_agg(seconds ORDER BY seconds)
  FROM (SELECT project_id, split_part(controller, '/', 1) AS kind,
               extract(epoch FROM end_at - begin_at)::bigint AS seconds,
               row_number() OVER (
                 PARTITION BY project_id, split_part(controller, '/', 1) ORDER BY end_at DESC
               ) AS newest
          FROM metering_podallocation
         WHERE project_id = ANY(%(projects)s) AND end_at >= %(since)s AND end_at < %(at)s) ended
 WHERE newest <= %(most)s
 GROUP BY 1, 2
"""


def pod_lives(
    project_ids: Collection[UUID], *, at: datetime
) -> dict[tuple[UUID, str], tuple[int, ...]]:
    """Return seconds that pods ran, shortest first, by project and kind; one statement.

    Kinds are such as "Job"; "" is a pod without a controller.
    """
    given: dict[str, Any] = {
        "projects": list(project_ids),
        "since": at - LOOKBACK,
        "at": at,
        "most": LIVES_MAX,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LIVES, given)
        return {(project, kind): tuple(seconds) for project, kind, seconds in cursor.fetchall()}


# What holds something in the hour and was seen in its time or later has samples in it.
_UNSEEN = """
SELECT namespace || '/' || pod_name, count(*) OVER ()
  FROM metering_podallocation
 WHERE cluster_id = %(cluster_id)s AND source = 'prometheus'
   AND (end_at IS NULL OR end_at > %(start_at)s)
   AND begin_at < %(begun_before)s AND last_seen_at >= %(start_at)s
   AND NOT pod_uid = ANY(%(pod_uids)s::text[])
 ORDER BY 1 LIMIT 3
"""


def unseen_pods(
    cluster_id: UUID, *, start_at: datetime, begun_before: datetime, pod_uids: Collection[str]
) -> tuple[int, tuple[str, ...]]:
    """Return how many allocations other hours show in one and this does not, and some names.

    Args:
        cluster_id: The cluster.
        start_at: Begin of the hour.
        begun_before: A moment of the hour from which on a pod may have been seen too late.
        pod_uids: Pods that were seen in the hour.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _UNSEEN,
            {
                "cluster_id": cluster_id,
                "start_at": start_at,
                "begun_before": begun_before,
                "pod_uids": text_array(pod_uids),
            },
        )
        rows = cursor.fetchall()
    return (rows[0][1] if rows else 0), tuple(name for name, _ in rows)
