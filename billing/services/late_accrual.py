"""Late accrual: posted usage corrections become charges, at the price of the hour they correct.

A correction of a month that is still open joins its charges; one of a closed month is posted to the
next open one, where it makes a line of its own. The statements are those of accrual.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from billing.selectors.locks import share_for_accrual
from billing.selectors.pending import corrected_hours, correction_extents
from billing.selectors.plans import prefer_hash_joins
from billing.services.accrual import WINDOWS_PER_CALL_MAX, AccrualResult
from billing.services.periods import ensure_periods
from billing.services.rating_statements import (
    CORRECTIONS,
    charge,
    note_exceptions,
    resolve_exceptions,
    usage_of,
)
from tenants.domain.actors import Actor
from tenants.services.audit import record


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
        extents = correction_extents(correction_ids)
        ensure_periods(extents, actor=actor, at=at)
        share_for_accrual(extents)
        result = _write(correction_ids, at=at)
        if result.windows:
            _record(result, correction_ids, actor=actor, at=at)
    return result


def _write(correction_ids: list[UUID], *, at: datetime) -> AccrualResult:
    given: dict[str, Any] = {
        "corrections": correction_ids,
        "hours": corrected_hours(correction_ids),
        "at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CHARGE, given)
        charges, unit_seconds = cursor.fetchone()
        cursor.execute(_NOTE_EXCEPTIONS, given)
        exceptions = cursor.rowcount
        cursor.execute(_RESOLVE_EXCEPTIONS, given)
        resolved = cursor.rowcount
        cursor.execute(_CLOSE, given)
        corrections, complete, fresh = cursor.fetchone()
    is_quiet = not (charges or exceptions or resolved or complete or fresh)
    return AccrualResult(
        windows=0 if is_quiet else corrections,
        complete=complete,
        charges=charges,
        unit_seconds=unit_seconds,
        exceptions=exceptions,
    )


def _record(
    result: AccrualResult, correction_ids: list[UUID], *, actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action="billing:charge:accrue_late",
        object_kind="usage_correction",
        object_id=correction_ids[0],
        facts={
            "corrections": [str(correction_id) for correction_id in correction_ids],
            "complete": result.complete,
            "charges": result.charges,
            "unit_seconds": result.unit_seconds,
            "exceptions": result.exceptions,
        },
    )


_CHARGE = charge(CORRECTIONS)
_NOTE_EXCEPTIONS = note_exceptions(CORRECTIONS)
_RESOLVE_EXCEPTIONS = resolve_exceptions(CORRECTIONS)
_CLOSE = f"""
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
   WHERE p.id = ANY(%(corrections)s)
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
