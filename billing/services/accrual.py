"""Accrual: sealed usage becomes charges with their price pinned, set-based and exactly once.

A posted correction of usage is charged by the same statements, at the price of the hour it
corrects. One of a month that is still open joins its charges; one of a closed month is posted to
the next open one, where it makes a line of its own.

`billing.domain.pricing.rating` says the same in plain Python. The statements are the same few
whatever the number of pods, prices and projects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from billing.selectors.locks import Shared, lease_windows, share_for_accrual
from billing.selectors.pending import (
    Extents,
    corrected_hours,
    correction_extents,
    sealed_hours,
    unpriced_extents,
)
from billing.services.periods import ensure_periods
from billing.services.rating_statements import CORRECTIONS, WINDOWS, Accrued, rate
from metering.selectors.collection.plans import prefer_hash_joins
from tenants.domain.actors import Actor
from tenants.services.audit import record

WINDOWS_PER_CALL_MAX = 200
"""Keeps a transaction under a second with some 200 pods a window; closings wait so long for it."""
NEVER_RATED: Final = -1
"""Mark of usage that was added up and not rated yet: every organization's mark is above it."""


@dataclass(frozen=True)
class AccrualResult:
    """What one call did; all 0 when there was nothing left to do."""

    windows: int
    complete: int
    charges: int
    unit_seconds: int
    exceptions: int


def accrue_windows(
    *,
    window_ids: list[int],
    actor: Actor,
    at: datetime,
    organization_ids: Sequence[UUID] | None = None,
) -> AccrualResult:
    """Charge the metered usage of sealed windows and note what has no price; charge nothing twice.

    Usage is added up once, by window and organization; what of it is not charged is rated when it
    is new, and again when a price or an assignment of the organization's books has changed. A
    charge is posted to the period of its hour, or to the next open one once that is closed.

    Windows that are not sealed, or that another worker has, are left out. So are organizations
    whose period is locked by a closing: they stay pending. A second call changes nothing.

    Args:
        window_ids: At most WINDOWS_PER_CALL_MAX windows.
        actor: The account that accrues.
        at: When.
        organization_ids: Whose usage is rated; None for all of it. With none it is added up only.

    Raises:
        ValueError: Too many windows for one transaction.
    """
    if len(window_ids) > WINDOWS_PER_CALL_MAX:
        raise ValueError(f"At most {WINDOWS_PER_CALL_MAX} windows are accrued in one transaction.")
    with transaction.atomic():
        prefer_hash_joins()
        _add_up(window_ids, at=at)
        leased = lease_windows(window_ids)
        hours = sealed_hours(leased)
        extents = unpriced_extents(leased, organization_ids=organization_ids)
        shared = _share(extents, actor=actor, at=at)
        values = {"windows": leased, "hours": hours, "at": at, **vars(shared)}
        rated = _rate(WINDOWS, values)
        changed, complete = _close(leased)
        is_quiet = rated.is_quiet and not changed
        result = AccrualResult(
            windows=0 if is_quiet else len(leased),
            complete=complete,
            charges=rated.charges,
            unit_seconds=rated.unit_seconds,
            exceptions=rated.exceptions,
        )
        if result.windows:
            record(
                actor=actor,
                at=at,
                action="billing:charge:accrue",
                object_kind="metering_window",
                object_id=f"{min(window_ids)}-{max(window_ids)}",
                facts={"windows": result.windows, **_facts(result)},
            )
    return result


def accrue_corrections(*, correction_ids: list[UUID], actor: Actor, at: datetime) -> AccrualResult:
    """Charge posted corrections and note what has no price; charge nothing twice.

    What is not posted is left out. A second call for the same corrections changes nothing.

    Args:
        correction_ids: At most WINDOWS_PER_CALL_MAX corrections.
        actor: The account that accrues.
        at: When.

    Raises:
        ValueError: Too many corrections for one transaction.
    """
    if len(correction_ids) > WINDOWS_PER_CALL_MAX:
        raise ValueError(f"At most {WINDOWS_PER_CALL_MAX} corrections are accrued at once.")
    with transaction.atomic():
        prefer_hash_joins()
        shared = _share(correction_extents(correction_ids), actor=actor, at=at)
        hours = corrected_hours(correction_ids)
        values = {"corrections": correction_ids, "hours": hours, "at": at, **vars(shared)}
        rated = _rate(CORRECTIONS, values)
        is_quiet = rated.is_quiet and not (rated.complete or rated.fresh)
        result = AccrualResult(
            windows=0 if is_quiet else rated.rows,
            complete=rated.complete,
            charges=rated.charges,
            unit_seconds=rated.unit_seconds,
            exceptions=rated.exceptions,
        )
        if result.windows:
            record(
                actor=actor,
                at=at,
                action="billing:charge:accrue_late",
                object_kind="usage_correction",
                object_id=correction_ids[0],
                facts={"corrections": [str(one) for one in correction_ids], **_facts(result)},
            )
    return result


@dataclass(frozen=True)
class _Rated:
    charges: int
    unit_seconds: int
    exceptions: int
    resolved: int
    rows: int
    complete: int
    fresh: int

    @property
    def is_quiet(self) -> bool:
        return not (self.charges or self.exceptions or self.resolved)


def _add_up(window_ids: list[int], *, at: datetime) -> None:
    """Store what each organization used in windows that are new.

    Their hours are those of the rows that were stored: a window that is sealed between two
    statements is added up with its usage, or left out.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ADD_WINDOWS, {"windows": window_ids, "at": at})
        fresh = cursor.fetchall()
        if fresh:
            windows, hours = zip(*fresh, strict=True)
            values: dict[str, Any] = {
                "windows": list(windows),
                "hours": sorted(set(hours)),
                "at": at,
                "never": NEVER_RATED,
            }
            cursor.execute(_ADD_USAGE, values)


def _share(extents: Extents, *, actor: Actor, at: datetime) -> Shared:
    """Open missing periods and keep what charges depend on as it is."""
    ensure_periods(extents, actor=actor, at=at)
    return share_for_accrual(extents)


def _ensure_partitions(hours: Sequence[datetime]) -> None:
    """Make the partitions of charges that hours lack; nothing is locked where none is missing."""
    with connection.cursor() as cursor:
        cursor.execute(_PARTITIONS, {"hours": list(hours)})


_PARTITIONS: Final = """
SELECT billing_ensure_charge_partitions(missing.hours)
  FROM (SELECT array_agg(hour) AS hours FROM unnest(%(hours)s::timestamptz[]) AS hour
         WHERE to_regclass('public.billing_charge_' || to_char(hour AT TIME ZONE 'UTC', 'YYYY_MM'))
               IS NULL) missing
 WHERE missing.hours IS NOT NULL
"""


def _rate(accrued: Accrued, values: dict[str, Any]) -> _Rated:
    if not values["organization_ids"]:
        return _Rated(0, 0, 0, 0, 0, 0, 0)
    _ensure_partitions(values["hours"])
    with connection.cursor() as cursor:
        cursor.execute(rate(accrued), values)
        return _Rated(*cursor.fetchone())


def _close(window_ids: list[int]) -> tuple[int, int]:
    """Add up the organizations of windows; return how many windows changed, and are complete."""
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE, {"windows": window_ids})
        changed, complete = cursor.fetchone()
    return int(changed), int(complete)


def _facts(result: AccrualResult) -> dict[str, int]:
    return {
        "complete": result.complete,
        "charges": result.charges,
        "unit_seconds": result.unit_seconds,
        "exceptions": result.exceptions,
    }


# A window that another transaction adds up meanwhile is waited for, and then no longer new.
_ADD_WINDOWS = """
INSERT INTO billing_accruedwindow
  (window_id, cluster_id, window_start, usage_unit_seconds, charged_unit_seconds, is_complete,
   accrued_at)
SELECT w.id, w.cluster_id, w.start_at, 0, 0, false, %(at)s
  FROM metering_sealed_window w
 WHERE w.id = ANY(%(windows)s)
 ORDER BY w.id
ON CONFLICT (window_id) DO NOTHING
RETURNING window_id, window_start
"""
_ADD_USAGE = """
INSERT INTO billing_accruedusage
  (window_id, organization_id, window_start, used_unit_seconds, charged_unit_seconds,
   unpriced_unit_seconds, price_mark, accrued_at)
SELECT u.window_id, u.organization_id, u.window_start, sum(u.unit_seconds)::bigint, 0,
       sum(u.unit_seconds)::bigint, %(never)s, %(at)s
  FROM metering_sealed_usage u
 WHERE u.window_id = ANY(%(windows)s) AND u.window_start = ANY(%(hours)s)
   AND u.correction_id IS NULL
 GROUP BY 1, 2, 3
HAVING sum(u.unit_seconds) <> 0
 ORDER BY 1, 2
"""
_CLOSE = """
WITH totals AS (
  SELECT w.window_id, coalesce(sum(u.used_unit_seconds), 0)::bigint AS used,
         coalesce(sum(u.charged_unit_seconds), 0)::bigint AS charged,
         coalesce(sum(u.unpriced_unit_seconds), 0) = 0 AS is_complete, max(u.accrued_at) AS at
    FROM billing_accruedwindow w
    LEFT JOIN billing_accruedusage u ON u.window_id = w.window_id
   WHERE w.window_id = ANY(%(windows)s)
   GROUP BY w.window_id
),
changed AS (
  UPDATE billing_accruedwindow w
     SET usage_unit_seconds = t.used, charged_unit_seconds = t.charged,
         is_complete = t.is_complete, accrued_at = coalesce(t.at, w.accrued_at)
    FROM totals t
   WHERE w.window_id = t.window_id AND w.window_id = ANY(%(windows)s) AND NOT w.is_complete
     AND (w.usage_unit_seconds, w.charged_unit_seconds, w.is_complete)
         IS DISTINCT FROM (t.used, t.charged, t.is_complete)
  RETURNING w.is_complete
)
SELECT count(*), count(*) FILTER (WHERE is_complete) FROM changed
"""
