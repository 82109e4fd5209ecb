"""Reports of open items: how old they are, and the statement of an organization."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.domain.ledger.statement import AccountStatement, StatementLine
from billing.selectors.ledger.settlement import DUE, OF_NOTE

LINES_MAX: Final = 10_000
"""Of one statement; a longer time is asked for in parts."""
AGEING_COLUMNS: Final = (
    "organization",
    "currency",
    "not_due",
    "days_1_to_30",
    "days_31_to_60",
    "days_61_to_90",
    "days_over_90",
    "credit",
    "total",
)


@dataclass(frozen=True)
class AgeingRow:
    """What an organization owes in a currency, by days overdue.

    Attributes:
        credit: Money that is not allocated, below zero.
        total: All of it; the balance of the accounts that control it.
    """

    organization: str
    currency: str
    not_due: Decimal
    days_1_to_30: Decimal
    days_31_to_60: Decimal
    days_61_to_90: Decimal
    days_over_90: Decimal
    credit: Decimal
    total: Decimal


def ageing(*, on: date, organization_ids: Collection[UUID] | None) -> tuple[AgeingRow, ...]:
    """Return open items at the end of a day, by organization and currency; one query.

    Args:
        on: The day.
        organization_ids: Whose; None for all.
    """
    ids = None if organization_ids is None else list(organization_ids)
    with connection.cursor() as cursor:
        cursor.execute(_AGEING, {"on": on, "organizations": ids})
        return tuple(AgeingRow(*row) for row in cursor.fetchall())


def statement(
    organization_id: UUID, *, currency: str, begin_on: date, end_on: date
) -> AccountStatement:
    """Return the account of an organization in a currency; one query.

    Args:
        organization_id: Whose.
        currency: Of the documents and payments.
        begin_on: The first day.
        end_on: The day after the last.
    """
    values: dict[str, Any] = {
        "organization": organization_id,
        "currency": currency,
        "begin": begin_on,
        "end": end_on,
        "most": LINES_MAX + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT, values)
        rows = cursor.fetchall()
    lines = tuple(StatementLine(*row[:5]) for row in rows if row[0] is not None)
    opening = rows[0][5]
    return AccountStatement(
        currency=currency,
        begin_on=begin_on,
        end_on=end_on,
        opening=opening,
        lines=lines,
        closing=lines[-1].balance if lines else opening,
    )


_ISSUED_ON: Final = "(i.finalized_at AT TIME ZONE 'UTC')::date"
# As a credit note of an invoice counts from its own date, so does an allocation. What is not
# allocated is read from the journal, which has since when an organization is known as the payer. A
# carried balance is not due yet, or a credit.
_AGEING: Final = f"""
WITH open_items AS (
  SELECT i.organization_id, i.currency, %(on)s::date - d.due_on AS days,
         {DUE}
         + (SELECT coalesce(sum({OF_NOTE}), 0) FROM billing_invoice n
             WHERE n.corrects_id = i.id AND n.state = 'final' AND n.kind = 'credit_note'
               AND (n.finalized_at AT TIME ZONE 'UTC')::date <= %(on)s)
         - (SELECT coalesce(sum(a.amount), 0) FROM billing_paymentallocation a
             WHERE a.document_id = i.id
               AND (a.allocated_at AT TIME ZONE 'UTC')::date <= %(on)s)
         - (SELECT coalesce(sum(w.amount), 0) FROM billing_writeoff w
             WHERE w.document_id = i.id AND w.state IN ('posted', 'reversed')
               AND (w.decided_at AT TIME ZONE 'UTC')::date <= %(on)s
               AND (w.state = 'posted' OR (w.reversed_at AT TIME ZONE 'UTC')::date > %(on)s))
           AS amount
    FROM billing_invoice i JOIN billing_duedate d ON d.document_id = i.id
   WHERE i.state = 'final' AND {DUE} >= 0 AND {_ISSUED_ON} <= %(on)s
   UNION ALL
  SELECT b.organization_id, b.currency, %(on)s::date - b.due_on,
         b.amount - (SELECT coalesce(sum(a.amount), 0) FROM billing_paymentallocation a
                      WHERE a.opening_balance_id = b.id
                        AND (a.allocated_at AT TIME ZONE 'UTC')::date <= %(on)s)
    FROM billing_openingbalance b WHERE b.amount > 0 AND b.dated_on <= %(on)s),
credits AS (
  SELECT e.organization_id, e.currency, NULL::int AS days, p.amount
    FROM billing_posting p JOIN billing_journalentry e ON e.id = p.entry_id
   WHERE p.account_id = 'customer_credit' AND e.document_on <= %(on)s),
carried AS (
  SELECT e.organization_id, e.currency, CASE WHEN sum(p.amount) > 0 THEN 0 END AS days,
         sum(p.amount) AS amount
    FROM billing_posting p JOIN billing_journalentry e ON e.id = p.entry_id
   WHERE p.account_id = 'carried_balance' AND e.document_on <= %(on)s
   GROUP BY 1, 2)
SELECT a.* FROM (
  SELECT o.slug, u.currency,
         coalesce(sum(u.amount) FILTER (WHERE u.days <= 0), 0) AS not_due,
         coalesce(sum(u.amount) FILTER (WHERE u.days BETWEEN 1 AND 30), 0) AS to_30,
         coalesce(sum(u.amount) FILTER (WHERE u.days BETWEEN 31 AND 60), 0) AS to_60,
         coalesce(sum(u.amount) FILTER (WHERE u.days BETWEEN 61 AND 90), 0) AS to_90,
         coalesce(sum(u.amount) FILTER (WHERE u.days > 90), 0) AS older,
         coalesce(sum(u.amount) FILTER (WHERE u.days IS NULL), 0) AS credit,
         sum(u.amount) AS total
    FROM (SELECT * FROM open_items UNION ALL SELECT * FROM credits
           UNION ALL SELECT * FROM carried) u
    JOIN tenants_organization o ON o.id = u.organization_id
   WHERE (%(organizations)s::uuid[] IS NULL OR o.id = ANY(%(organizations)s::uuid[]))
   GROUP BY o.slug, u.currency) a
 WHERE (a.not_due, a.to_30, a.to_60, a.to_90, a.older, a.credit) <> (0, 0, 0, 0, 0, 0)
 ORDER BY a.slug, a.currency
"""  # noqa: S608 - Put together from constants only.
# Every event that changes what is owed; an allocation does not.
_STATEMENT: Final = """
WITH events AS (
  SELECT e.document_on AS dated_on, e.event, e.reason AS reference, sum(p.amount) AS amount, e.id
    FROM billing_journalentry e JOIN billing_posting p ON p.entry_id = e.id
   WHERE e.organization_id = %(organization)s AND e.currency = %(currency)s
     AND p.account_id IN ('receivables', 'customer_credit', 'carried_balance')
   GROUP BY e.id HAVING sum(p.amount) <> 0),
opening AS (
  SELECT coalesce(sum(amount), 0) AS amount FROM events WHERE dated_on < %(begin)s)
SELECT l.dated_on, l.event, l.reference, l.amount,
       o.amount + sum(l.amount) OVER (ORDER BY l.dated_on, l.event, l.id), o.amount
  FROM opening o
  LEFT JOIN (SELECT * FROM events WHERE dated_on >= %(begin)s AND dated_on < %(end)s) l ON true
 ORDER BY l.dated_on, l.event, l.id
 LIMIT %(most)s
"""
