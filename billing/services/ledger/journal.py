"""Posting to the journal: any event, unbilled use at the end of a month, and closed months.

Every event is posted by one statement, from the rows it happened to; its source key lets it be
posted once only.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from django.db import connection, transaction

from billing.domain.ledger.errors import AccountingMonthError
from billing.domain.period import Month, month_hours
from billing.models import AccountingMonth
from billing.selectors.documents.previews import terms_to_date
from billing.selectors.locks import lock_accounting_months
from tenants.domain.actors import Actor
from tenants.domain.currencies import MINOR_DIGITS
from tenants.services.audit import record

BEFORE_ALL: Final = "0000-00"
"""The label of a row that stands for no closed month."""


def accrue_unbilled(*, label: str, actor: Actor, at: datetime) -> int:
    """Post use that no final document had billed by the end of a month, and its reversal.

    The accrual has the last day of the month, its reversal the first day of the next. What tiers,
    minimum charges and credits add to the use of its months is in it. An organization and currency
    is accrued once a month: a second call adds those that were missing.

    Args:
        label: The month, which is over and not closed, such as "2026-10".
        actor: The account that asks for it.
        at: When.

    Returns:
        How many entries were posted, reversals among them.

    Raises:
        PeriodLabelInvalidError: The label names no month.
        AccountingMonthError: The month is not over, or closed.
    """
    month = Month.parse(label)
    span = month_hours(month, UTC)
    with transaction.atomic():
        # No document becomes final between the two statements: each has its terms once.
        _require_month(month, last=lock_accounting_months(), at=at)
        terms = terms_to_date(label)
        values = {
            "label": label,
            "end": span.end_at,
            "digits": json.dumps(MINOR_DIGITS),
            "terms": json.dumps(
                [[str(payer), *rest, str(amount)] for (payer, *rest), amount in terms.items()]
            ),
        }
        posted = post_events(_UNBILLED, values, actor=actor, at=at)
        _audit(label, action="accrue", facts={"entries": posted}, actor=actor, at=at)
    return posted


def close_accounting_month(*, label: str, actor: Actor, at: datetime) -> AccountingMonth:
    """Close a month of the general ledger with all before it: it takes no entry from then on.

    Args:
        label: A month that is over, such as "2026-10".
        actor: The account that closes it.
        at: When.

    Raises:
        PeriodLabelInvalidError: The label names no month.
        AccountingMonthError: The month is not over, or closed.
    """
    month = Month.parse(label)
    with transaction.atomic():
        _require_month(month, last=lock_accounting_months(), at=at)
        closed = AccountingMonth.objects.create(label=label, closed_at=at, closed_by=actor.label)
        _audit(label, action="close", facts={}, actor=actor, at=at)
    return closed


def post_events(source: str, values: Mapping[str, Any], *, actor: Actor, at: datetime) -> int:
    """Post entries and return how many; share the accounting months before.

    Args:
        source: A query of one row for each posting: event, source_key, organization_id, currency,
            document_on, reason, account, amount. What is posted already is passed over, and an
            amount of zero left out.
        values: Its values.
        actor: The account that posts.
        at: When.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _POST.format(source=source),
            {**values, "posted_by": actor.label, "at": at},
        )
        (posted,) = cursor.fetchone()
    return int(posted)


def _require_month(month: Month, *, last: str, at: datetime) -> None:
    if month.label <= last or month_hours(month, UTC).end_at > at:
        raise AccountingMonthError(
            f"The accounting month {month.label} is not over, or closed already."
            + (f" The last closed one is {last}." if last > BEFORE_ALL else ""),
            field="label",
            facts={"last_closed": last},
        )


def _audit(
    label: str, *, action: str, facts: Mapping[str, Any], actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:accounting_month:{action}",
        object_kind="accounting_month",
        object_id=label,
        facts=facts,
    )


_POST: Final = """
WITH drafted AS MATERIALIZED ({source}),
entries AS (
  INSERT INTO billing_journalentry
    (id, event, source_key, organization_id, currency, document_on, posting_on, reason, posted_by,
     posted_at)
  SELECT gen_random_uuid(), d.event, d.source_key, d.organization_id, d.currency, d.document_on,
         greatest(d.document_on, closed.next_on), d.reason, %(posted_by)s, %(at)s
    FROM (SELECT DISTINCT event, source_key, organization_id, currency, document_on, reason
            FROM drafted WHERE amount <> 0) d
   CROSS JOIN (SELECT (to_date(nullif(max(label), '0000-00'), 'YYYY-MM') + interval '1 month')::date
                      AS next_on FROM billing_accountingmonth) closed
  ON CONFLICT (source_key) DO NOTHING
  RETURNING id, source_key),
postings AS (
  INSERT INTO billing_posting (id, entry_id, account_id, amount)
  SELECT gen_random_uuid(), e.id, d.account, d.amount
    FROM drafted d JOIN entries e USING (source_key) WHERE d.amount <> 0)
SELECT count(*) FROM entries
"""
# What a month's invoice bills is unbilled until the period closes. Each line is rounded as on it;
# the money of its terms is that of the invoice, or of the one that would be drafted now.
_UNBILLED: Final = """
SELECT d.event, d.event || ':' || %(label)s || ':' || s.organization_id || ':' || s.currency
         AS source_key,
       s.organization_id, s.currency, d.document_on, d.reason, p.account, p.amount
  FROM (SELECT l.organization_id, l.currency, sum(l.amount) AS amount
          FROM (SELECT c.organization_id, c.currency,
                       round(sum(c.unit_seconds) * c.unit_price / 3600,
                             (%(digits)s::jsonb ->> c.currency)::int) AS amount
                  FROM billing_billingperiod b JOIN billing_charge c ON c.period_id = b.id
                 WHERE (b.state <> 'closed' OR b.closed_at >= %(end)s)
                   AND c.window_start < %(end)s
                 GROUP BY c.organization_id, c.currency, c.period_id, c.project_id, c.size,
                          c.price_group, c.unit_price
                 UNION ALL
                SELECT (t ->> 0)::uuid, t ->> 1, (t ->> 2)::numeric
                  FROM jsonb_array_elements(%(terms)s::jsonb) t
                 UNION ALL
                SELECT i.organization_id, i.currency,
                       l.amount
                         + round(l.billed_unit_seconds * l.unit_price / 3600, i.digits)
                         - round((l.billed_unit_seconds + l.unit_seconds) * l.unit_price / 3600,
                                 i.digits)
                  FROM billing_billingperiod b
                  JOIN (SELECT *, (%(digits)s::jsonb ->> currency)::int AS digits
                          FROM billing_invoice) i ON i.period_id = b.id AND i.run = 1
                  JOIN billing_invoiceline l ON l.invoice_id = i.id
                 WHERE b.closed_at >= %(end)s AND b.label <= %(label)s) l
         GROUP BY l.organization_id, l.currency) s
 CROSS JOIN (VALUES
   ('accrual', (%(end)s::timestamptz AT TIME ZONE 'UTC')::date - 1,
    'Unbilled use by the end of ' || %(label)s, 1),
   ('accrual_reversal', (%(end)s::timestamptz AT TIME ZONE 'UTC')::date,
    'Reversal of unbilled use of ' || %(label)s, -1)) AS d(event, document_on, reason, sign)
 CROSS JOIN LATERAL (VALUES
   ('unbilled_receivables', d.sign * s.amount), ('revenue', -d.sign * s.amount))
   AS p(account, amount)
"""
