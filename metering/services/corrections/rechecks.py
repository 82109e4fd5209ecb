"""Rechecks: which sealed windows need one, and leasing some of them for a worker.

They follow from the clock and the tables, never from messages: the next scheduler creates what a
failed one did not. Each is created once, by any scheduler.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.windows import (
    DEFAULT_POLICY,
    WINDOW,
    GapPolicy,
    MeteringPolicy,
    WindowState,
)
from metering.domain.corrections.correction import RecheckReason, RecheckState
from metering.domain.corrections.exceptions import MISSED_CLAIMS
from metering.domain.errors import (
    WindowNotFoundError,
    WindowNotSealedError,
    WindowTooOldError,
    WindowWaivedError,
)
from metering.models import MeteringWindow, WindowRecheck
from metering.selectors.locks import try_tick_lock
from metering.services.collection.composed import LeasedHour
from metering.services.collection.windows import hour_of, lease_rows, lease_values
from tenants.domain.actors import Actor, system_actor
from tenants.domain.archives import ArchivedTable
from tenants.models import Cluster
from tenants.selectors.archives import archived_hour, require_rows
from tenants.services.audit import record

# A window that was collected after a moment has observed what a recheck at that moment would
# observe. Of several that are due at once only the latest is made. Compared with usage that is
# archived, all that is known of an hour would seem to be new.
MAKE: Final = f"""
WITH sealed AS NOT MATERIALIZED (
  SELECT w.id, w.cluster_id, w.start_at, w.collected_at, w.catalogue_version
    FROM metering_meteringwindow w
   WHERE w.state = 'sealed' AND w.gap_policy <> 'waive' AND w.start_at > %(oldest)s
     AND w.collected_at IS NOT NULL AND NOT {archived_hour(ArchivedTable.USAGE, "w.start_at")}
),
timed AS (
  SELECT DISTINCT ON (w.id) w.id, 'scheduled' AS reason, s.after::text AS key, s.after,
         w.start_at + interval '1 hour' + make_interval(secs => s.after) AS not_before
    FROM sealed w CROSS JOIN unnest(%(seconds)s::integer[]) AS s(after)
   WHERE w.start_at > %(scheduled_from)s
     AND w.start_at + interval '1 hour' + make_interval(secs => s.after)
         <= LEAST(%(at)s, clock_timestamp())
     AND w.start_at + interval '1 hour' + make_interval(secs => s.after) > w.collected_at
     AND NOT EXISTS (
       SELECT FROM metering_windowrecheck r
        WHERE r.window_id = w.id AND r.reason = 'scheduled' AND r.after_seconds >= s.after)
   ORDER BY w.id, s.after DESC
),
bound AS (
  SELECT DISTINCT w.id, 'binding', b.id::text, NULL::integer, %(at)s::timestamptz
    FROM sealed w
    JOIN metering_meteringexception e
      ON e.window_id = w.id AND e.state = 'open' AND e.kind = 'unbound_namespace'
    JOIN tenants_namespacebinding b
      ON b.cluster_id = e.cluster_id AND b.namespace = e.namespace AND b.valid @> e.window_start
),
catalogued AS (
  SELECT DISTINCT w.id, 'catalogue', v.version::text, NULL::integer, %(at)s::timestamptz
    FROM sealed w
    JOIN metering_meteringexception e
      ON e.window_id = w.id AND e.state = 'open' AND e.kind IN ('unknown_device', 'unknown_node')
   CROSS JOIN (SELECT max(version) AS version FROM metering_catalogueversion) v
   WHERE w.catalogue_version < v.version
),
watched AS (
  SELECT w.id, 'watch', s.id::text, NULL::integer, %(at)s::timestamptz
    FROM sealed w
    JOIN metering_meteringexception e
      ON e.window_id = w.id AND e.kind = 'single_source' AND e.details ? %(missed_claims)s
   CROSS JOIN LATERAL (
     SELECT s.id FROM metering_watchspan s
      WHERE s.cluster_id = w.cluster_id AND s.begin_at > w.collected_at
      ORDER BY s.begin_at LIMIT 1) s
),
wanted(id, reason, key, after, not_before) AS (
  SELECT * FROM timed UNION ALL SELECT * FROM bound UNION ALL SELECT * FROM catalogued
   UNION ALL SELECT * FROM watched
)
INSERT INTO metering_windowrecheck (window_id, cluster_id, window_start, reason, key, after_seconds,
  note, requested_by, created_at, state, not_before)
SELECT w.id, w.cluster_id, w.start_at, n.reason, n.key, n.after, '', %(requested_by)s, %(at)s,
       'due', n.not_before
  FROM wanted n JOIN sealed w USING (id)
 WHERE NOT EXISTS (
   SELECT FROM metering_windowrecheck r
    WHERE (r.window_id, r.reason, r.key) = (n.id, n.reason, n.key))
 ORDER BY n.not_before, w.id
 LIMIT %(limit)s
ON CONFLICT (window_id, reason, key) DO NOTHING
"""  # noqa: S608 - Constants.


TICK: Final = "metering.tick_rechecks"
"""The owner of the lock: that of the task and of `manage.py tick`."""
MADE_MAX: Final = 20_000
"""Rechecks made by one call: a day of 280 clusters; the rest follows with the next."""
REMEMBERED_BY_ALL: Final = timedelta(days=14)
"""Retention of any source: Prometheus keeps 15 days unless it is set up otherwise. Scheduled
rechecks are created within it; a binding, a catalogue or a person may request older hours."""
CLOCK: Final = system_actor("metering.rechecks")
FAILED_SENTENCE: Final = "No worker that claimed this recheck ever reported back."


@dataclass(frozen=True, kw_only=True)
class ClaimedRecheck(LeasedHour):
    """One recheck of a sealed hour that a worker may do.

    Attributes:
        accepts_low_coverage: Whether a person accepted the observation of the window.
        claimed_at: When it was claimed, by the database's clock: no work on it has an earlier time.
        gap_policy: The decision about its unobserved time. When a person requests a recheck of a
            held hour, it is no longer held, so that what is known now is billed.
        coverage: How much of it the scrapes covered when it was sealed, 0 to 1; None without any.
        watch_coverage: How much of it the watch covered, likewise.
        records: How many usage records it had when it was sealed.
    """

    window_id: int
    reason: RecheckReason
    accepts_low_coverage: bool
    claimed_at: datetime
    gap_policy: GapPolicy | None = None
    coverage: Decimal | None = None
    watch_coverage: Decimal | None = None
    records: int = 0


def make_due_rechecks(*, at: datetime, policy: MeteringPolicy = DEFAULT_POLICY) -> int:
    """Create every recheck that is due by now; return how many were new.

    One statement: the clock's at set times after each sealed hour, one for each new binding of a
    namespace whose usage an hour holds, one for each new catalogue where a device was unknown, and
    one when the watch returns that alone reports an hour's device claims. Hours older than the
    sources' retention, waived ones and those whose usage is archived are skipped. While another
    process creates them there is nothing to do.
    """
    with transaction.atomic():
        if not try_tick_lock(TICK):
            return 0
        with connection.cursor() as cursor:
            cursor.execute(
                MAKE,
                {
                    "at": at,
                    "oldest": _oldest(policy, at=at),
                    "scheduled_from": at - REMEMBERED_BY_ALL,
                    "seconds": list(policy.recheck_seconds),
                    "requested_by": CLOCK.label,
                    "missed_claims": MISSED_CLAIMS,
                    "limit": MADE_MAX,
                },
            )
            made = int(cursor.rowcount)
        crashpoint("recheck.make.before_commit")
    crashpoint("recheck.make.after_commit")
    return made


def ask_recheck(
    *,
    window_id: int,
    reason: RecheckReason,
    note: str = "",
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> WindowRecheck:
    """Request a recheck of a sealed window now; two requests at one moment count once.

    Raises:
        WindowNotFoundError: There is no such window.
        WindowNotSealedError: It is not sealed; metering it again replaces all of it.
        WindowWaivedError: A person decided that nothing is billed for it.
        WindowTooOldError: It is older than the sources' retention.
        MonthArchivedError: Its usage is in an archive.
    """
    with transaction.atomic():
        window = MeteringWindow.objects.select_for_update().filter(id=window_id).first()
        if window is None:
            raise WindowNotFoundError("There is no such window.")
        _require_checkable(window, at=at, policy=policy)
        asked, is_new = WindowRecheck.objects.get_or_create(
            window=window,
            reason=reason.value,
            key=at.isoformat(),
            defaults={
                "cluster_id": window.cluster_id,
                "window_start": window.start_at,
                "note": note.strip(),
                "requested_by": actor.label,
                "created_at": at,
                "not_before": at,
            },
        )
        if is_new:
            record(
                actor=actor,
                at=at,
                action="metering:window:ask_recheck",
                object_kind="metering_window",
                object_id=window.pk,
                facts={"reason": reason.value, "note": asked.note, "recheck": asked.pk},
            )
    return asked


def _require_checkable(window: MeteringWindow, *, at: datetime, policy: MeteringPolicy) -> None:
    if window.state != WindowState.SEALED:
        raise WindowNotSealedError(
            f"The window is {window.state}, not sealed.", facts={"state": window.state}
        )
    if window.gap_policy == GapPolicy.WAIVE:
        raise WindowWaivedError("The hour was waived.")
    if window.start_at <= _oldest(policy, at=at):
        raise WindowTooOldError("The sources no longer tell of the hour.")
    require_rows(ArchivedTable.USAGE, begin_at=window.start_at, end_at=window.start_at + WINDOW)


def _oldest(policy: MeteringPolicy, *, at: datetime) -> datetime:
    """Return the start at or before which an hour is too old to be queried."""
    return at - timedelta(seconds=policy.recheck_retention_seconds)


_CLAIM = f"""
WITH due AS (
  SELECT r.id FROM metering_windowrecheck r
   WHERE r.state IN ('due', 'checking') AND r.not_before <= LEAST(%(at)s, clock_timestamp())
     AND (r.state = 'due' OR r.lease_until <= clock_timestamp())
     AND (%(clusters)s::uuid[] IS NULL OR r.cluster_id = ANY (%(clusters)s::uuid[]))
   ORDER BY r.not_before, r.id
   LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED)
UPDATE metering_windowrecheck r
   SET {lease_values("r", leased="checking", given_up="failed")},
       finished_at = CASE WHEN r.attempt >= %(attempts_max)s
         THEN LEAST(%(at)s, clock_timestamp()) END
  FROM due, metering_meteringwindow w
 WHERE r.id = due.id AND w.id = r.window_id
RETURNING r.state, r.not_before, r.id, r.fence, r.failures, r.reason, w.id, w.cluster_id,
          w.start_at, w.accepts_low_coverage, w.gap_policy, w.is_watched, w.coverage,
          w.watch_coverage, clock_timestamp() AS claimed_at, w.record_count
"""  # noqa: S608 - Constants.


def claim_rechecks(
    *,
    worker: str,
    limit: int,
    clusters: Collection[UUID] | None = None,
    at: datetime | None = None,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> list[ClaimedRecheck]:
    """Claim due rechecks for a worker, longest due first, skipping those of other workers.

    A recheck whose claims keep expiring fails instead of being claimed again, and the next ones are
    claimed instead: the result is empty only when nothing is due.

    Args:
        worker: Name of the worker, for people.
        limit: How many at most; never more than 100.
        clusters: Only of these; None for any.
        at: Which are due; None takes the database's clock, and no later time counts.
        policy: Lease and attempts.
    """
    rows = lease_rows(
        _CLAIM,
        worker=worker,
        limit=limit,
        at=at,
        policy=policy,
        failpoint="recheck.claim",
        leased=RecheckState.CHECKING,
        clusters=None if clusters is None else list(clusters),
        sentence=FAILED_SENTENCE,
    )
    claimed = sorted(rows, key=lambda row: (row[1], row[2]))
    clusters = Cluster.objects.in_bulk({row[7] for row in claimed})
    return [_claimed(row, cluster=clusters[row[7]]) for row in claimed]


def _claimed(row: tuple[Any, ...], *, cluster: Cluster) -> ClaimedRecheck:
    _, _, recheck_id, fence, failures, reason, window_id, _, start_at, *columns = row
    accepts, gap_policy, is_watched, coverage, watch_coverage, claimed_at, records = columns
    if reason == RecheckReason.PERSON and gap_policy == GapPolicy.HOLD:
        accepts, gap_policy = False, ""
    return ClaimedRecheck(
        id=recheck_id,
        window_id=window_id,
        hour=hour_of(cluster, start_at=start_at, is_watched=is_watched),
        fence=fence,
        failures=failures,
        reason=RecheckReason(reason),
        accepts_low_coverage=accepts,
        claimed_at=claimed_at,
        gap_policy=GapPolicy(gap_policy) if gap_policy else None,
        coverage=coverage,
        watch_coverage=watch_coverage,
        records=records,
    )
