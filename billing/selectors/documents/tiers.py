"""Tier schedules of an organization, what final documents billed of them, and its use."""

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection

from billing.domain.documents.tiers import ProjectNames, TierFacts, TierKey, TierUse
from billing.domain.pricing.tier_schedule import (
    TierBand,
    TierBasis,
    TierKind,
    TierRule,
    TierScope,
    TierSpan,
)
from billing.models import BillingPeriod


def tier_facts(
    period: BillingPeriod,
    *,
    currency: str,
    own_id: UUID | None = None,
    replaced_id: UUID | None = None,
) -> TierFacts:
    """Return what the tier lines of a period's document are computed from; one statement.

    Use is read from the lines of final documents, so that no charge is read again. A schedule
    applies to the months in whose last hour its book bills the organization.

    Args:
        period: The period.
        currency: Documents in another one, from before the organization changed it, count apart.
        own_id: A draft whose own lines are read, too.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
    """
    values: dict[str, Any] = {
        "organization": period.organization_id,
        "currency": currency,
        "own": own_id,
        "replaced": replaced_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, values)
        parts = [json.loads(part) if isinstance(part, str) else part for part in cursor.fetchone()]
    rules, applies, use, billed, projects = (part or [] for part in parts)
    return TierFacts(
        rules=tuple(_rule(row) for row in rules),
        applies=frozenset((row["schedule"], row["month"]) for row in applies),
        use=tuple(_use(row) for row in use if not row["is_own"]),
        own_use=tuple(_use(row) for row in use if row["is_own"]),
        billed={_key(row): Decimal(row["amount"]) for row in billed if not row["is_own"]},
        own={_key(row): Decimal(row["amount"]) for row in billed if row["is_own"]},
        projects={
            row["id"]: ProjectNames(row["slug"], row["name"], row["cost_center"])
            for row in projects
        },
    )


def rule_of(row: Any) -> TierRule:  # noqa: ANN401 - A schedule.
    """Return a stored schedule as the domain knows it."""
    names = [name for name in TierRule.__dataclass_fields__ if name != "id"]
    return _rule({"id": str(row.pk), **{name: getattr(row, name) for name in names}})


def _rule(row: dict[str, Any]) -> TierRule:
    return TierRule(
        id=row["id"],
        name=row["name"],
        basis=TierBasis(row["basis"]),
        kind=TierKind(row["kind"]),
        scope=TierScope(row["scope"]),
        span=TierSpan(row["span"]),
        year_begins=row["year_begins"],
        sizes=tuple(row["sizes"]),
        price_groups=tuple(row["price_groups"]),
        first_month=row["first_month"],
        last_month=row["last_month"],
        bands=tuple(
            TierBand(Decimal(band["above"]), Decimal(band["discount_percent"]))
            for band in row["bands"]
        ),
    )


def _use(row: dict[str, Any]) -> TierUse:
    return TierUse(
        project_id=row["project"],
        size=row["size"],
        price_group=row["price_group"],
        unit_price=Decimal(row["unit_price"]),
        month=row["month"],
        unit_seconds=int(row["unit_seconds"]),
    )


def _key(row: dict[str, Any]) -> TierKey:
    return TierKey(row["schedule"], row["span"], row["band"], row["project"])


# The arrays have lines read by their invoice also where nested loops are ruled out.
_FACTS = """
WITH schedules AS MATERIALIZED (
  SELECT s.* FROM billing_tierschedule s
   WHERE s.withdrawn_at IS NULL AND EXISTS (
           SELECT FROM billing_pricebookassignment a
            WHERE (a.organization_id, a.price_book_id) = (%(organization)s, s.price_book_id)
              AND a.superseded_at IS NULL)
      OR s.id IN (
           SELECT l.tier_schedule_id
             FROM billing_invoice i
             JOIN billing_invoiceline l ON l.invoice_id = i.id AND l.kind = 'tier'
            WHERE i.organization_id = %(organization)s
              AND l.invoice_id = ANY (ARRAY(
                SELECT id FROM billing_invoice WHERE organization_id = %(organization)s)))
),
months AS MATERIALIZED (
  SELECT p.id, p.label, upper(p.hours) - interval '1 hour' AS last_hour
    FROM billing_billingperiod p
   WHERE p.organization_id = %(organization)s
     AND EXISTS (SELECT FROM schedules s WHERE p.label BETWEEN s.first_month AND s.last_month)
),
documents AS MATERIALIZED (
  SELECT i.id, i.period_id, i.id IS NOT DISTINCT FROM %(own)s::uuid AS is_own
    FROM billing_invoice i
   WHERE i.organization_id = %(organization)s AND EXISTS (SELECT FROM schedules)
     AND i.currency = %(currency)s
     AND (i.state = 'final' AND i.id IS DISTINCT FROM %(replaced)s::uuid OR i.id = %(own)s::uuid)
),
used AS MATERIALIZED (
  SELECT l.project_id::text AS project, l.size, l.price_group, l.unit_price::text, m.label AS month,
         d.is_own, sum(l.unit_seconds)::text AS unit_seconds
    FROM documents d
    JOIN billing_invoiceline l ON l.invoice_id = d.id AND l.kind = 'usage'
    JOIN months m ON m.id = coalesce(l.service_period_id, d.period_id)
   WHERE l.invoice_id = ANY (ARRAY(SELECT id FROM documents))
   GROUP BY l.project_id, l.size, l.price_group, l.unit_price, m.label, d.is_own
),
billed AS MATERIALIZED (
  SELECT l.tier_schedule_id::text AS schedule, l.tier_span AS span, l.tier_band AS band,
         l.project_id::text AS project, d.is_own, sum(l.amount)::text AS amount
    FROM documents d JOIN billing_invoiceline l ON l.invoice_id = d.id AND l.kind = 'tier'
   WHERE l.invoice_id = ANY (ARRAY(SELECT id FROM documents))
   GROUP BY l.tier_schedule_id, l.tier_span, l.tier_band, l.project_id, d.is_own
)
SELECT
  (SELECT jsonb_agg(to_jsonb(s) ORDER BY s.id) FROM schedules s),
  (SELECT jsonb_agg(jsonb_build_object('schedule', s.id::text, 'month', m.label))
     FROM schedules s
     JOIN months m ON m.label BETWEEN s.first_month AND s.last_month
     JOIN billing_pricebookassignment a
       ON (a.organization_id, a.price_book_id) = (%(organization)s, s.price_book_id)
      AND a.superseded_at IS NULL AND a.valid @> m.last_hour
    WHERE s.withdrawn_at IS NULL),
  (SELECT jsonb_agg(to_jsonb(u)) FROM used u),
  (SELECT jsonb_agg(to_jsonb(b)) FROM billed b),
  (SELECT jsonb_agg(jsonb_build_object('id', p.id::text, 'slug', p.slug, 'name', p.name,
                                       'cost_center', p.cost_center))
     FROM tenants_project p
    WHERE p.organization_id = %(organization)s
      AND p.id::text IN (SELECT project FROM used UNION SELECT project FROM billed))
"""
