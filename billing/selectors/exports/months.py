"""What exports of a month share: a snapshot, the month of each organization, its documents."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connection, transaction

Guard = Callable[[str], str]
"""Makes an expression of SQL safe for a kind of file."""
SECONDS_MAX: Final = 1800
"""Of one statement, and between two: a client may be slow to read what is sent."""


@contextmanager
def snapshot(*, is_read_only: bool = True) -> Iterator[None]:
    """Read one state of the database until the end of the block.

    The transaction of a caller is left as it is.
    """
    if connection.in_atomic_block:
        yield
        return
    access = "READ ONLY" if is_read_only else "READ WRITE"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, {access}")
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SET LOCAL {name} = '{SECONDS_MAX}s'")
        yield


def plain(expression: str) -> str:
    """Return an expression as it is."""
    return expression


def guarded(expression: str) -> str:
    """Return an expression whose text begins with an apostrophe where `guard_text` adds one."""
    return rf"regexp_replace({expression}, '^(''* *[-=+@\t\r\n＝＋－＠])', '''\1')"  # noqa: RUF001


_MONTHS: Final = """
asked AS MATERIALIZED (
  SELECT m.*, {stamp_begin} AS period_begin, {stamp_end} AS period_end
    FROM (
      SELECT o.id AS organization_id, {name} AS organization_name, p.id AS period_id, p.state,
             p.created_at,
             coalesce(p.closed_at, p.approved_at, p.reviewed_at, p.created_at) AS updated_at,
             coalesce(lower(p.hours), date_trunc('hour',
               to_date(%(label)s, 'YYYY-MM')::timestamp AT TIME ZONE o.time_zone)) AS begin_at,
             coalesce(upper(p.hours), date_trunc('hour',
               (to_date(%(label)s, 'YYYY-MM') + interval '1 month') AT TIME ZONE o.time_zone))
               AS end_at
        FROM tenants_organization o
        LEFT JOIN billing_billingperiod p ON p.organization_id = o.id AND p.label = %(label)s
       WHERE o.id = ANY (%(organizations)s)) m
),
documents AS MATERIALIZED (
  SELECT d.*, {stamp_issued} AS issued_at, {stamp_drafted} AS drafted
    FROM (
      SELECT i.id, i.organization_id, i.period_id, i.run, i.kind, i.currency, i.total, i.tax_total,
             i.corrects_id, i.purchase_order, i.drafted_at, i.finalized_at,
             i.document ->> 'reference' AS invoice, {issuer} AS issuer, a.organization_name,
             a.period_begin, a.period_end
        FROM asked a
        JOIN billing_invoice i
          ON i.organization_id = a.organization_id
         AND CASE WHEN i.run = 1 THEN i.period_id = a.period_id
                  ELSE i.finalized_at >= a.begin_at AND i.finalized_at < a.end_at END
       WHERE i.state = 'final') d
)"""


def stamp(expression: str) -> str:
    """Return the expression of a time as FOCUS writes it."""
    return f"""to_char(({expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""


def months(guard: Guard) -> str:
    """Return `asked`, the month of each organization, and `documents`, those that are in it.

    Their parameters are label and organizations.
    """
    return _MONTHS.format(
        name=guard("o.name"),
        issuer=guard("i.document -> 'issuer' ->> 'name'"),
        stamp_begin=stamp("m.begin_at"),
        stamp_end=stamp("m.end_at"),
        stamp_issued=stamp("d.finalized_at"),
        stamp_drafted=stamp("d.drafted_at"),
    )
