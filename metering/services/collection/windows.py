"""Windows: partitions made, due hours opened, and some of them leased for a worker.

Windows come from the clock and the clusters, never from messages: a failed scheduler delays an
invoice, but no window is missed.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.hour_decisions import Shown
from metering.domain.collection.windows import (
    DEFAULT_POLICY,
    SCRAPES_AFTER_END,
    GapPolicy,
    MeteringPolicy,
    WindowState,
)
from metering.domain.corrections.exceptions import QUARANTINED_SENTENCE, REMEDIES, ExceptionKind
from metering.domain.errors import PartitionRangeError
from metering.selectors.allocations.rows import SettledFacts
from metering.selectors.locks import try_tick_lock
from metering.services.collection.composed import ClaimedWindow, Hour, target_of
from tenants.domain.archives import ArchivedTable
from tenants.models import Cluster
from tenants.selectors.archives import is_archived

logger = structlog.get_logger(__name__)

MONTHS_MAX: Final = 24
MONTHS_AHEAD = 3
# Looking for a name takes no lock. Names are those that the owner's function gives.
_IS_MISSING: Final = """
SELECT EXISTS (
  SELECT FROM generate_series(0, %(months)s - 1) AS step
   WHERE to_regclass('public.metering_usagerecord_' || to_char(
     date_trunc('month', %(from_month)s::timestamptz AT TIME ZONE 'UTC')
       + make_interval(months => step), 'YYYY_MM')) IS NULL)
"""


def ensure_partitions(*, from_month: datetime, months: int) -> int:
    """Make the months' partitions that are missing; return how many were made.

    The runtime role owns no table, so a function of the owner's does it. It locks all usage, and
    is not called where nothing is missing.

    Args:
        from_month: Any moment of the first month.
        months: How many months, the first included.

    Raises:
        PartitionRangeError: Fewer than 1 month or more than 24.
    """
    if not 1 <= months <= MONTHS_MAX:
        raise PartitionRangeError(
            f"{months} months of partitions cannot be made at once.", field="months"
        )
    if not _is_missing(from_month=from_month, months=months):
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, %s)", [from_month, months])
        return int(cursor.fetchone()[0])


def ensure_each_month(moments: Iterable[datetime]) -> frozenset[datetime]:
    """Make the partition of each month that has none, newest first; return the months that have.

    Once the lock is not free, the other months that have none are left for the next call as well.
    A month whose usage is archived gets none until it is restored.
    """
    ready = set()
    is_free = True
    for month in sorted({month_of(moment) for moment in moments}, reverse=True):
        if _is_missing(from_month=month, months=1):
            if is_archived(ArchivedTable.USAGE, month):
                logger.warning("metering.partitions.archived", month=month.isoformat())
                continue
            is_free = is_free and try_partitions(from_month=month, months=1)
            if not is_free:
                continue
        ready.add(month)
    return frozenset(ready)


def try_partitions(*, from_month: datetime, months: int) -> bool:
    """Make the months' partitions that are missing, unless the lock is not free in time.

    A query or a backup that reads usage for long only puts it off.

    Raises:
        PartitionRangeError: As `ensure_partitions` does, which has the same arguments.
    """
    try:
        ensure_partitions(from_month=from_month, months=months)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        logger.warning("metering.partitions.postponed", reason=str(error).partition("\n")[0])
        return False
    return True


def month_of(moment: datetime) -> datetime:
    """Return the begin of a moment's month, UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _is_missing(*, from_month: datetime, months: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_IS_MISSING, {"from_month": from_month, "months": months})
        return bool(cursor.fetchone()[0])


TICK: Final = "metering.tick_windows"
"""The owner of the lock: that of the task and of `manage.py tick`."""
OPENED_MAX = 20_000
"""Windows opened by one call: more than two years of hours of one cluster; the rest follows."""
LEASED_MAX = 100
RECORDS_TOGETHER_MAX: Final = 30_000
"""Usage records of hours that are observed together, by the hour before: 5,000 pods for 6 hours."""
FORMER_HOURS: Final = 6
"""How far back the size of a window is looked up: past a gap, before a cluster changes much."""


# Newest first: an old hour that cannot be opened yet keeps none waiting that can.
# Counting a cluster's hours is cheap; only where some are missing is each of them looked for.
_MISSING = """
WITH metered AS (
  SELECT c.id, c.wait, c.first_hour,
         LEAST(LEAST(%(at)s, clock_timestamp()) - interval '1 hour' - c.wait,
           c.ends_at - interval '1 microsecond') AS until
    FROM (
      SELECT cluster.id, LEAST(cluster.closed_at, cluster.metered_until) AS ends_at,
             make_interval(secs => GREATEST(%(lateness)s,
               %(scrapes)s * cluster.scrape_interval_seconds)) AS wait,
             date_trunc('hour', cluster.metered_from + interval '1 hour' - interval '1 microsecond',
               'UTC') AS first_hour
        FROM tenants_cluster cluster
       WHERE cluster.state = 'active' OR cluster.closed_at IS NOT NULL) c),
behind AS MATERIALIZED (
  SELECT m.* FROM metered m
   WHERE m.until >= m.first_hour
     AND floor(extract(epoch FROM m.until - m.first_hour) / 3600) + 1 > (
       SELECT count(*) FROM metering_meteringwindow w
        WHERE w.cluster_id = m.id AND w.start_at >= m.first_hour AND w.start_at <= m.until))
SELECT b.id, hour, hour + interval '1 hour' + b.wait
  FROM behind b
 CROSS JOIN LATERAL generate_series(b.first_hour, b.until, interval '1 hour') AS hour
 WHERE NOT EXISTS (
   SELECT FROM metering_meteringwindow w WHERE w.cluster_id = b.id AND w.start_at = hour)
 ORDER BY hour DESC, b.id
 LIMIT %(limit)s
"""
_OPEN = """
INSERT INTO metering_meteringwindow (cluster_id, start_at, state, fence, attempt, failures,
  accepts_low_coverage, lease_owner, not_before, sources, evidence, record_count, record_digest,
  last_error)
SELECT m.cluster_id, m.hour, 'open', 0, 0, 0, false, '', m.due_at, '[]', '[]', 0, '', ''
  FROM unnest(%(clusters)s::uuid[], %(hours)s::timestamptz[], %(due_at)s::timestamptz[])
    AS m(cluster_id, hour, due_at)
 ORDER BY m.hour, m.cluster_id
ON CONFLICT (cluster_id, start_at) DO NOTHING
"""


def open_due_windows(*, at: datetime, policy: MeteringPolicy = DEFAULT_POLICY) -> int:
    """Make the row of every hour that is due by now; return how many were new.

    Two statements over all clusters. No hour is opened that is not over by the database's clock,
    whatever `at` is. Every hour from the one from which a cluster is metered until the one from
    which it no longer is, or in which it was closed, is opened if it has no window, at most 20,000
    at once. An hour of a month that has no partition yet is left for the next call. While another
    opens windows there is nothing to do.
    """
    with transaction.atomic():
        if not try_tick_lock(TICK):
            return 0
        with connection.cursor() as cursor:
            cursor.execute(
                _MISSING,
                {
                    "at": at,
                    "lateness": policy.lateness_seconds,
                    "scrapes": SCRAPES_AFTER_END,
                    "limit": OPENED_MAX,
                },
            )
            missing = cursor.fetchall()
            ready = ensure_each_month(hour for _, hour, _ in missing)
            rows = [row for row in missing if month_of(row[1]) in ready]
            clusters, hours, due_at = zip(*rows, strict=True) if rows else ((), (), ())
            cursor.execute(
                _OPEN,
                {"clusters": list(clusters), "hours": list(hours), "due_at": list(due_at)},
            )
            opened = int(cursor.rowcount)
        crashpoint("open.before_commit")
    crashpoint("open.after_commit")
    return opened


def lease_values(row: str, *, leased: str, given_up: str, expired: str = "") -> str:
    """Return the columns that lease a row, or give it up after too many leases that expired.

    `expired` says how many did, where the row's `attempt` does not.
    """
    expired = expired or f"{row}.attempt"
    is_over = f"{expired} >= %(attempts_max)s"
    return f"""fence = {row}.fence + 1, attempt = {expired} + 1,
       state = CASE WHEN {is_over} THEN '{given_up}' ELSE '{leased}' END,
       lease_owner = CASE WHEN {is_over} THEN '' ELSE %(worker)s END,
       lease_until = CASE WHEN {is_over} THEN NULL
         ELSE clock_timestamp() + make_interval(secs => %(lease)s) END,
       last_error = CASE WHEN {is_over} THEN %(sentence)s ELSE {row}.last_error END"""


def lease_rows(  # noqa: PLR0913 - Values of one statement; all are keyword only.
    statement: str,
    *,
    worker: str,
    limit: int,
    at: datetime | None,
    policy: MeteringPolicy,
    failpoint: str,
    leased: str,
    **values: str | int | UUID | list[UUID] | None,
) -> list[tuple[Any, ...]]:
    """Lease due rows for a worker; return those in the leased state, [] when nothing is due.

    Where all rows were given up, the next ones are leased instead.
    """
    parameters = {
        **values,
        "at": at,
        "limit": min(limit, LEASED_MAX),
        "attempts_max": policy.attempts_max,
        "worker": worker[:64],
        "lease": policy.lease_seconds,
    }
    while True:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                rows = cursor.fetchall()
            crashpoint(f"{failpoint}.before_commit")
        crashpoint(f"{failpoint}.after_commit")
        found = [row for row in rows if row[0] == leased]
        if found or not rows:
            return found


# Hours that follow are leased with the first one only if none of them was tried before: one that
# stopped its worker, or was refused, is observed alone. A part's lease counts once it is over.
_EXPIRED: Final = "GREATEST(w.attempt, due.lost_part)"
_CLAIM = f"""
WITH longest_due AS (
  SELECT id, cluster_id, start_at, attempt = 0 AND failures = 0 AND gap_policy = ''
         AND NOT accepts_low_coverage AS is_new
    FROM metering_meteringwindow
   WHERE state IN ('open', 'collecting', 'collected', 'reconciled')
     AND not_before <= LEAST(%(at)s, clock_timestamp())
     AND (state = 'open' OR (state = 'collecting' AND lease_until <= clock_timestamp()))
     AND (%(clusters)s::uuid[] IS NULL OR cluster_id = ANY (%(clusters)s::uuid[]))
     AND (cluster_id <> ALL(%(avoided)s::uuid[]) OR gap_policy <> '' OR accepts_low_coverage)
   ORDER BY not_before, start_at, cluster_id
   LIMIT %(limit)s
   FOR NO KEY UPDATE SKIP LOCKED),
following AS (
  SELECT w.id FROM longest_due first
    JOIN metering_meteringwindow w ON w.cluster_id = first.cluster_id
     AND w.start_at > first.start_at
     AND w.start_at < first.start_at + make_interval(hours => LEAST(%(together)s, (
           SELECT CASE WHEN before.record_count > %(undivided_max)s THEN 1
                  ELSE %(records_max)s / GREATEST(before.record_count, 1) END
             FROM metering_meteringwindow before
            WHERE before.cluster_id = first.cluster_id AND before.start_at < first.start_at
            ORDER BY before.start_at DESC LIMIT 1)))
   WHERE first.is_new AND first.cluster_id <> ALL(%(alone)s::uuid[])
     AND w.state = 'open' AND w.attempt = 0 AND w.failures = 0
     AND w.gap_policy = '' AND NOT w.accepts_low_coverage
     AND w.not_before <= LEAST(%(at)s, clock_timestamp())
     AND NOT EXISTS (SELECT FROM metering_windowdivision d
                      WHERE d.window_id IN (w.id, first.id))
   FOR NO KEY UPDATE OF w SKIP LOCKED),
due AS (
  SELECT id, (SELECT max(p.attempt) FROM metering_windowpart p WHERE p.division_id = found.id
                 AND p.state = 'leased' AND p.lease_until <= clock_timestamp()) AS lost_part
    FROM (SELECT id FROM longest_due UNION SELECT id FROM following) found),
claimed AS (
UPDATE metering_meteringwindow w
   SET {lease_values("w", leased="collecting", given_up="quarantined", expired=_EXPIRED)}
  FROM due WHERE w.id = due.id
RETURNING w.state, w.id, w.cluster_id, w.start_at, w.fence, w.attempt, w.failures,
          w.accepts_low_coverage, w.gap_policy, w.decided_on,
          clock_timestamp() AS claimed_at,
          EXISTS (SELECT FROM metering_windowdivision d WHERE d.window_id = w.id) AS is_divided,
          (SELECT max(f.record_count) FROM metering_meteringwindow f
            WHERE f.cluster_id = w.cluster_id AND f.start_at < w.start_at
              AND f.start_at >= w.start_at - make_interval(hours => %(former_hours)s)
              AND f.collected_at IS NOT NULL) AS former_records),
reported AS (
INSERT INTO metering_meteringexception AS e (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT cluster_id, id, start_at, %(quarantined)s, '', '', %(sentence)s, %(remedy)s, 0,
       jsonb_build_object('claims', attempt - 1), 'open', LEAST(%(at)s, clock_timestamp()), ''
  FROM claimed WHERE state = 'quarantined'
ON CONFLICT (window_id, kind, subject) DO UPDATE
   SET details = EXCLUDED.details, state = 'open', resolved_at = NULL, resolved_by_id = NULL,
       resolution = '')
SELECT * FROM claimed
"""  # noqa: S608 - Constants.


def claim_windows(  # noqa: PLR0913 - Values of one statement; all are keyword only.
    *,
    worker: str,
    limit: int,
    clusters: Collection[UUID] | None = None,
    avoided: Collection[UUID] = (),
    alone: Collection[UUID] | None = None,
    at: datetime | None = None,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> list[ClaimedWindow]:
    """Claim due windows for a worker, longest due first, skipping those of other workers.

    An hour is due from its end on, so a backlog is metered oldest first; one whose source did not
    respond is due again after a pause, behind the hours that became due meanwhile. All due hours of
    a cluster whose source answers no worker are delayed at once, so that it costs one attempt per
    pause. A claim lasts `policy.lease_seconds` by the database's clock. A window whose claims keep
    expiring is quarantined with an exception instead of claimed again; the next ones are claimed
    instead, so the result is empty only when nothing is due.

    Args:
        worker: Name of the worker, for people.
        limit: How many at most; never more than 100.
        clusters: Only of these; None for any.
        avoided: Not of these clusters, whose sources the worker could not reach; but their hours
            that a person decided on.
        alone: Clusters whose hours are each claimed alone; of others the due hours after it, up to
            `policy.hours_together_max`, that were never tried and are small enough to be observed
            together. None for all.
        at: Which retries are due; None takes the database's clock, and no later time counts.
        policy: Lease and attempts.
    """
    rows = lease_rows(
        _CLAIM,
        worker=worker,
        limit=limit,
        at=at,
        policy=policy,
        failpoint="claim",
        leased=WindowState.COLLECTING,
        clusters=None if clusters is None else list(clusters),
        together=1 if alone is None else policy.hours_together_max,
        alone=list(alone or ()),
        records_max=RECORDS_TOGETHER_MAX,
        undivided_max=policy.pods_undivided_max,
        avoided=list(avoided),
        quarantined=ExceptionKind.QUARANTINED.value,
        sentence=QUARANTINED_SENTENCE,
        remedy=REMEDIES[ExceptionKind.QUARANTINED],
        former_hours=FORMER_HOURS,
    )
    claimed = sorted(rows, key=lambda row: (row[3], row[2]))
    clusters = Cluster.objects.in_bulk({row[2] for row in claimed})
    hours = Counter(row[2] for row in claimed)
    settled = {key: SettledFacts(is_shared=count > 1) for key, count in hours.items()}
    return [_claimed(row, cluster=clusters[row[2]], settled=settled[row[2]]) for row in claimed]


def _claimed(row: tuple[Any, ...], *, cluster: Cluster, settled: SettledFacts) -> ClaimedWindow:
    _, window_id, _, start_at, fence, attempt, failures, accepts, gap_policy, *rest = row
    decided_on, claimed_at, is_divided, former_records = rest
    return ClaimedWindow(
        id=window_id,
        hour=Hour(cluster.pk, start_at, target_of(cluster), cluster.is_watched, settled),
        fence=fence,
        attempt=attempt,
        failures=failures,
        accepts_low_coverage=accepts,
        claimed_at=claimed_at,
        gap_policy=GapPolicy(gap_policy) if gap_policy else None,
        decided_on=Shown.from_json(json.loads(decided_on)),
        is_divided=is_divided,
        former_records=former_records,
    )


def hour_of(cluster: Cluster, *, start_at: datetime, is_watched: bool) -> Hour:
    """Return an hour of a cluster."""
    return Hour(cluster.pk, start_at, target_of(cluster), is_watched=is_watched)
