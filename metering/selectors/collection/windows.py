"""Windows: how far each cluster's metering has come, as a calendar and as what is due."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import (
    Avg,
    Count,
    Exists,
    Max,
    Min,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    Sum,
)
from django.db.models.functions import Greatest

from metering.domain.collection.calendar import Day, HourFact, days_of
from metering.domain.collection.parts import PartState
from metering.domain.collection.windows import WindowState
from metering.domain.corrections.exceptions import BLOCKING_KINDS
from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    WindowDivision,
    WindowPart,
)
from tenants.models import Cluster
from tenants.models.organization import LifecycleState

HOUR: Final = timedelta(hours=1)
LATELY: Final = timedelta(minutes=1)
"""A source that answered so lately is not taken to be away from every worker."""


@dataclass(frozen=True)
class CalendarCluster:
    """A cluster with windows in a range of days.

    Attributes:
        waiting: Hours that wait for a person.
        begun_incidents: Open incidents that begin in these days.
    """

    id: UUID
    slug: str
    name: str
    waiting: int
    begun_incidents: int


def calendar_clusters(
    windows: QuerySet[MeteringWindow], *, begin: date, end: date
) -> tuple[CalendarCluster, ...]:
    """Return the clusters that have a window in [begin, end), by slug; two statements.

    Args:
        windows: Those the caller may see.
        begin: First UTC day.
        end: The day after the last.
    """
    waits = Q(state__in=[WindowState.GAP.value, WindowState.QUARANTINED.value])
    rows = (
        _within(windows, begin, end)
        .order_by("cluster__slug")
        .values_list("cluster_id", "cluster__slug", "cluster__name")
        .annotate(waiting=Count("id", filter=waits))
    )
    begun = _begun_incidents(begin, end).values_list("cluster_id").annotate(begun=Count("id"))
    by_cluster = dict(begun.order_by("cluster_id"))
    return tuple(
        CalendarCluster(key, slug, name, waiting, by_cluster.get(key, 0))
        for key, slug, name, waiting in rows
    )


def _within(windows: QuerySet[MeteringWindow], begin: date, end: date) -> QuerySet[MeteringWindow]:
    return windows.filter(start_at__gte=_midnight(begin), start_at__lt=_midnight(end))


def _begun_incidents(begin: date, end: date) -> QuerySet[MeteringException]:
    """Return the first open exception of each incident, where it lies in [begin, end)."""
    earlier = MeteringException.objects.filter(
        incident=OuterRef("incident"), state=ExceptionState.OPEN
    ).filter(
        Q(window_start__lt=OuterRef("window_start"))
        | Q(window_start=OuterRef("window_start"), pk__lt=OuterRef("pk"))
    )
    return MeteringException.objects.filter(
        ~Exists(earlier),
        state=ExceptionState.OPEN,
        window_start__gte=_midnight(begin),
        window_start__lt=_midnight(end),
    )


def window_calendar(
    windows: QuerySet[MeteringWindow],
    clusters: Iterable[CalendarCluster],
    *,
    begin: date,
    end: date,
) -> dict[UUID, tuple[Day, ...]]:
    """Return the days of [begin, end) of clusters; two statements.

    Args:
        windows: Those the caller may see.
        clusters: Those to show.
        begin: First UTC day.
        end: The day after the last.
    """
    shown = [cluster.id for cluster in clusters]
    begun = dict(
        _begun_incidents(begin, end)
        .filter(cluster__in=shown)
        .order_by("window_id")
        .values_list("window_id")
        .annotate(begun=Count("id"))
    )
    rows = (
        _within(windows, begin, end)
        .filter(cluster__in=shown)
        .annotate(
            seen=Greatest("coverage", "watch_coverage"),
            wanting=Count("exceptions", filter=Q(exceptions__state=ExceptionState.OPEN)),
        )
        .order_by("cluster_id", "start_at")
        .values_list(
            "cluster_id", "id", "start_at", "state", "seen", "sources", "record_count", "wanting"
        )
    )
    by_cluster: dict[UUID, list[HourFact]] = defaultdict(list)
    for cluster_id, window_id, start_at, state, seen, sources, records, wanting in rows:
        by_cluster[cluster_id].append(
            HourFact(
                window_id=window_id,
                start_at=start_at.astimezone(UTC),
                state=WindowState(state),
                coverage=seen,
                sources=tuple(sources),
                records=records,
                open_exceptions=wanting,
                begun_incidents=begun.get(window_id, 0),
            )
        )
    return {key: days_of(by_cluster[key], begin=begin, end=end) for key in shown}


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


DUE_MAX = 500
"""Windows returned at once; the rest comes with the next call."""

_SETTLED = """
SELECT w.id FROM metering_meteringwindow w
 WHERE w.state IN ('collected', 'reconciled')
   AND (w.state = 'reconciled' OR NOT EXISTS (
     SELECT FROM metering_meteringexception e
      WHERE e.window_id = w.id AND e.state = 'open' AND e.kind = ANY(%(blocking)s)))
 ORDER BY w.start_at, w.cluster_id
 LIMIT %(limit)s
"""


def sealable_window_ids() -> list[int]:
    """Return windows that only have to be reconciled and sealed, oldest first."""
    blocking = sorted(kind.value for kind in BLOCKING_KINDS)
    with connection.cursor() as cursor:
        cursor.execute(_SETTLED, {"limit": DUE_MAX, "blocking": blocking})
        return [window_id for (window_id,) in cursor.fetchall()]


def sealed_until(clusters: QuerySet[Cluster]) -> datetime | None:
    """Return the end of the last hour that each of some clusters has sealed; None without any.

    Clusters that are closed, or sealed to the end of their metered time, hold nothing up.
    """
    last = MeteringWindow.objects.filter(cluster=OuterRef("pk"), state=WindowState.SEALED.value)
    rows = (
        clusters.filter(state=LifecycleState.ACTIVE)
        .order_by()
        .values_list(
            "metered_from",
            "metered_until",
            Subquery(last.order_by("-start_at").values("start_at")[:1]),
        )
    )
    ends = [(begin if at is None else at + HOUR, until) for begin, until, at in rows]
    behind = [end for end, until in ends if until is None or end < until]
    return min(behind) if behind else max((end for end, _ in ends), default=None)


def unsealed_hours(clusters: QuerySet[Cluster], *, begin_at: datetime, end_at: datetime) -> int:
    """Return how many windows of some clusters in [begin_at, end_at) are not sealed."""
    rows = MeteringWindow.objects.exclude(state=WindowState.SEALED.value)
    rows = rows.filter(cluster__in=clusters.order_by().values("pk"))
    return rows.filter(start_at__gte=begin_at, start_at__lt=end_at).count()


@dataclass(frozen=True)
class ClusterProgress:
    """How far one cluster's metering has come within a range of hours.

    Attributes:
        waiting: Windows that wait for a person: gaps and quarantined ones.
        first_unsealed_at: Oldest hour that is not sealed; None when all are.
        mean_coverage: Mean share of scrapes seen over the collected windows; None without any.
    """

    cluster_id: UUID
    windows: int
    sealed: int
    waiting: int
    records: int
    first_unsealed_at: datetime | None
    last_start_at: datetime
    mean_coverage: Decimal | None


def cluster_progress(*, begin_at: datetime, end_at: datetime) -> tuple[ClusterProgress, ...]:
    """Return the progress of every cluster with windows in [begin_at, end_at), by its id."""
    is_sealed = Q(state=WindowState.SEALED.value)
    waits = Q(state__in=[WindowState.GAP.value, WindowState.QUARANTINED.value])
    rows = (
        MeteringWindow.objects.filter(start_at__gte=begin_at, start_at__lt=end_at)
        .order_by("cluster_id")
        .values("cluster_id")
        .annotate(
            windows=Count("id"),
            sealed=Count("id", filter=is_sealed),
            waiting=Count("id", filter=waits),
            first_unsealed_at=Min("start_at", filter=~is_sealed),
            last_start_at=Max("start_at"),
            usage_records=Sum("record_count"),
            mean_coverage=Avg("coverage"),
        )
    )
    return tuple(
        ClusterProgress(
            cluster_id=row["cluster_id"],
            windows=row["windows"],
            sealed=row["sealed"],
            waiting=row["waiting"],
            records=row["usage_records"],
            first_unsealed_at=row["first_unsealed_at"],
            last_start_at=row["last_start_at"],
            mean_coverage=row["mean_coverage"],
        )
        for row in rows
    )


@dataclass(frozen=True)
class PartsProgress:
    """How far a window that is metered in parts has come.

    Attributes:
        done: Parts that are observed; posted, once all were observed.
    """

    done: int
    all: int
    is_settled: bool


def parts_progress(window_id: int) -> PartsProgress | None:
    """Return how far the parts of a window have come; None where it has none."""
    parts = WindowPart.objects.filter(division_id=window_id)
    row = parts.values_list("division__catalogue_version").annotate(
        done=Count("id", filter=Q(state=PartState.DONE.value)), all=Count("id")
    )
    found = row.order_by("division__catalogue_version").first()
    return None if found is None else PartsProgress(found[1], found[2], found[0] is not None)


def divisions() -> "Prefetch[str]":
    """Return how to prefetch the divisions of windows, with counts and without observations.

    `part_count` is how many parts there are, `done_count` how many are done in the present phase.
    """
    is_done = Q(parts__state=PartState.DONE.value)
    rows = WindowDivision.objects.only("window", "as_of", "catalogue_version", "created_at")
    counted = rows.annotate(part_count=Count("parts"), done_count=Count("parts", filter=is_done))
    return Prefetch("division", queryset=counted)


def is_sealing(cluster_id: UUID, *, at: datetime) -> bool:
    """Whether a worker has sealed an hour of a cluster in the last minute."""
    sealed = MeteringWindow.objects.filter(cluster_id=cluster_id, sealed_at__gt=at - LATELY)
    return sealed.exists()


def clusters_served(slug: str, *, dedicated: Collection[str]) -> list[UUID] | None:
    """Return the clusters that a worker serves; None for all.

    Args:
        slug: Of the cluster whose own worker it is; "" for one that serves the others.
        dedicated: Slugs of the clusters that have workers of their own.
    """
    if not dedicated:
        return None
    others = Cluster.objects.exclude(slug__in=dedicated)
    served = Cluster.objects.filter(slug=slug) if slug else others
    return list(served.order_by("pk").values_list("pk", flat=True))
