"""Accepted credits for broken hardware, and what standing documents gave back of them."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final
from uuid import UUID

from billing.domain.documents.hardware_credits import AcceptedCredit, CreditFacts, CreditKey
from billing.domain.documents.tiers import ProjectNames
from billing.selectors.documents.membership import STANDING, read_standing


def credit_facts_of(
    currencies: Mapping[UUID, str], *, own_ids: Sequence[UUID] = (), replaced_id: UUID | None = None
) -> dict[UUID, CreditFacts]:
    """Return the facts of organizations that ever had a credit accepted; one statement.

    Args:
        currencies: Of the documents, by organization.
        own_ids: Drafts of a run whose own lines are read, too.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
    """
    rows = read_standing(_FACTS, currencies, own_ids=own_ids, replaced_id=replaced_id)
    return {key: _facts(*parts) for key, *parts in rows}


def _facts(*parts: str | None) -> CreditFacts:
    accepted, amounts, projects, periods = (json.loads(part or "null") for part in parts)
    return CreditFacts(
        accepted=tuple(
            AcceptedCredit(_key(*key), charged_in, unit_seconds)
            for *key, charged_in, unit_seconds in accepted or ()
        ),
        billed={
            _key(*key): Decimal(amount) for is_own, amount, _, *key in amounts or () if not is_own
        },
        billed_through={
            _key(*key): through for is_own, _, through, *key in amounts or () if not is_own
        },
        own={_key(*key): Decimal(amount) for is_own, amount, _, *key in amounts or () if is_own},
        projects={key: ProjectNames(*names) for key, *names in projects or ()},
        periods=periods or {},
    )


def _key(month: str, project_id: str, size: str, price_group: str, unit_price: str) -> CreditKey:
    return CreditKey(month, project_id, size, price_group, Decimal(unit_price).normalize())


# A credit has the price that most of its use is charged at; without a charge there is nothing to
# give back. The first of its charges says from which document on it is due.
_FACTS: Final = f"""
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(%(organizations)s::uuid[], %(currencies)s::text[])
    AS a(organization_id, currency)
   WHERE EXISTS (SELECT FROM metering_accepted_credit q
                  WHERE q.organization_id = a.organization_id)
),
{STANDING},
amounts AS MATERIALIZED (
  SELECT d.organization_id, d.is_own, p.label AS month, l.project_id, l.size, l.price_group,
         l.unit_price, sum(l.amount) AS amount, max(b.label) AS through
    FROM documents d
    JOIN billing_billingperiod b ON b.id = d.period_id
    JOIN billing_invoiceline l ON l.invoice_id = d.id AND l.kind = 'credit'
    JOIN billing_billingperiod p ON p.id = coalesce(l.service_period_id, d.period_id)
   WHERE l.invoice_id = ANY (ARRAY(SELECT id FROM documents))
   GROUP BY 1, 2, 3, 4, 5, 6, 7
),
accepted AS MATERIALIZED (
  SELECT q.organization_id, s.label AS month, q.project_id, q.size, q.price_group, c.unit_price,
         c.charged_in, sum(q.unit_seconds)::bigint AS unit_seconds
    FROM asked a
    JOIN metering_accepted_credit q ON q.organization_id = a.organization_id
    JOIN billing_billingperiod s
      ON s.organization_id = q.organization_id AND s.hours @> q.window_start
   CROSS JOIN LATERAL (
     SELECT c.unit_price, min(p.label) AS charged_in
       FROM billing_charge c JOIN billing_billingperiod p ON p.id = c.period_id
      WHERE c.window_id = q.window_id AND c.window_start = q.window_start
        AND (c.organization_id, c.project_id, c.owner, c.size, c.price_group, c.currency)
            = (q.organization_id, q.project_id, q.owner, q.size, q.price_group, a.currency)
      GROUP BY c.unit_price HAVING sum(c.unit_seconds) > 0
      ORDER BY sum(c.unit_seconds) DESC, c.unit_price LIMIT 1) c
   GROUP BY 1, 2, 3, 4, 5, 6, 7
)
SELECT a.organization_id,
       (SELECT jsonb_agg(jsonb_build_array(x.month, x.project_id::text, x.size, x.price_group,
                                           x.unit_price::text, x.charged_in, x.unit_seconds))
          FROM accepted x WHERE x.organization_id = a.organization_id),
       (SELECT jsonb_agg(jsonb_build_array(x.is_own, x.amount::text, x.through, x.month,
                                           x.project_id::text, x.size, x.price_group,
                                           x.unit_price::text))
          FROM amounts x WHERE x.organization_id = a.organization_id),
       (SELECT jsonb_agg(jsonb_build_array(p.id::text, p.slug, p.name, p.cost_center))
          FROM tenants_project p WHERE p.organization_id = a.organization_id),
       (SELECT jsonb_object_agg(p.label, p.id::text)
          FROM billing_billingperiod p WHERE p.organization_id = a.organization_id)
  FROM asked a
"""  # noqa: S608 - Put together from constants only.
