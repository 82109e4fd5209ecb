"""Accrual: sealed usage becomes charges with their price pinned, set-based and exactly once.

`billing.domain.rating` says the same in plain Python. The statements are the same few whatever the
number of pods, prices and projects.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from billing.selectors.locks import share_for_accrual
from billing.selectors.pending import extents_of, sealed_hours
from billing.selectors.plans import prefer_hash_joins
from billing.services.periods import ensure_periods
from billing.services.rating_statements import (
    WINDOWS,
    charge,
    note_exceptions,
    resolve_exceptions,
    usage_of,
)
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
    Windows that are not sealed are left out. A second call for the same windows changes nothing.

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
        extents = extents_of(window_ids, hours=hours)
        ensure_periods(extents, actor=actor, at=at)
        share_for_accrual(extents)
        result = _write(window_ids, hours=hours, at=at)
        if result.windows:
            _record(result, window_ids, actor=actor, at=at)
    return result


def _write(window_ids: list[int], *, hours: list[datetime], at: datetime) -> AccrualResult:
    given: dict[str, Any] = {"windows": window_ids, "hours": hours, "at": at}
    with connection.cursor() as cursor:
        cursor.execute(_CHARGE, given)
        charges, unit_seconds = cursor.fetchone()
        cursor.execute(_NOTE_EXCEPTIONS, given)
        exceptions = cursor.rowcount
        cursor.execute(_RESOLVE_EXCEPTIONS, given)
        resolved = cursor.rowcount
        cursor.execute(_CLOSE_WINDOWS, given)
        windows, complete, fresh = cursor.fetchone()
    is_quiet = not (charges or exceptions or resolved or complete or fresh)
    return AccrualResult(
        windows=0 if is_quiet else windows,
        complete=complete,
        charges=charges,
        unit_seconds=unit_seconds,
        exceptions=exceptions,
    )


def _record(result: AccrualResult, window_ids: list[int], *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action="billing:charge:accrue",
        object_kind="metering_window",
        object_id=f"{min(window_ids)}-{max(window_ids)}",
        facts={
            "windows": result.windows,
            "complete": result.complete,
            "charges": result.charges,
            "unit_seconds": result.unit_seconds,
            "exceptions": result.exceptions,
        },
    )


_CHARGE = charge(WINDOWS)
_NOTE_EXCEPTIONS = note_exceptions(WINDOWS)
_RESOLVE_EXCEPTIONS = resolve_exceptions(WINDOWS)
_CLOSE_WINDOWS = f"""
WITH {usage_of(WINDOWS)},
used AS (SELECT window_id, sum(unit_seconds)::bigint AS total FROM usage GROUP BY 1),
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
