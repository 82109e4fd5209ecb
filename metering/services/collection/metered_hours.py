"""What a change of the hours that are metered of a cluster would do, before it is made."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection

from metering.domain.collection.windows import DEFAULT_POLICY, WINDOW, MeteringPolicy, due_at
from metering.protocols import UsageSource
from metering.services.collection.composed import target_of
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.selectors.clock import database_now
from tenants.services.audit import audited_use

PREVIEWED_HOURS_MAX: Final = 20_000
"""More than two years; as many as one call opens."""

_HOURS = """
WITH missing AS (
  SELECT hour FROM generate_series(%(begin)s::timestamptz,
    LEAST(%(until)s::timestamptz, %(now)s) - interval '1 hour', interval '1 hour') AS hour
   WHERE NOT EXISTS (SELECT FROM metering_meteringwindow w
                      WHERE w.cluster_id = %(cluster)s AND w.start_at = hour)
   LIMIT %(limit)s),
outside AS (
  SELECT start_at, state IN ('sealed', 'reconciled') AS is_metered
    FROM metering_meteringwindow
   WHERE cluster_id = %(cluster)s AND start_at >= %(until)s::timestamptz)
SELECT (SELECT COALESCE(array_agg(hour ORDER BY hour), '{}') FROM missing),
       (SELECT count(*) FROM outside WHERE NOT is_metered),
       (SELECT count(*) FROM outside WHERE is_metered)
"""


@dataclass(frozen=True)
class MeteredHours:
    """What a change of a cluster's metered hours would do.

    Attributes:
        opened: Hours that would be opened now, oldest first.
        waived: Hours that are not metered yet and would be waived.
        kept: Hours outside that are metered already, and stay so.
        remembered_from: From which of the opened hours on the source has samples; None when it has
            none of them, or was not queried.
        source_error: Why the source did not respond; "" when it did.
    """

    opened: tuple[datetime, ...]
    waived: int
    kept: int
    remembered_from: datetime | None = None
    source_error: str = ""


def preview_metered_hours(
    *,
    cluster: Cluster,
    metered_from: datetime,
    metered_until: datetime | None,
    source: UsageSource,
    actor: Actor,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> MeteredHours:
    """Return what metering a cluster between two hours would open and waive; change nothing.

    The source is queried for at most 15 single hours, outside any transaction; a refused target is
    audited.

    Args:
        cluster: The cluster.
        metered_from: The first hour that would be metered.
        metered_until: The first hour that would no longer be metered; None for none.
        source: The source of its samples.
        actor: The person who requests the preview.
        policy: How long after its end an hour is due.
    """
    now = database_now()
    opened, waived, kept = _count(
        cluster.pk,
        begin=metered_from,
        until=min(filter(None, (metered_until, cluster.closed_at)), default=None),
        now=now,
    )
    interval = cluster.scrape_interval_seconds
    due = [
        hour
        for hour in opened
        if due_at(hour, lateness_seconds=policy.lateness_seconds, scrape_interval_seconds=interval)
        <= now
    ]
    if not due or not cluster.prometheus_url:
        return MeteredHours(tuple(due), waived, kept)
    try:
        with audited_use(slug=cluster.slug, actor=actor, at=now):
            remembered = _remembered_from(cluster, hours=due, source=source)
    except SourceUnavailableError as error:
        return MeteredHours(tuple(due), waived, kept, source_error=str(error))
    return MeteredHours(tuple(due), waived, kept, remembered_from=remembered)


def _count(
    cluster_id: UUID, *, begin: datetime, until: datetime | None, now: datetime
) -> tuple[list[datetime], int, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            _HOURS,
            {
                "cluster": cluster_id,
                "begin": begin,
                "until": until,
                "now": now,
                "limit": PREVIEWED_HOURS_MAX,
            },
        )
        opened, waived, kept = cursor.fetchone()
    return list(opened), int(waived), int(kept)


def _remembered_from(
    cluster: Cluster, *, hours: list[datetime], source: UsageSource
) -> datetime | None:
    """Return the oldest hour of which a source has samples, if it has them of every later one.

    Samples are purged oldest first, so halving the range finds where they begin.

    Raises:
        SourceUnavailableError: It does not respond.
    """
    target = target_of(cluster)

    def has_samples(hour: datetime) -> bool:
        found = source.observe(
            target, start_at=hour, end_at=hour + WINDOW, as_of=hour + WINDOW + timedelta(minutes=5)
        )
        return any(hour <= tick < hour + WINDOW for tick in found.ticks)

    low, high = 0, len(hours)
    while low < high:
        middle = (low + high) // 2
        if has_samples(hours[middle]):
            high = middle
        else:
            low = middle + 1
    return hours[low] if low < len(hours) else None
