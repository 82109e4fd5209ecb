"""What an explanation is told from: the rows about a record or a pod in every ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from metering.domain.catalogue import Catalogue
from metering.domain.catalogue_rules import rule_from_json
from metering.domain.claim_names import allocation_key
from metering.domain.explaining import HeldFact, QueryFact, WindowFact
from metering.domain.window_state import WindowState
from metering.models import (
    CatalogueVersion,
    ExceptionState,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    QueuedPod,
    UsageRecord,
)
from tenants.models import Cluster

PODS_MAX: Final = 50
"""Pods of one name that are looked at: names are used again, uids never."""
HOURS_MAX: Final = 24 * 31


@dataclass(frozen=True)
class PodName:
    """Which pod is meant: by its uid, or by namespace and name, in one cluster."""

    cluster_id: UUID
    uid: str = ""
    namespace: str = ""
    name: str = ""

    def matching(self) -> Q:
        """Return the condition over rows that carry `pod_uid`, `namespace` and `pod_name`."""
        if self.uid:
            return Q(cluster_id=self.cluster_id, pod_uid=self.uid)
        return Q(cluster_id=self.cluster_id, namespace=self.namespace, pod_name=self.name)


@dataclass(frozen=True)
class PodRows:
    """Every row about some pod in the hours asked about."""

    queued: Sequence[QueuedPod]
    allocations: Sequence[PodAllocation]
    windows: Sequence[MeteringWindow]
    records: Sequence[UsageRecord]
    exceptions: Sequence[MeteringException]

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces the rows are about."""
        named = [row.namespace for row in self.queued]
        named += [row.namespace for row in self.allocations]
        named += [row.namespace for row in self.records]
        named += [row.namespace for row in self.exceptions]
        return frozenset(named)


def cluster_id_of(slug: str) -> UUID | None:
    """Return the id of the cluster of a short name, or None without one."""
    return Cluster.objects.filter(slug=slug).values_list("pk", flat=True).first()


def pod_rows(pod: PodName, *, begin_at: datetime, end_at: datetime) -> PodRows:
    """Return what every ledger holds of a pod in the hours of [begin_at, end_at).

    Five statements, however many hours and rows there are.
    """
    hours = Q(window_start__gte=begin_at, window_start__lt=end_at)
    # Names are used again, by other tenants too: only what touches these hours is meant.
    waited = Q(gone_at__isnull=True) | Q(gone_at__gt=begin_at)
    held = Q(end_at__isnull=True) | Q(end_at__gt=begin_at)
    queued = list(
        QueuedPod.objects.filter(waited, pod.matching(), created_at__lt=end_at).order_by(
            "-created_at"
        )[:PODS_MAX]
    )
    allocations = list(
        PodAllocation.objects.filter(held, pod.matching(), begin_at__lt=end_at).order_by(
            "-begin_at", "resource"
        )[:PODS_MAX]
    )
    uids = {pod.uid, *(row.pod_uid for row in queued), *(row.pod_uid for row in allocations)} - {""}
    windows = (
        MeteringWindow.objects.filter(
            cluster_id=pod.cluster_id, start_at__gte=begin_at, start_at__lt=end_at
        )
        .select_related("cluster")
        .order_by("start_at")[:HOURS_MAX]
    )
    records = UsageRecord.objects.filter(hours, pod.matching()).order_by(
        "window_start", "resource", "revision"
    )
    return PodRows(
        queued=queued,
        allocations=allocations,
        windows=list(windows),
        records=list(records),
        exceptions=_exceptions(pod, hours, uids=uids),
    )


def _exceptions(pod: PodName, hours: Q, *, uids: set[str]) -> list[MeteringException]:
    """Return open causes about the pod: their subject begins with its uid."""
    about = Q(details__pod=pod.name, namespace=pod.namespace) if pod.name else Q(pk__in=[])
    for uid in sorted(uids):
        about |= Q(subject__startswith=f"{uid} ")
    rows = MeteringException.objects.filter(
        hours, about, cluster_id=pod.cluster_id, state=ExceptionState.OPEN
    )
    return list(rows.order_by("window_start", "kind", "subject"))


def window_fact(window: MeteringWindow) -> WindowFact:
    """Return what is told of a window whose cluster is loaded."""
    return WindowFact(
        id=window.pk,
        cluster=window.cluster.slug,
        start_at=window.start_at.astimezone(UTC),
        state=WindowState(window.state),
        sources=tuple(window.sources),
        coverage=_share(window.coverage),
        watch_coverage=_share(window.watch_coverage),
        unobserved_seconds=window.unobserved_seconds,
        hidden_unit_seconds_max=window.hidden_unit_seconds_max,
        as_of=window.as_of,
        sealed_at=window.sealed_at,
        record_digest=window.record_digest,
        evidence=tuple(_query_fact(item) for item in window.evidence),
        reconciliation=window.reconciliation,
    )


def held_fact(row: PodAllocation) -> HeldFact:
    """Return what is told of an allocation."""
    return HeldFact(
        resource=row.resource,
        units=row.units,
        size=row.size,
        price_group=row.price_group,
        sharing_mode=row.sharing_mode,
        share=f"{row.share_numerator}/{row.share_denominator}",
        source=row.source,
        node=row.node,
        node_labels=row.node_labels,
        catalogue_version=row.catalogue_version,
        begin_at=row.begin_at,
        end_at=row.end_at,
        end_kind=row.end_kind,
        end_slack_seconds=row.end_slack_seconds,
    )


def allocation_of(record: UsageRecord) -> PodAllocation | None:
    """Return what the record's pod held, or the claim that the record is a part of."""
    uid, resource = allocation_key(uid=record.pod_uid, resource=record.resource)
    return PodAllocation.objects.filter(
        cluster_id=record.cluster_id, pod_uid=uid, resource=resource
    ).first()


def window_of(record: UsageRecord) -> MeteringWindow:
    """Return a record's window, with its cluster."""
    return MeteringWindow.objects.select_related("cluster").get(pk=record.window_id)


def stored_catalogues(versions: Iterable[int | None]) -> Mapping[int | None, Catalogue]:
    """Return some versions of the catalogue by number, in one statement."""
    stored = CatalogueVersion.objects.filter(version__in={one for one in versions if one})
    return {
        one.version: Catalogue(one.version, tuple(rule_from_json(rule) for rule in one.rules))
        for one in stored
    }


def overlaps(row: PodAllocation, *, begin_at: datetime) -> bool:
    """Whether an allocation held anything in the hour that begins at a time."""
    until = begin_at + timedelta(hours=1)
    return row.begin_at < until and (row.end_at is None or row.end_at > begin_at)


def _share(value: object) -> str:
    return "" if value is None else str(value)


def _query_fact(item: dict[str, Any]) -> QueryFact:
    return QueryFact(
        query=item["query"], at=item["at"], sha256=item["sha256"], samples=item["samples"]
    )
