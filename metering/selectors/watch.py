"""What a watch has seen: versions to go on from, and when it had eyes."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, Subquery
from django.db.models.functions import Greatest

from metering.models import ClusterWatch, WatchCursor, WatchSpan
from metering.protocols.watch import WatchedKind


@dataclass(frozen=True)
class SpanFact:
    """A time in which the watch was healthy; see models.WatchSpan."""

    begin_at: datetime
    until_at: datetime
    is_resumed: bool


def cursor_of(cluster_id: UUID, kind: WatchedKind) -> str | None:
    """Return the version a watch of this kind goes on from, or None when it must list first."""
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

    The last span before and the first one after come along, because whether a hole at an edge lost
    anything is told by the span that ends it.
    """
    ours = WatchSpan.objects.filter(cluster_id=cluster_id).order_by("begin_at")
    before = ours.filter(until_at__lt=begin_at).order_by("-begin_at").values("id")[:1]
    after = ours.filter(begin_at__gte=end_at).values("id")[:1]
    inside = Q(until_at__gte=begin_at, begin_at__lt=end_at)
    rows = ours.filter(inside | Q(id__in=before) | Q(id__in=after))
    return tuple(SpanFact(*row) for row in rows.values_list("begin_at", "until_at", "is_resumed"))
