"""SQL of accrual: sum usage, join prices, and report usage without a price.

The same statements serve metered usage and corrections, and their number does not depend on pods,
prices and projects. `billing.domain.rating` is the equivalent in Python.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Accrued:
    """What is accrued at once, as SQL of constants.

    Attributes:
        usage: Which rows of `metering_sealed_usage u` it is.
        rows: Which rows of charges and exceptions, as `r`, are about it.
    """

    usage: str
    rows: str


WINDOWS: Final = Accrued(
    usage="u.window_id = ANY(%(windows)s) AND u.correction_id IS NULL",
    rows="r.window_id = ANY(%(windows)s) AND r.correction_id IS NULL",
)
"""What was metered of windows."""
CORRECTIONS: Final = Accrued(
    usage="u.correction_id = ANY(%(corrections)s)",
    rows="r.correction_id = ANY(%(corrections)s)",
)
"""What corrections added to windows, or took away."""


def usage_of(accrued: Accrued) -> str:
    """Return the usage, added up, as a common table expression.

    Usage is added up first. Books, prices and periods are then looked up once per distinct hour,
    size and group, and joined back by equality: the planner is never asked to range-join usage.
    """
    return f"""
usage AS MATERIALIZED (
  SELECT u.window_id, u.window_start, u.cluster_id, u.organization_id, u.project_id, u.owner,
         u.size, u.price_group, u.correction_id, sum(u.unit_seconds)::bigint AS unit_seconds
    FROM metering_sealed_usage u
   WHERE {accrued.usage} AND u.window_start = ANY(%(hours)s)
     AND u.organization_id = ANY(%(organization_ids)s)
   GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
  HAVING sum(u.unit_seconds) <> 0
)"""  # noqa: S608 - Put together from constants only.


def charge(accrued: Accrued) -> str:
    """Return the statement that charges it and counts the new charges and unit-seconds."""
    return f"""
WITH {usage_of(accrued)},
hours AS MATERIALIZED (SELECT DISTINCT organization_id, window_start FROM usage),
terms AS MATERIALIZED (
  SELECT h.organization_id, h.window_start, a.price_book_id, posting.period_id
    FROM hours h
    JOIN billing_pricebookassignment a
      ON a.organization_id = h.organization_id AND a.valid @> h.window_start
   CROSS JOIN LATERAL (
     SELECT p.id AS period_id FROM billing_billingperiod p
      WHERE p.organization_id = h.organization_id AND p.id = ANY(%(period_ids)s)
        AND upper(p.hours) > h.window_start
      ORDER BY lower(p.hours) LIMIT 1) posting
),
asked AS MATERIALIZED (
  SELECT DISTINCT t.price_book_id, u.window_start, u.size, u.price_group,
         CASE WHEN right(u.price_group, 6) = '/burst' THEN '*/burst' ELSE '*' END AS wide
    FROM usage u JOIN terms t USING (organization_id, window_start)
),
priced AS MATERIALIZED (
  SELECT q.*, found.price_id, found.unit_price, b.currency
    FROM asked q
    JOIN billing_pricebook b ON b.id = q.price_book_id
   CROSS JOIN LATERAL (
     SELECT p.id AS price_id, p.unit_price FROM billing_price p
      WHERE p.price_book_id = q.price_book_id AND p.size = q.size
        AND p.price_group IN (q.price_group, q.wide) AND p.valid @> q.window_start
      ORDER BY p.price_group = q.wide LIMIT 1) found
),
made AS (
  INSERT INTO billing_charge
    (window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
     tier, price_id, unit_price, currency, unit_seconds, correction_id,
     period_id, created_at)
  SELECT u.window_id, u.window_start, u.cluster_id, u.organization_id, u.project_id, u.owner,
         u.size, u.price_group, 0, p.price_id, p.unit_price, p.currency, u.unit_seconds,
         u.correction_id, t.period_id, %(at)s
    FROM usage u
    JOIN terms t USING (organization_id, window_start)
    JOIN priced p USING (price_book_id, window_start, size, price_group)
   ORDER BY u.window_id, u.correction_id, u.project_id, u.owner, u.size, u.price_group
  ON CONFLICT DO NOTHING
  RETURNING unit_seconds
)
SELECT count(*), coalesce(sum(unit_seconds), 0)::bigint FROM made
"""  # noqa: S608 - As above.


def _missing(accrued: Accrued) -> str:
    """Return the usage that is not charged, computed from the stored rows."""
    return f"""
WITH {usage_of(accrued)},
used AS (
  SELECT window_id, window_start, organization_id, project_id, size, price_group, correction_id,
         sum(unit_seconds)::bigint AS unit_seconds
    FROM usage GROUP BY 1, 2, 3, 4, 5, 6, 7
),
charged AS (
  SELECT r.window_id, r.project_id, r.size, r.price_group, r.correction_id,
         sum(r.unit_seconds)::bigint AS unit_seconds
    FROM billing_charge r WHERE {accrued.rows} GROUP BY 1, 2, 3, 4, 5
),
missing AS (
  SELECT u.*, u.unit_seconds - coalesce(c.unit_seconds, 0) AS uncharged
    FROM used u
    LEFT JOIN charged c
      ON (c.window_id, c.project_id, c.size, c.price_group)
         = (u.window_id, u.project_id, u.size, u.price_group)
     AND c.correction_id IS NOT DISTINCT FROM u.correction_id
   WHERE u.unit_seconds <> coalesce(c.unit_seconds, 0)
)"""  # noqa: S608 - As above.


def note_exceptions(accrued: Accrued) -> str:
    """Return the statement that notes what has no price."""
    return f"""
{_missing(accrued)}
INSERT INTO billing_accrualexception AS e
  (window_id, window_start, organization_id, project_id, size, price_group, correction_id,
   unit_seconds, code, summary, remedy, created_at)
SELECT m.window_id, m.window_start, m.organization_id, m.project_id, m.size, m.price_group,
       m.correction_id, m.uncharged, cause.code, cause.summary, cause.remedy, %(at)s
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
    format('Set a price for the size and group, or for any group (%%s), from that hour on.',
           CASE WHEN right(m.price_group, 6) = '/burst' THEN '*/burst' ELSE '*' END))
  ) cause(applies, code, summary, remedy)
 WHERE cause.applies
 ORDER BY m.window_id, m.project_id, m.size, m.price_group
ON CONFLICT (window_id, project_id, size, price_group, correction_id) DO UPDATE
  SET unit_seconds = excluded.unit_seconds, code = excluded.code, summary = excluded.summary,
      remedy = excluded.remedy, resolved_at = NULL
  WHERE (e.unit_seconds, e.code, e.summary, e.resolved_at)
        IS DISTINCT FROM (excluded.unit_seconds, excluded.code, excluded.summary, NULL)
"""  # noqa: S608 - As above.


def resolve_exceptions(accrued: Accrued) -> str:
    """Return the statement that resolves what has its price by now."""
    return f"""
{_missing(accrued)}
UPDATE billing_accrualexception r SET resolved_at = %(at)s
 WHERE {accrued.rows} AND r.organization_id = ANY(%(organization_ids)s) AND r.resolved_at IS NULL
   AND NOT EXISTS (
     SELECT FROM missing m
      WHERE (m.window_id, m.project_id, m.size, m.price_group)
            = (r.window_id, r.project_id, r.size, r.price_group)
        AND m.correction_id IS NOT DISTINCT FROM r.correction_id)
"""  # noqa: S608 - As above.
