"""Minimum charges of organizations, and what standing documents billed of their months."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.domain.documents.minimums import MinimumFacts
from billing.domain.documents.tiers import ProjectNames
from billing.domain.pricing.minimum import MinimumRule
from billing.models import BillingPeriod
from billing.selectors.documents.membership import STANDING, read_standing


def minimum_facts_of(
    currencies: Mapping[UUID, str], *, own_ids: Sequence[UUID] = (), replaced_id: UUID | None = None
) -> dict[UUID, MinimumFacts]:
    """Return the facts of organizations that ever had a minimum charge; one statement.

    Args:
        currencies: Of the documents, by organization.
        own_ids: Drafts of a run whose own lines are read, too.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
    """
    rows = read_standing(_FACTS, currencies, own_ids=own_ids, replaced_id=replaced_id)
    return {key: _facts(*parts) for key, *parts in rows}


def _facts(*parts: str | None) -> MinimumFacts:
    rules, amounts, projects, periods = (json.loads(part or "null") for part in parts)
    sums: dict[tuple[bool, bool], dict[tuple[str, str], Decimal]] = {
        (is_own, is_minimum): {} for is_own in (True, False) for is_minimum in (True, False)
    }
    for is_own, is_minimum, month, project, amount in amounts or ():
        sums[is_own, is_minimum][month, project] = Decimal(amount)
    return MinimumFacts(
        rules=tuple(MinimumRule(Decimal(amount), *months) for amount, *months in rules or ()),
        net=sums[False, False],
        billed=sums[False, True],
        own_net=sums[True, False],
        own=sums[True, True],
        projects={key: ProjectNames(*names) for key, *names in projects or ()},
        periods=periods or {},
    )


IN_FORCE: Final = """EXISTS (
  SELECT FROM billing_minimumcharge m
   WHERE m.organization_id = {organization} AND m.withdrawn_at IS NULL AND m.amount > 0
     AND {label} >= m.first_month AND (m.last_month = '' OR {label} <= m.last_month)
     AND (m.superseded_from = '' OR {label} < m.superseded_from))"""
"""Whether an organization has a minimum charge in a month: it is then billed without use, too."""


def has_minimum(period: BillingPeriod) -> bool:
    """Whether a month is billed without use, too."""
    statement = f"SELECT {IN_FORCE}".format(organization="%(organization)s", label="%(label)s")
    values: dict[str, Any] = {"organization": period.organization_id, "label": period.label}
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return bool(cursor.fetchone()[0])


_FACTS: Final = f"""
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(%(organizations)s::uuid[], %(currencies)s::text[])
    AS a(organization_id, currency)
   WHERE EXISTS (SELECT FROM billing_minimumcharge m WHERE m.organization_id = a.organization_id)
),
{STANDING},
amounts AS MATERIALIZED (
  SELECT d.organization_id, d.is_own, l.kind = 'minimum' AS is_minimum,
         CASE WHEN s.span = 'period' THEN l.tier_span ELSE p.label END AS month,
         l.project_id, sum(l.amount) AS amount
    FROM documents d
    JOIN billing_invoiceline l ON l.invoice_id = d.id
    JOIN billing_billingperiod p ON p.id = coalesce(l.service_period_id, d.period_id)
    LEFT JOIN billing_tierschedule s ON s.id = l.tier_schedule_id
   WHERE l.kind <> 'credit' AND l.invoice_id = ANY (ARRAY(SELECT id FROM documents))
   GROUP BY 1, 2, 3, 4, 5
)
SELECT a.organization_id,
       (SELECT jsonb_agg(jsonb_build_array(m.amount::text, m.first_month, m.last_month,
                                           m.superseded_from) ORDER BY m.first_month)
          FROM billing_minimumcharge m
         WHERE (m.organization_id, m.currency) = (a.organization_id, a.currency)
           AND m.withdrawn_at IS NULL),
       (SELECT jsonb_agg(jsonb_build_array(x.is_own, x.is_minimum, x.month, x.project_id::text,
                                           x.amount::text))
          FROM amounts x WHERE x.organization_id = a.organization_id),
       (SELECT jsonb_agg(jsonb_build_array(p.id::text, p.slug, p.name, p.cost_center)
                         ORDER BY p.created_at, p.slug)
          FROM tenants_project p WHERE p.organization_id = a.organization_id),
       (SELECT jsonb_object_agg(p.label, p.id::text)
          FROM billing_billingperiod p WHERE p.organization_id = a.organization_id)
  FROM asked a
"""  # noqa: S608 - Put together from constants only.
