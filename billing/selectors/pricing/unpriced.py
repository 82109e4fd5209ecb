"""Use without a price, once for each remedy: the price, book or calendar that it lacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

from billing.models import AccrualException

REMEDIES_MAX: Final = 100
"""More than these are too many to read at once; those that hold most use come first."""
ORGANIZATIONS_NAMED: Final = 5

# Of a missing price the remedy is one for each book, size and group, of a missing calendar one for
# each book, and of a missing book one for each organization.
_UNPRICED: Final = """
WITH lacking AS (
  SELECT e.code, e.window_start, e.unit_seconds, e.organization_id, o.name, k.price_book_id,
         CASE WHEN e.code = 'no_price_book' THEN e.organization_id END AS payer_id,
         CASE WHEN e.code = 'no_price' THEN e.size ELSE '' END AS size,
         CASE WHEN e.code = 'no_price' THEN e.price_group ELSE '' END AS price_group
    FROM billing_accrualexception e
    JOIN tenants_organization o ON o.id = e.organization_id
    LEFT JOIN billing_organization_book k
      ON k.organization_id = e.organization_id AND k.valid @> e.window_start
     AND e.code <> 'no_price_book'
   WHERE e.id IN ({chosen})
)
SELECT l.code, l.price_book_id, coalesce(b.name, ''), l.payer_id, l.size, l.price_group, count(*),
       count(DISTINCT l.window_start), sum(l.unit_seconds)::bigint, min(l.window_start),
       max(l.window_start), count(DISTINCT l.organization_id),
       (array_agg(DISTINCT l.name ORDER BY l.name))[1:%s]
  FROM lacking l
  LEFT JOIN billing_pricebook b ON b.id = l.price_book_id
 GROUP BY l.code, l.price_book_id, b.name, l.payer_id, l.size, l.price_group
 ORDER BY sum(l.unit_seconds) DESC, l.code, b.name, l.size, l.price_group, min(l.name)
 LIMIT %s
"""


@dataclass(frozen=True)
class UnpricedRemedy:
    """Use that one price, book or calendar would price.

    Attributes:
        code: What it lacks: "no_price", "no_price_book" or "no_price_calendar".
        price_book_id: The book that lacks it; None without a book.
        price_book: Its name; "" without one.
        organization_id: The organization without a book; None where a book lacks something.
        size: Of the missing price; "" for others.
        price_group: Of the missing price; "" for others.
        exceptions: How many exceptions it would settle.
        hours: Of how many hours.
        unit_seconds: Units x seconds that are not billed.
        first_start: The first hour: from it on the remedy has to hold.
        last_start: The last hour.
        organizations: Of how many organizations.
        names: The first of them, by name.
    """

    code: str
    price_book_id: UUID | None
    price_book: str
    organization_id: UUID | None
    size: str
    price_group: str
    exceptions: int
    hours: int
    unit_seconds: int
    first_start: datetime
    last_start: datetime
    organizations: int
    names: tuple[str, ...]


def unpriced_by_remedy(
    rows: QuerySet[AccrualException], *, limit: int = REMEDIES_MAX
) -> tuple[UnpricedRemedy, ...]:
    """Return open exceptions, once for each remedy, most use first; one statement.

    Args:
        rows: The exceptions that the caller may see.
        limit: How many remedies at most.
    """
    chosen_rows = rows.filter(resolved_at=None).order_by().values("pk")
    try:
        chosen, given = chosen_rows.query.sql_with_params()
    except EmptyResultSet:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(_UNPRICED.format(chosen=chosen), [*given, ORGANIZATIONS_NAMED, limit])
        return tuple(_of(row) for row in cursor.fetchall())


def _of(row: Sequence[Any]) -> UnpricedRemedy:
    return UnpricedRemedy(
        code=row[0],
        price_book_id=row[1],
        price_book=row[2],
        organization_id=row[3],
        size=row[4],
        price_group=row[5],
        exceptions=row[6],
        hours=row[7],
        unit_seconds=row[8],
        first_start=row[9],
        last_start=row[10],
        organizations=row[11],
        names=tuple(row[12]),
    )
