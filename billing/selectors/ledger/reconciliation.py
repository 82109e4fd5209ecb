"""The nightly comparison of the journal with documents and payments: open items and entries."""

from typing import Final

from django.db import connection

from billing.selectors.ledger.settlement import CARRIED, DUE, NET, TAX
from tenants.domain.verification import CheckedBatch, Cursor

ENTRIES_MAX: Final = 1_000
"""Differences of entries that one run names."""

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


# What each entry is posted from, by account; open items show what has no entry. The payer of a
# payment may have become known since. An accrual has no row: its reversal takes it back.
_ENTRIES: Final = f"""
WITH due AS (
  SELECT 'document:' || i.id AS source_key, i.currency, x.account, x.amount
    FROM billing_invoice i
   CROSS JOIN LATERAL (VALUES
     (CASE WHEN i.corrects_id IS NULL AND {DUE} < 0 THEN 'customer_credit'
           ELSE 'receivables' END, {DUE}),
     ('carried_balance', {CARRIED}), ('revenue', -({NET})), ('tax_payable', -({TAX})))
     AS x(account, amount)
   WHERE i.state = 'final'
   UNION ALL
  SELECT 'payment:' || p.id, p.currency, x.account, x.amount
    FROM billing_payment p
   CROSS JOIN LATERAL (VALUES
     (CASE p.kind WHEN 'carried' THEN 'carried_balance' ELSE 'bank' END, p.amount),
     ('payer', -p.amount)) AS x(account, amount)
   WHERE p.kind IN ('receipt', 'refund', 'reversal', 'carried')
   UNION ALL
  SELECT e.source_key, p.currency, x.account,
         CASE e.event WHEN 'assignment' THEN x.amount ELSE -x.amount END
    FROM billing_journalentry e
    JOIN billing_payment p ON p.id::text = split_part(e.source_key, ':', 2)
   CROSS JOIN LATERAL (VALUES ('clearing', p.amount), ('customer_credit', -p.amount))
     AS x(account, amount)
   WHERE e.event IN ('assignment', 'unassignment')
     AND split_part(e.source_key, ':', 1) = e.event
   UNION ALL
  SELECT 'allocation:' || a.id, p.currency, x.account, x.amount
    FROM billing_paymentallocation a JOIN billing_payment p ON p.id = a.payment_id
   CROSS JOIN LATERAL (VALUES ('customer_credit', a.amount), ('receivables', -a.amount))
     AS x(account, amount)
   UNION ALL
  SELECT x.key || w.id, w.currency, x.account, x.amount
    FROM billing_writeoff w
   CROSS JOIN LATERAL (VALUES
     ('write_off:', 'bad_debt', w.amount), ('write_off:', 'receivables', -w.amount),
     ('write_off_reversal:', 'receivables', w.amount),
     ('write_off_reversal:', 'bad_debt', -w.amount)) AS x(key, account, amount)
   WHERE w.state = 'reversed' OR w.state = 'posted' AND x.key = 'write_off:'
   UNION ALL
  SELECT 'opening_balance:' || b.id, b.currency, x.account, x.amount
    FROM billing_openingbalance b
   CROSS JOIN LATERAL (VALUES
     (CASE WHEN b.amount > 0 THEN 'receivables' ELSE 'customer_credit' END, b.amount),
     ('opening_balance', -b.amount)) AS x(account, amount)
   UNION ALL
  SELECT other.source_key, e.currency, p.account_id, -p.amount
    FROM billing_journalentry e
    JOIN billing_posting p ON p.entry_id = e.id
   CROSS JOIN LATERAL (VALUES (
     CASE e.event WHEN 'accrual' THEN 'accrual_reversal' ELSE 'accrual' END
       || substring(e.source_key FROM ':.*'))) AS other(source_key)
   WHERE e.event IN ('accrual', 'accrual_reversal')
     AND split_part(e.source_key, ':', 1) = e.event
     AND p.account_id IN ('unbilled_receivables', 'revenue')),
posted AS (
  SELECT e.source_key, e.currency, p.amount,
         CASE WHEN e.source_key NOT LIKE 'payment:%%' THEN p.account_id
              WHEN p.account_id IN ('clearing', 'customer_credit') THEN 'payer'
              ELSE p.account_id END AS account
    FROM billing_journalentry e JOIN billing_posting p ON p.entry_id = e.id)
SELECT source_key, account, currency, coalesce(sum(due), 0), sum(posted)
  FROM (SELECT source_key, account, currency, amount AS due, NULL AS posted FROM due
         UNION ALL SELECT source_key, account, currency, NULL, amount FROM posted) u
 GROUP BY 1, 2, 3 HAVING coalesce(sum(due), 0) <> sum(posted)
 ORDER BY 1, 2, 3 LIMIT %(most)s
"""  # noqa: S608 - Put together from constants only.


def check_journal(_: Cursor) -> CheckedBatch:
    """Compare open items with the accounts that control them, and entries with their sources."""
    with connection.cursor() as database:
        database.execute(_DIFFERENCES)
        rows = database.fetchall()
        database.execute(_ENTRIES, {"most": ENTRIES_MAX})
        entries = database.fetchall()
    found = [
        f"Open items of {slug} are {items} {currency} on {account}; the journal has {posted}."
        for slug, account, currency, items, posted in rows
        if items != posted
    ]
    found += [
        f"The journal entry {key} has {posted} {currency} on {account}, and its source {due}."
        for key, account, currency, due, posted in entries
    ]
    return CheckedBatch(len(rows), tuple(found))
