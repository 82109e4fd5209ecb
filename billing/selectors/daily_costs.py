"""Which days of daily costs are due to be added up, and whether the others equal their charges."""

from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.db import connection

from tenants.domain.verification import CheckedBatch, Cursor

DAY: Final = timedelta(days=1)
DAYS_PER_BATCH: Final = 7
"""Some hundred thousand charges, which are added up."""


def note_changed_hours(charges: str) -> str:
    """Return SQL that notes the hours of inserted charges, so that their days are added up anew.

    It is part of the statement that inserts them: both commit together. The first and the last hour
    of a day in UTC are in all local days of the hours between.

    Args:
        charges: What the statement calls them, or what they are made from, with organization_id
            and window_start.
    """
    return f"""
  INSERT INTO billing_changedhour (organization_id, window_start)
  SELECT organization_id, unnest(ARRAY[min(window_start), max(window_start)])
    FROM {charges} GROUP BY organization_id, date_trunc('day', window_start, 'UTC')"""  # noqa: S608 - A constant name.


def check_daily_costs(cursor: Cursor) -> CheckedBatch:
    """Add the charges of some days up, and compare them with the daily costs.

    Days whose charges changed since are left out: they are added up anew within minutes.
    """
    with connection.cursor() as database:
        database.execute(_FIRST, {"begin": cursor.get("day", str(date(1970, 1, 1)))})
        row = database.fetchone()
        if row is None:
            return CheckedBatch(0)
        (first,) = row
        end = first + timedelta(days=DAYS_PER_BATCH)
        midnights = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, end)]
        values = {
            "first": first,
            "end": end,
            "from": midnights[0] - DAY,
            "until": midnights[1] + DAY,
        }
        database.execute(_COMPARED, values)
        rows = database.fetchall()
    found = tuple(
        f"The daily costs of {slug} on {day} are not those of its charges."
        for slug, day, is_same in rows
        if not is_same
    )
    return CheckedBatch(len(rows), found, {"day": str(end)})


# The local day of an hour is that of UTC, or one beside it. Charges are of sealed windows only.
_FIRST: Final = """
SELECT greatest(%(begin)s::date, least(
  (SELECT min(day) FROM billing_dailycost WHERE day >= %(begin)s::date),
  (SELECT min(start_at)::date - 1 FROM metering_sealed_window
    WHERE start_at::date >= %(begin)s::date - 1)))
 WHERE EXISTS (SELECT FROM billing_dailycost WHERE day >= %(begin)s::date)
    OR EXISTS (SELECT FROM metering_sealed_window WHERE start_at::date >= %(begin)s::date - 1)
"""
_KEY: Final = """organization_id, day, project_id, owner, cluster_id, size, price_group, unit_price,
       base_unit_price, currency"""
_COMPARED: Final = f"""
WITH days AS (
  SELECT {_KEY}, sum(charged)::bigint AS charged, sum(kept)::bigint AS kept
    FROM (SELECT c.organization_id, billing_local_day(c.window_start, o.time_zone) AS day,
                 c.project_id, c.owner, c.cluster_id, c.size, c.price_group, c.unit_price,
                 c.base_unit_price, c.currency, c.unit_seconds AS charged, 0 AS kept
            FROM billing_charge c JOIN tenants_organization o ON o.id = c.organization_id
           WHERE c.window_start >= %(from)s
             AND c.window_start < %(until)s
           UNION ALL
          SELECT {_KEY}, 0, unit_seconds FROM billing_dailycost
           WHERE day >= %(first)s AND day < %(end)s) both_sides
   WHERE day >= %(first)s AND day < %(end)s
   GROUP BY {_KEY}
)
SELECT o.slug, d.day, bool_and(d.charged = d.kept)
  FROM days d JOIN tenants_organization o ON o.id = d.organization_id
 WHERE NOT EXISTS (
   SELECT FROM billing_changedhour h
    WHERE h.organization_id = d.organization_id
      AND billing_local_day(h.window_start, o.time_zone) = d.day)
 GROUP BY o.slug, d.day
 ORDER BY d.day, o.slug
"""  # noqa: S608 - Put together from constants only.
