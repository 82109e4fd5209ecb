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
    """Charge the usage of sealed windows and note what has no price; charge nothing twice.

    A charge is posted to the period of its hour, or to the next open one once that is closed.
    Windows that are not sealed are left out. A second call for the same windows changes nothing.

    Args:
        window_ids: At most WINDOWS_PER_CALL_MAX windows.
        actor: Who lets it happen.
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


# Usage is added up first. Books, prices and periods are then looked up once per distinct hour, size
# and group, and joined back by equality: the planner is never asked to range-join the usage itself.
_USAGE = """
usage AS MATERIALIZED (
  SELECT u.window_id, u.window_start, u.cluster_id, u.organization_id, u.project_id, u.owner,
         u.size, u.price_group, sum(u.unit_seconds)::bigint AS unit_seconds
    FROM metering_sealed_usage u
   WHERE u.window_id = ANY(%(windows)s) AND u.window_start = ANY(%(hours)s)
   GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
  HAVING sum(u.unit_seconds) <> 0
)"""
_CHARGE = f"""
WITH {_USAGE},
hours AS MATERIALIZED (SELECT DISTINCT organization_id, window_start FROM usage),
terms AS MATERIALIZED (
  SELECT h.organization_id, h.window_start, a.price_book_id, posting.period_id
    FROM hours h
    JOIN billing_pricebookassignment a
      ON a.organization_id = h.organization_id AND a.valid @> h.window_start
   CROSS JOIN LATERAL (
     SELECT p.id AS period_id FROM billing_billingperiod p
      WHERE p.organization_id = h.organization_id AND p.state = 'open'
        AND upper(p.hours) > h.window_start
      ORDER BY lower(p.hours) LIMIT 1) posting
),
asked AS MATERIALIZED (
  SELECT DISTINCT t.price_book_id, u.window_start, u.size, u.price_group
    FROM usage u JOIN terms t USING (organization_id, window_start)
),
priced AS MATERIALIZED (
  SELECT q.*, found.price_id, found.unit_price, b.currency
    FROM asked q
    JOIN billing_pricebook b ON b.id = q.price_book_id
   CROSS JOIN LATERAL (
     SELECT p.id AS price_id, p.unit_price FROM billing_price p
      WHERE p.price_book_id = q.price_book_id AND p.size = q.size
        AND p.price_group IN (q.price_group, '*') AND p.valid @> q.window_start
      ORDER BY p.price_group = '*' LIMIT 1) found
),
made AS (
  INSERT INTO billing_charge
    (window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
     tier, price_id, unit_price, currency, unit_seconds, period_id, created_at)
  SELECT u.window_id, u.window_start, u.cluster_id, u.organization_id, u.project_id, u.owner,
         u.size, u.price_group, 0, p.price_id, p.unit_price, p.currency, u.unit_seconds,
         t.period_id, %(at)s
    FROM usage u
    JOIN terms t USING (organization_id, window_start)
    JOIN priced p USING (price_book_id, window_start, size, price_group)
   ORDER BY u.window_id, u.project_id, u.owner, u.size, u.price_group
  ON CONFLICT DO NOTHING
  RETURNING unit_seconds
)
SELECT count(*), coalesce(sum(unit_seconds), 0)::bigint FROM made
"""  # noqa: S608 - The statement is put together from constants only.

# What is missing is told by the ledger itself, not by the statement that wrote it.
_MISSING = f"""
WITH {_USAGE},
used AS (
  SELECT window_id, window_start, organization_id, project_id, size, price_group,
         sum(unit_seconds)::bigint AS unit_seconds
    FROM usage GROUP BY 1, 2, 3, 4, 5, 6
),
charged AS (
  SELECT window_id, project_id, size, price_group, sum(unit_seconds)::bigint AS unit_seconds
    FROM billing_charge WHERE window_id = ANY(%(windows)s) GROUP BY 1, 2, 3, 4
),
missing AS (
  SELECT used.*, used.unit_seconds - coalesce(charged.unit_seconds, 0) AS uncharged
    FROM used LEFT JOIN charged USING (window_id, project_id, size, price_group)
   WHERE used.unit_seconds <> coalesce(charged.unit_seconds, 0)
)"""  # noqa: S608 - As above.
_NOTE_EXCEPTIONS = f"""
{_MISSING}
INSERT INTO billing_accrualexception AS e
  (window_id, window_start, organization_id, project_id, size, price_group, unit_seconds, code,
   summary, remedy, created_at)
SELECT m.window_id, m.window_start, m.organization_id, m.project_id, m.size, m.price_group,
       m.uncharged, told.code, told.summary, told.remedy, %(at)s
  FROM missing m
  JOIN tenants_organization o ON o.id = m.organization_id
  LEFT JOIN billing_pricebookassignment a
    ON a.organization_id = m.organization_id AND a.valid @> m.window_start
  LEFT JOIN billing_pricebook b ON b.id = a.price_book_id
 CROSS JOIN LATERAL (VALUES
   (a.id IS NULL, 'no_price_book',
    format('%%s has no price book at that hour.', o.name),
    'Assign a price book to the organization from that hour on.'),
   (a.id IS NOT NULL, 'no_price',
    format('Price book %%s has no price for %%s units of %%s at that hour.',
           b.name, m.size, m.price_group),
    'Set a price for the size and group, or for any group, from that hour on.')
  ) told(applies, code, summary, remedy)
 WHERE told.applies
 ORDER BY m.window_id, m.project_id, m.size, m.price_group
ON CONFLICT (window_id, project_id, size, price_group) DO UPDATE
  SET unit_seconds = excluded.unit_seconds, code = excluded.code, summary = excluded.summary,
      remedy = excluded.remedy, resolved_at = NULL
  WHERE (e.unit_seconds, e.code, e.summary, e.resolved_at)
        IS DISTINCT FROM (excluded.unit_seconds, excluded.code, excluded.summary, NULL)
"""  # noqa: S608 - As above.
_RESOLVE_EXCEPTIONS = f"""
{_MISSING}
UPDATE billing_accrualexception e SET resolved_at = %(at)s
 WHERE e.window_id = ANY(%(windows)s) AND e.resolved_at IS NULL
   AND NOT EXISTS (
     SELECT FROM missing m
      WHERE (m.window_id, m.project_id, m.size, m.price_group)
            = (e.window_id, e.project_id, e.size, e.price_group))
"""  # noqa: S608 - As above.
_CLOSE_WINDOWS = f"""
WITH {_USAGE},
used AS (SELECT window_id, sum(unit_seconds)::bigint AS total FROM usage GROUP BY 1),
charged AS (
  SELECT window_id, sum(unit_seconds)::bigint AS total
    FROM billing_charge WHERE window_id = ANY(%(windows)s) GROUP BY 1
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
"""  # noqa: S608 - As above.
