"""The nightly comparison of the journal with documents and payments: open items and accounts."""

from typing import Final

from django.db import connection

from billing.selectors.ledger.settlement import CARRIED, DUE
from tenants.domain.verification import CheckedBatch, Cursor

# Open items have a part for each document, allocation and payment; the control accounts are summed
# from postings. Money of unknown payers stands on the clearing account, without an organization.
_DIFFERENCES: Final = f"""
WITH items AS (
  SELECT CASE WHEN i.corrects_id IS NULL AND {DUE} < 0 THEN 'customer_credit'
              ELSE 'receivables' END AS account, i.organization_id, i.currency, {DUE} AS amount
    FROM billing_invoice i WHERE i.state = 'final'
   UNION ALL
  SELECT 'carried_balance', i.organization_id, i.currency, {CARRIED} + coalesce(p.amount, 0)
    FROM billing_invoice i
    LEFT JOIN billing_payment p ON p.document_id = i.id AND p.kind = 'carried'
   WHERE i.state = 'final' AND (i.carried_forward, i.brought_forward) <> (0, 0)
   UNION ALL
  SELECT 'receivables', b.organization_id, b.currency, b.amount
    FROM billing_openingbalance b WHERE b.amount > 0
   UNION ALL
  SELECT x.account, coalesce(d.organization_id, b.organization_id),
         coalesce(d.currency, b.currency), x.sign * a.amount
    FROM billing_paymentallocation a
    LEFT JOIN billing_invoice d ON d.id = a.document_id
    LEFT JOIN billing_openingbalance b ON b.id = a.opening_balance_id
   CROSS JOIN (VALUES ('customer_credit', 1), ('receivables', -1)) AS x(account, sign)
   UNION ALL
  SELECT 'receivables', w.organization_id, w.currency, -w.amount
    FROM billing_writeoff w WHERE w.state = 'posted'
   UNION ALL
  SELECT CASE WHEN p.organization_id IS NULL THEN 'clearing' ELSE 'customer_credit' END,
         p.organization_id, p.currency, -p.amount
    FROM billing_payment p WHERE p.kind <> 'credit_note'),
posted AS (
  SELECT p.account_id AS account,
         CASE WHEN p.account_id <> 'clearing' THEN e.organization_id END AS organization_id,
         e.currency, p.amount
    FROM billing_journalentry e JOIN billing_posting p ON p.entry_id = e.id
   WHERE p.account_id IN ('receivables', 'customer_credit', 'carried_balance', 'clearing'))
SELECT coalesce(o.slug, 'payers not known'), b.account, b.currency, b.open, b.posted
  FROM (SELECT account, organization_id, currency, sum(open) AS open, sum(posted) AS posted
          FROM (SELECT *, amount AS open, 0 AS posted FROM items
                 UNION ALL SELECT *, 0, amount FROM posted) u
         GROUP BY 1, 2, 3) b
  LEFT JOIN tenants_organization o ON o.id = b.organization_id
 ORDER BY 1, 2, 3
"""  # noqa: S608 - Put together from constants only.


def check_journal(_: Cursor) -> CheckedBatch:
    """Compare the open items of each organization with the accounts that control them."""
    with connection.cursor() as database:
        database.execute(_DIFFERENCES)
        rows = database.fetchall()
    found = tuple(
        f"Open items of {slug} are {items} {currency} on {account}; the journal has {posted}."
        for slug, account, currency, items, posted in rows
        if items != posted
    )
    return CheckedBatch(len(rows), found)
