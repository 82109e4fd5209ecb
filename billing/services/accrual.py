"""Accrual: sealed usage becomes charges with their price pinned, set-based and exactly once.

A posted correction of usage is charged by the same statements, at the price of the hour it
corrects. One of a month that is still open joins its charges; one of a closed month is posted to
the next open one, where it makes a line of its own.

`billing.domain.rating` says the same in plain Python. The statements are the same few whatever the
number of pods, prices and projects.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from billing.selectors.locks import Shared, share_for_accrual
from billing.selectors.pending import (
    corrected_hours,
    correction_extents,
    extents_of,
    sealed_hours,
)
from billing.services.periods import ensure_periods
from billing.services.rating_statements import (
    CORRECTIONS,
    WINDOWS,
    Accrued,
    charge,
    note_exceptions,
    resolve_exceptions,
    usage_of,
)
from metering.selectors.collection.plans import prefer_hash_joins
from tenants.domain.actors import Actor
from tenants.services.audit import record

WINDOWS_PER_CALL_MAX = 200
"""Keeps a transaction under a second with some 200 pods a window; closings wait so long for it."""


@dataclass(frozen=True)
class AccrualResult:
    """What one call did; all 0 when there was nothing left to do."""

    windows: int
    complete: int
    charges: int
    unit_seconds: int
    exceptions: int


def accrue_windows(*, window_ids: list[int], actor: Actor, at: datetime) -> AccrualResult:
    """Charge the metered usage of sealed windows and note what has no price; charge nothing twice.

    A charge is posted to the period of its hour, or to the next open one once that is closed.
    Windows that are not sealed are left out, and so are organizations whose period is locked by a
    closing: those windows stay pending. A second call for the same windows changes nothing.

    Args:
        window_ids: At most WINDOWS_PER_CALL_MAX windows.
        actor: The account that accrues.
        at: When.

    Raises:
        ValueError: Too many windows for one transaction.
    """
    if len(window_ids) > WINDOWS_PER_CALL_MAX:
        raise ValueError(f"At most {WINDOWS_PER_CALL_MAX} windows are accrued in one transaction.")
    with transaction.atomic():
        prefer_hash_joins()
        hours = sealed_hours(window_ids)
        shared = _share(extents_of(window_ids, hours=hours), actor=actor, at=at)
        values = {"windows": window_ids, "hours": hours, "at": at, **asdict(shared)}
        result = _write(WINDOWS, _CLOSE_WINDOWS, values)
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
        values = {"corrections": correction_ids, "hours": hours, "at": at, **asdict(shared)}
        result = _write(CORRECTIONS, _CLOSE_CORRECTIONS, values)
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


def _share(extents: dict[UUID, tuple[datetime, datetime]], *, actor: Actor, at: datetime) -> Shared:
    """Open missing periods and keep what charges depend on as it is."""
    ensure_periods(extents, actor=actor, at=at)
    return share_for_accrual(extents)


def _write(accrued: Accrued, close: str, values: dict[str, Any]) -> AccrualResult:
    with connection.cursor() as cursor:
        cursor.execute(charge(accrued), values)
        charges, unit_seconds = cursor.fetchone()
        cursor.execute(note_exceptions(accrued), values)
        exceptions = cursor.rowcount
        cursor.execute(resolve_exceptions(accrued), values)
        resolved = cursor.rowcount
        cursor.execute(close, values)
        rows, complete, fresh = cursor.fetchone()
    is_quiet = not (charges or exceptions or resolved or complete or fresh)
    return AccrualResult(
        windows=0 if is_quiet else rows,
        complete=complete,
        charges=charges,
        unit_seconds=unit_seconds,
        exceptions=exceptions,
    )


def _facts(result: AccrualResult) -> dict[str, int]:
    return {
        "complete": result.complete,
        "charges": result.charges,
        "unit_seconds": result.unit_seconds,
        "exceptions": result.exceptions,
    }


_CLOSE_WINDOWS = f"""
WITH used AS (
  SELECT u.window_id, sum(u.unit_seconds)::bigint AS total FROM metering_sealed_usage u
   WHERE {WINDOWS.usage} AND u.window_start = ANY(%(hours)s) GROUP BY 1
),
charged AS (
  SELECT window_id, sum(unit_seconds)::bigint AS total
    FROM billing_charge r WHERE {WINDOWS.rows} GROUP BY 1
),
closed AS (
  INSERT INTO billing_accruedwindow AS a
    (window_id, cluster_id, window_start, usage_unit_seconds, charged_unit_seconds, is_complete,
     accrued_at)
  SELECT w.id, w.cluster_id, w.start_at, coalesce(u.total, 0), coalesce(c.total, 0),
         coalesce(u.total, 0) = coalesce(c.total, 0), %(at)s
    FROM metering_sealed_window w
    LEFT JOIN used u ON u.window_id = w.id
    LEFT JOIN charged c ON c.window_id = w.id
   WHERE w.id = ANY(%(windows)s)
   ORDER BY w.id
  ON CONFLICT (window_id) DO UPDATE
    SET usage_unit_seconds = excluded.usage_unit_seconds,
        charged_unit_seconds = excluded.charged_unit_seconds,
        is_complete = excluded.is_complete, accrued_at = excluded.accrued_at
    WHERE NOT a.is_complete
  RETURNING is_complete, (xmax = 0) AS is_fresh
)
SELECT count(*), count(*) FILTER (WHERE is_complete), count(*) FILTER (WHERE is_fresh) FROM closed
"""  # noqa: S608 - Put together from constants only.
_CLOSE_CORRECTIONS = f"""
WITH {usage_of(CORRECTIONS)},
used AS (SELECT correction_id, sum(unit_seconds)::bigint AS total FROM usage GROUP BY 1),
charged AS (
  SELECT correction_id, sum(unit_seconds)::bigint AS total
    FROM billing_charge r WHERE {CORRECTIONS.rows} GROUP BY 1
),
short AS (
  SELECT DISTINCT correction_id FROM billing_accrualexception r
   WHERE {CORRECTIONS.rows} AND r.resolved_at IS NULL
),
closed AS (
  INSERT INTO billing_accruedcorrection AS a
    (correction_id, organization_id, window_id, window_start, usage_unit_seconds,
     charged_unit_seconds, is_complete, accrued_at)
  SELECT p.id, p.organization_id, p.window_id, p.window_start, coalesce(u.total, 0),
         coalesce(c.total, 0),
         coalesce(u.total, 0) = coalesce(c.total, 0) AND s.correction_id IS NULL, %(at)s
    FROM metering_posted_correction p
    LEFT JOIN used u ON u.correction_id = p.id
    LEFT JOIN charged c ON c.correction_id = p.id
    LEFT JOIN short s ON s.correction_id = p.id
   WHERE p.id = ANY(%(corrections)s) AND p.organization_id = ANY(%(organization_ids)s)
   ORDER BY p.id
  ON CONFLICT (correction_id) DO UPDATE
    SET usage_unit_seconds = excluded.usage_unit_seconds,
        charged_unit_seconds = excluded.charged_unit_seconds,
        is_complete = excluded.is_complete, accrued_at = excluded.accrued_at
    WHERE NOT a.is_complete
  RETURNING is_complete, (xmax = 0) AS is_fresh
)
SELECT count(*), count(*) FILTER (WHERE is_complete), count(*) FILTER (WHERE is_fresh) FROM closed
"""  # noqa: S608 - Put together from constants only.
