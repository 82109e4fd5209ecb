"""SQL of accrual: charge what usage still lacks, and report what of it has no price.

The same statement serves metered usage and corrections, and reads the usage once, whatever the
number of pods, prices and projects. `billing.domain.pricing.rating` is the equivalent in Python.
"""

from dataclasses import dataclass
from typing import Final

from billing.selectors.daily_costs import note_changed_hours
from billing.selectors.pricing.price_lookup import band_at, best_price


@dataclass(frozen=True)
class Accrued:
    """What is accrued at once, as SQL of constants.

    Attributes:
        usage: The usage it is, as `u`, with its condition.
        rows: Which rows of charges and exceptions, as `r`, are about it.
        done: Stores what is charged by now, from `unpriced`.
        on_conflict: What happens to a charge that is there already; two workers that meet there
            insert in one order.
    """

    usage: str
    rows: str
    done: str
    on_conflict: str


_DONE_WINDOWS: Final = """
UPDATE billing_accruedusage a
   SET charged_unit_seconds = a.used_unit_seconds - u.unpriced, unpriced_unit_seconds = u.unpriced,
       price_mark = u.mark, accrued_at = %(at)s
  FROM (SELECT g.window_id, g.organization_id, coalesce(x.unit_seconds, 0) AS unpriced,
               coalesce(m.mark, 0) AS mark
          FROM (SELECT window_id, organization_id FROM billing_accruedusage
                 WHERE window_id = ANY(%(windows)s) AND unpriced_unit_seconds <> 0
                   AND organization_id = ANY(%(organization_ids)s)) g
          LEFT JOIN (SELECT window_id, organization_id, sum(unit_seconds)::bigint AS unit_seconds
                       FROM unpriced GROUP BY 1, 2) x USING (window_id, organization_id)
          LEFT JOIN billing_price_mark m USING (organization_id)) u
 WHERE (a.window_id, a.organization_id) = (u.window_id, u.organization_id)
   AND a.window_id = ANY(%(windows)s) AND a.unpriced_unit_seconds <> 0
RETURNING a.unpriced_unit_seconds = 0 AS is_complete, false AS is_fresh"""
_DONE_CORRECTIONS: Final = """
INSERT INTO billing_accruedcorrection AS a
  (correction_id, organization_id, window_id, window_start, usage_unit_seconds,
   charged_unit_seconds, is_complete, price_mark, accrued_at)
SELECT p.id, p.organization_id, p.window_id, p.window_start, p.unit_seconds,
       p.unit_seconds - coalesce(x.unit_seconds, 0), x.correction_id IS NULL,
       coalesce(m.mark, 0), %(at)s
  FROM metering_posted_correction p
  LEFT JOIN (SELECT correction_id, sum(unit_seconds)::bigint AS unit_seconds
               FROM unpriced GROUP BY 1) x ON x.correction_id = p.id
  LEFT JOIN billing_price_mark m ON m.organization_id = p.organization_id
 WHERE p.id = ANY(%(corrections)s) AND p.organization_id = ANY(%(organization_ids)s)
 ORDER BY p.id
ON CONFLICT (correction_id) DO UPDATE
  SET usage_unit_seconds = excluded.usage_unit_seconds,
      charged_unit_seconds = excluded.charged_unit_seconds,
      is_complete = excluded.is_complete, price_mark = excluded.price_mark,
      accrued_at = excluded.accrued_at
  WHERE NOT a.is_complete
RETURNING a.is_complete, (xmax = 0) AS is_fresh"""
_IS_DUE: Final = """IN (
       SELECT window_id, organization_id FROM billing_accruedusage
        WHERE window_id = ANY(%(windows)s) AND unpriced_unit_seconds <> 0)"""
WINDOWS: Final = Accrued(
    usage=f"""metering_sealed_usage_of(%(windows)s, %(hours)s) u
           WHERE (u.window_id, u.organization_id) {_IS_DUE}""",
    rows=f"""r.window_id = ANY(%(windows)s) AND r.correction_id IS NULL
     AND (r.window_id, r.organization_id) {_IS_DUE}""",
    done=_DONE_WINDOWS,
    on_conflict="",
)
"""What was metered of windows, where it is not charged in full.

Their rows are locked, so that no other worker charges them: a charge that is there already is a
fault, which stops the organization. Looking for one first takes a fifth of the time of accrual.
"""
CORRECTIONS: Final = Accrued(
    usage="metering_corrected_usage_of(%(corrections)s, %(hours)s) u WHERE true",
    rows="r.correction_id = ANY(%(corrections)s)",
    done=_DONE_CORRECTIONS,
    on_conflict="""
   ORDER BY l.window_id, l.correction_id, l.project_id, l.owner, l.size, l.price_group
  ON CONFLICT DO NOTHING""",
)
"""What corrections added to windows, or took away."""


def rate(accrued: Accrued) -> str:
    """Return the statement that charges usage, notes what has no price, and stores both sums."""
    return f"""
WITH lacking AS MATERIALIZED (
  SELECT window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
         correction_id, sum(unit_seconds)::bigint AS unit_seconds
    FROM (SELECT {_columns("u")}, u.unit_seconds FROM {accrued.usage}
             AND u.organization_id = ANY(%(organization_ids)s)
           UNION ALL
          SELECT {_columns("r")}, -r.unit_seconds FROM billing_charge r
           WHERE {accrued.rows} AND r.window_start = ANY(%(hours)s)
             AND r.organization_id = ANY(%(organization_ids)s)) used_and_charged
   GROUP BY window_id, correction_id, project_id, owner, size, price_group, window_start,
            cluster_id, organization_id
  HAVING sum(unit_seconds) <> 0
   ORDER BY window_id, correction_id, project_id, owner, size, price_group
),
{_PRICED},
made AS ({_CHARGE} {accrued.on_conflict} RETURNING unit_seconds),
changed AS ({note_changed_hours("keys")}),
unpriced AS MATERIALIZED (
  SELECT l.window_id, l.window_start, l.organization_id, l.project_id, l.size, l.price_group,
         l.correction_id, f.price_book_id, f.band, sum(l.unit_seconds)::bigint AS unit_seconds
    FROM lacking l JOIN found f USING (organization_id, window_start, cluster_id, size, price_group)
   WHERE f.price_id IS NULL
   GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
),
noted AS ({_NOTE} RETURNING 1),
resolved AS (
  UPDATE billing_accrualexception r SET resolved_at = %(at)s
   WHERE {accrued.rows} AND r.organization_id = ANY(%(organization_ids)s) AND r.resolved_at IS NULL
     AND NOT EXISTS (
       SELECT FROM unpriced m
        WHERE (m.window_id, m.project_id, m.size, m.price_group)
              = (r.window_id, r.project_id, r.size, r.price_group)
          AND m.correction_id IS NOT DISTINCT FROM r.correction_id)
  RETURNING 1
),
done AS ({accrued.done})
SELECT (SELECT count(*) FROM made), (SELECT coalesce(sum(unit_seconds), 0)::bigint FROM made),
       (SELECT count(*) FROM noted), (SELECT count(*) FROM resolved), (SELECT count(*) FROM done),
       (SELECT count(*) FROM done WHERE is_complete), (SELECT count(*) FROM done WHERE is_fresh)
"""  # noqa: S608 - Put together from constants only.


def _columns(row: str) -> str:
    """Return what usage and charges are compared by."""
    names = "window_id window_start cluster_id organization_id project_id owner size price_group"
    return ", ".join(f"{row}.{name}" for name in (*names.split(), "correction_id"))


# What usage lacks is found first: used less charged, whatever the price, repriced charges included.
# Books, prices and periods are then looked up once per distinct hour, cluster, size and group, and
# joined back by equality: the planner is never asked to range-join usage.
_BEST_PRICE: Final = best_price(
    book="q.price_book_id",
    size="q.size",
    price_group="q.price_group",
    cluster="q.cluster_id",
    hour="q.window_start",
    band="q.band",
)
_BAND: Final = band_at(book="price_book_id", hour="window_start")
_PRICED: Final = f"""
keys AS MATERIALIZED (
  SELECT DISTINCT organization_id, window_start, cluster_id, size, price_group FROM lacking
),
terms AS MATERIALIZED (
  SELECT h.organization_id, h.window_start, a.price_book_id, posting.period_id
    FROM (SELECT DISTINCT organization_id, window_start FROM keys) h
    JOIN (SELECT * FROM billing_organization_book
           WHERE organization_id = ANY(%(organization_ids)s)) a
      ON a.organization_id = h.organization_id AND a.valid @> h.window_start
   CROSS JOIN LATERAL (
     SELECT p.id AS period_id FROM billing_billingperiod p
      WHERE p.organization_id = h.organization_id AND p.id = ANY(%(period_ids)s)
        AND upper(p.hours) > h.window_start
      ORDER BY lower(p.hours) LIMIT 1) posting
),
banded AS MATERIALIZED (
  SELECT price_book_id, window_start, {_BAND} AS band
    FROM (SELECT DISTINCT price_book_id, window_start FROM terms) books
),
priced AS MATERIALIZED (
  SELECT q.*, found.price_id, found.unit_price, found.base_unit_price, b.currency
    FROM (SELECT DISTINCT t.price_book_id, k.window_start, k.cluster_id, k.size, k.price_group,
                 d.band
            FROM keys k JOIN terms t USING (organization_id, window_start)
            JOIN banded d USING (price_book_id, window_start)) q
    JOIN billing_pricebook b ON b.id = q.price_book_id
   CROSS JOIN LATERAL ({_BEST_PRICE}) found
),
found AS MATERIALIZED (
  SELECT k.organization_id, k.window_start, k.cluster_id, k.size, k.price_group, t.period_id,
         t.price_book_id, d.band, p.price_id, p.unit_price, p.base_unit_price, p.currency
    FROM keys k
    LEFT JOIN terms t USING (organization_id, window_start)
    LEFT JOIN banded d USING (price_book_id, window_start)
    LEFT JOIN priced p USING (price_book_id, window_start, cluster_id, size, price_group)
)"""  # noqa: S608 - Put together from constants only.
_CHARGE: Final = """
  INSERT INTO billing_charge
    (window_id, window_start, cluster_id, organization_id, project_id, owner, size, price_group,
     tier, price_id, unit_price, base_unit_price, currency, unit_seconds, correction_id,
     period_id, created_at)
  SELECT l.window_id, l.window_start, l.cluster_id, l.organization_id, l.project_id, l.owner,
         l.size, l.price_group, 0, f.price_id, f.unit_price, f.base_unit_price, f.currency,
         l.unit_seconds, l.correction_id, f.period_id, %(at)s
    FROM lacking l JOIN found f USING (organization_id, window_start, cluster_id, size, price_group)
   WHERE f.price_id IS NOT NULL"""
_NOTE: Final = """
  INSERT INTO billing_accrualexception AS e
    (window_id, window_start, organization_id, project_id, size, price_group, correction_id,
     unit_seconds, code, summary, remedy, created_at)
  SELECT m.window_id, m.window_start, m.organization_id, m.project_id, m.size, m.price_group,
         m.correction_id, m.unit_seconds, cause.code, cause.summary, cause.remedy, %(at)s
    FROM unpriced m
    JOIN tenants_organization o ON o.id = m.organization_id
    LEFT JOIN billing_pricebook b ON b.id = m.price_book_id
   CROSS JOIN LATERAL (VALUES
     (b.id IS NULL, 'no_price_book',
      format('%%s has no price book at that hour.', o.name),
      'Assign a price book to the organization from that hour on.'),
     (b.id IS NOT NULL AND m.band IS NULL, 'no_price_calendar',
      format('The last time-of-use calendar of price book %%s ended before that hour.', b.name),
      'Publish a calendar of the price book from that hour on.'),
     (b.id IS NOT NULL AND m.band IS NOT NULL, 'no_price',
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
          IS DISTINCT FROM (excluded.unit_seconds, excluded.code, excluded.summary, NULL)"""
