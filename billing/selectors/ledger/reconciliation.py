"""The nightly comparison of the journal with documents: sub-ledger and control accounts."""

from typing import Final

from django.db import connection

from tenants.domain.verification import CheckedBatch, Cursor

_DIFFERENCES: Final = """
WITH owed AS (
  SELECT organization_id, currency, sum(total) AS amount
    FROM billing_invoice WHERE state = 'final' GROUP BY 1, 2),
controlled AS (
  SELECT e.organization_id, e.currency, sum(p.amount) AS amount
    FROM billing_journalentry e JOIN billing_posting p ON p.entry_id = e.id
   WHERE p.account_id IN ('receivables', 'customer_credit') AND e.organization_id IS NOT NULL
   GROUP BY 1, 2)
SELECT o.slug, currency, coalesce(w.amount, 0), coalesce(c.amount, 0)
  FROM owed w FULL JOIN controlled c USING (organization_id, currency)
  JOIN tenants_organization o ON o.id = organization_id
 ORDER BY 1, 2
"""


def check_journal(_: Cursor) -> CheckedBatch:
    """Compare what each organization owes by its documents with the accounts that control it."""
    with connection.cursor() as database:
        database.execute(_DIFFERENCES)
        rows = database.fetchall()
    found = tuple(
        f"{slug} owes {owed} {currency} by its documents; the journal has {controlled}."
        for slug, currency, owed, controlled in rows
        if owed != controlled
    )
    return CheckedBatch(len(rows), found)
