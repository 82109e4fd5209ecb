"""Watches: which clusters have one, how far each has come, and which binds differ."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Final
from uuid import UUID

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Greatest

from metering.domain.allocations.timeline import (
    OpenInterval,
    blind_stretches,
    covered_seconds,
    seconds_between,
)
from metering.models import (
    ClusterWatch,
    DeviceClass,
    PodAllocation,
    QueuedPod,
    WatchCursor,
    WatchSpan,
)
from metering.protocols.watch import WatchedKind, WatchTarget
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode
from tenants.models.organization import LifecycleState


@dataclass(frozen=True)
class SpanFact:
    """A time in which the watch was healthy; see models.WatchSpan."""

    begin_at: datetime
    until_at: datetime
    is_resumed: bool


COVERAGE_STEP: Final = Decimal("0.00001")


@dataclass(frozen=True)
class WatchCoverage:
    """Coverage of the watch around one window.

    Attributes:
        spans: When it observed, from the window's start on, in order.
        until_at: Its last heartbeat that is known; None when there was none.
        ratio: Share of the window, 0 to 1, rounded down to five digits.
        is_blind_at_end: Whether there was no heartbeat at or after the window's end.
    """

    spans: tuple[OpenInterval, ...] = ()
    until_at: datetime | None = None
    ratio: Decimal = Decimal(0)
    is_blind_at_end: bool = True


def watch_coverage(
    cluster_id: UUID, *, start_at: datetime, end_at: datetime, until_at: datetime
) -> WatchCoverage:
    """Return the coverage of a cluster's watch from a window's start to a later moment."""
    known = watch_spans(cluster_id, start_at, until_at)
    blind = blind_stretches(known, begin_at=start_at, end_at=until_at)
    begins = [start_at, *(stretch.end_at for stretch in blind)]
    ends = [*(stretch.begin_at for stretch in blind), until_at]
    covered = covered_seconds(known, begin_at=start_at, end_at=end_at)
    ratio = Decimal(covered) / Decimal(seconds_between(start_at, end_at))
    last_beat_at = max((span.until_at for span in known), default=None)
    return WatchCoverage(
        spans=tuple(
            OpenInterval(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end
        ),
        until_at=last_beat_at,
        ratio=ratio.quantize(COVERAGE_STEP, rounding=ROUND_DOWN),
        is_blind_at_end=last_beat_at is None or last_beat_at < end_at,
    )


def cursor_of(cluster_id: UUID, kind: WatchedKind) -> str | None:
    """Return the version a watch of this kind continues from, or None when it must list first."""
    return (
        WatchCursor.objects.filter(cluster_id=cluster_id, kind=kind.value)
        .values_list("resource_version", flat=True)
        .first()
    )


def alive_at(cluster_id: UUID, kind: WatchedKind) -> datetime | None:
    """Return when what the ledger has open was last known alive: a heartbeat or a list.

    None when the watch was never healthy and never listed.
    """
    listed = WatchCursor.objects.filter(cluster_id=cluster_id, kind=kind.value).values("listed_at")
    rows = (
        ClusterWatch.objects.filter(cluster_id=cluster_id)
        .annotate(known=Greatest("healthy_at", Subquery(listed)))
        .values_list("known", flat=True)
    )
    return rows.first()


def watch_spans(cluster_id: UUID, begin_at: datetime, end_at: datetime) -> tuple[SpanFact, ...]:
    """Return the healthy spans around [begin_at, end_at), oldest first, in one statement.

    The last span before and the first one after are included, because the span that ends a gap
    shows whether the gap lost anything.
    """
    ours = WatchSpan.objects.filter(cluster_id=cluster_id).order_by("begin_at")
    before = ours.filter(until_at__lt=begin_at).order_by("-begin_at").values("id")[:1]
    after = ours.filter(begin_at__gte=end_at).values("id")[:1]
    inside = Q(until_at__gte=begin_at, begin_at__lt=end_at)
    rows = ours.filter(inside | Q(id__in=before) | Q(id__in=after))
    return tuple(SpanFact(*row) for row in rows.values_list("begin_at", "until_at", "is_resumed"))


OWNER_ANNOTATION: Final = "gpu-ledger.io/owner"
"""What admission writes into pods; read where it enforces, and believed of pods it admitted."""


@dataclass(frozen=True)
class WatchedCluster:
    """A cluster whose API is to be watched, and how it is reached."""

    cluster_id: UUID
    target: WatchTarget


def watched_clusters(slugs: Collection[str] = ()) -> tuple[WatchedCluster, ...]:
    """Return the open clusters that are to be watched, by slug; of all, or of those named."""
    rows = Cluster.objects.filter(is_watched=True, state=LifecycleState.ACTIVE).order_by("slug")
    if slugs:
        rows = rows.filter(slug__in=slugs)
    return tuple(
        WatchedCluster(
            cluster_id=row.pk,
            target=WatchTarget(
                slug=row.slug,
                kubernetes_url=row.kubernetes_url,
                credential_reference=row.credential_reference,
                user_label=row.user_label,
                owner_annotation=(
                    OWNER_ANNOTATION if row.admission_mode == AdmissionMode.ENFORCE else ""
                ),
                class_names=class_names(row.pk),
            ),
        )
        for row in rows
    )


def class_names(cluster_id: UUID) -> dict[str, str]:
    """Return the extended resource name of each device class that has one, oldest class first."""
    rows = DeviceClass.objects.filter(cluster_id=cluster_id).exclude(extended_resource="")
    return dict(rows.order_by("created_at", "-name").values_list("name", "extended_resource"))


def heartbeat_ages(*, at: datetime) -> dict[str, int]:
    """Return how long ago each watched cluster's last heartbeat was, in whole seconds.

    A watch that never was healthy counts from when its cluster was registered.
    """
    rows = Cluster.objects.filter(is_watched=True, state=LifecycleState.ACTIVE).order_by("slug")
    times = rows.values_list("slug", "created_at", "watch__healthy_at")
    return {
        slug: max(0, int((at - (healthy_at or created_at)).total_seconds()))
        for slug, created_at, healthy_at in times
    }


@dataclass(frozen=True)
class BeginDifference:
    """An allocation another source opened, whose bind differs in the API."""

    pod_uid: str
    resource: str
    begin_at: datetime
    reported_begin_at: datetime


def begin_differences(
    cluster_id: UUID, begin_at: datetime, end_at: datetime
) -> tuple[BeginDifference, ...]:
    """Return the allocations in [begin_at, end_at) whose bind differs in the API, by uid.

    Only rows another source opened can differ; their values were settled before the API was
    queried.
    """
    queued = QueuedPod.objects.filter(cluster_id=cluster_id, pod_uid=OuterRef("pod_uid"))
    rows = (
        PodAllocation.objects.filter(
            Q(end_at__isnull=True) | Q(end_at__gt=begin_at),
            cluster_id=cluster_id,
            source="prometheus",
            begin_at__lt=end_at,
        )
        .annotate(queued_bound_at=Subquery(queued.values("bound_at")))
        .filter(queued_bound_at__isnull=False)
        .exclude(queued_bound_at=F("begin_at"))
        .order_by("pod_uid", "resource")
    )
    return tuple(
        BeginDifference(*row)
        for row in rows.values_list("pod_uid", "resource", "begin_at", "queued_bound_at")
    )
