"""The calendar of hours: every cluster's windows of some days, in one statement."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Greatest

from metering.domain.calendar import Day, HourFact, days_of
from metering.domain.window_state import WindowState
from metering.models import ExceptionState, MeteringWindow


@dataclass(frozen=True)
class ClusterCalendar:
    """One cluster's days.

    Attributes:
        waiting: Hours that wait for a person.
        open_exceptions: Causes that still want one.
    """

    slug: str
    name: str
    days: tuple[Day, ...]
    waiting: int
    open_exceptions: int


def window_calendar(
    windows: QuerySet[MeteringWindow], *, begin: date, end: date
) -> tuple[ClusterCalendar, ...]:
    """Return the days of [begin, end) of every cluster that has a window in them, by slug.

    Args:
        windows: Those the caller may see.
        begin: First UTC day.
        end: The day after the last.
    """
    rows = (
        windows.filter(start_at__gte=_midnight(begin), start_at__lt=_midnight(end))
        .annotate(
            seen=Greatest("coverage", "watch_coverage"),
            wanting=Count("exceptions", filter=Q(exceptions__state=ExceptionState.OPEN)),
        )
        .order_by("cluster__slug", "start_at")
        .values_list(
            "cluster__slug",
            F("cluster__name"),
            "id",
            "start_at",
            "state",
            "seen",
            "sources",
            "record_count",
            "wanting",
        )
    )
    by_cluster: dict[tuple[str, str], list[HourFact]] = defaultdict(list)
    for slug, name, window_id, start_at, state, seen, sources, records, wanting in rows:
        by_cluster[slug, name].append(
            HourFact(
                window_id=window_id,
                start_at=start_at.astimezone(UTC),
                state=WindowState(state),
                coverage=seen,
                sources=tuple(sources),
                records=records,
                open_exceptions=wanting,
            )
        )
    return tuple(
        ClusterCalendar(
            slug=slug,
            name=name,
            days=days_of(facts, begin=begin, end=end),
            waiting=sum(fact.state in {WindowState.GAP, WindowState.QUARANTINED} for fact in facts),
            open_exceptions=sum(fact.open_exceptions for fact in facts),
        )
        for (slug, name), facts in by_cluster.items()
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)
