"""Tier schedules of an organization, what final documents billed of them, and its use."""

import json
from collections.abc import Mapping, Sequence
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


def tier_facts_of(
    currencies: Mapping[UUID, str], *, own_ids: Sequence[UUID] = (), replaced_id: UUID | None = None
) -> dict[UUID, TierFacts]:
    """Return the tier facts of organizations, whose currencies are given; one statement.

    Use is read from the lines of final documents, so that no charge is read again. A schedule
    applies to the months in whose last hour its book bills the organization.
    """
    values: dict[str, Any] = {
        "organizations": list(currencies),
        "currencies": list(currencies.values()),
        "own": list(own_ids),
        "replaced": replaced_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, values)
        return {key: _facts(*map(_parsed, parts)) for key, *parts in cursor.fetchall()}


def _parsed(part: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(part) if isinstance(part, str) else part or []
    return found


def _facts(
    rules: list[dict[str, Any]],
    applies: list[dict[str, Any]],
    use: list[dict[str, Any]],
    billed: list[dict[str, Any]],
    projects: list[dict[str, Any]],
) -> TierFacts:
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
        superseded_from=row["superseded_from"],
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
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(%(organizations)s::uuid[], %(currencies)s::text[])
    AS a(organization_id, currency)
),
known AS MATERIALIZED (
  SELECT a.organization_id, s.id
    FROM billing_organization_book a JOIN billing_tierschedule s USING (price_book_id)
   WHERE a.organization_id = ANY (%(organizations)s) AND s.withdrawn_at IS NULL
   UNION
  SELECT i.organization_id, l.tier_schedule_id
    FROM billing_invoice i JOIN billing_invoiceline l ON l.invoice_id = i.id AND l.kind = 'tier'
   WHERE i.organization_id = ANY (%(organizations)s)
     AND l.invoice_id = ANY (ARRAY(
       SELECT id FROM billing_invoice WHERE organization_id = ANY (%(organizations)s)))
),
schedules AS MATERIALIZED (
  SELECT k.organization_id, s.* FROM known k JOIN billing_tierschedule s USING (id)
),
months AS MATERIALIZED (
  SELECT p.id, p.organization_id, p.label, upper(p.hours) - interval '1 hour' AS last_hour
    FROM billing_billingperiod p
   WHERE p.organization_id = ANY (ARRAY(SELECT organization_id FROM schedules))
     AND EXISTS (SELECT FROM schedules s
                  WHERE s.organization_id = p.organization_id
                    AND p.label BETWEEN s.first_month AND s.last_month)
),
documents AS MATERIALIZED (
  SELECT i.id, i.organization_id, i.period_id, i.id = ANY (%(own)s::uuid[]) AS is_own
    FROM billing_invoice i JOIN asked a USING (organization_id, currency)
   WHERE i.organization_id = ANY (ARRAY(SELECT organization_id FROM schedules))
     AND (i.state = 'final' AND i.id IS DISTINCT FROM %(replaced)s::uuid
       OR i.id = ANY (%(own)s::uuid[]))
),
used AS MATERIALIZED (
  SELECT d.organization_id, l.project_id::text AS project, l.size, l.price_group,
         l.unit_price::text, m.label AS month, d.is_own, sum(l.unit_seconds)::text AS unit_seconds
    FROM documents d
    JOIN billing_invoiceline l ON l.invoice_id = d.id AND l.kind = 'usage'
    JOIN months m ON m.id = coalesce(l.service_period_id, d.period_id)
   WHERE l.invoice_id = ANY (ARRAY(SELECT id FROM documents))
   GROUP BY 1, l.project_id, l.size, l.price_group, l.unit_price, m.label, d.is_own
),
billed AS MATERIALIZED (
  SELECT d.organization_id, l.tier_schedule_id::text AS schedule, l.tier_span AS span,
         l.tier_band AS band, l.project_id::text AS project, d.is_own, sum(l.amount)::text AS amount
    FROM documents d JOIN billing_invoiceline l ON l.invoice_id = d.id AND l.kind = 'tier'
   WHERE l.invoice_id = ANY (ARRAY(SELECT id FROM documents))
   GROUP BY 1, l.tier_schedule_id, l.tier_span, l.tier_band, l.project_id, d.is_own
)
SELECT a.organization_id, rules.rows, applies.rows, used.rows, billed.rows, projects.rows
  FROM asked a
  LEFT JOIN (
    SELECT organization_id, jsonb_agg(to_jsonb(s) ORDER BY s.id) AS rows FROM schedules s GROUP BY 1
  ) rules USING (organization_id)
  LEFT JOIN (
    SELECT s.organization_id,
           jsonb_agg(jsonb_build_object('schedule', s.id::text, 'month', m.label)) AS rows
      FROM schedules s
      JOIN months m ON m.organization_id = s.organization_id
       AND m.label BETWEEN s.first_month AND s.last_month
       AND (s.superseded_from = '' OR m.label < s.superseded_from)
      JOIN billing_organization_book a
        ON (a.organization_id, a.price_book_id) = (s.organization_id, s.price_book_id)
       AND a.organization_id = ANY (%(organizations)s) AND a.valid @> m.last_hour
     WHERE s.withdrawn_at IS NULL
     GROUP BY 1) applies USING (organization_id)
  LEFT JOIN (
    SELECT organization_id, jsonb_agg(to_jsonb(u)) AS rows FROM used u GROUP BY 1
  ) used USING (organization_id)
  LEFT JOIN (
    SELECT organization_id, jsonb_agg(to_jsonb(b)) AS rows FROM billed b GROUP BY 1
  ) billed USING (organization_id)
  LEFT JOIN (
    SELECT p.organization_id,
           jsonb_agg(jsonb_build_object('id', p.id::text, 'slug', p.slug, 'name', p.name,
                                        'cost_center', p.cost_center)) AS rows
      FROM (SELECT project FROM used UNION SELECT project FROM billed) named
      JOIN tenants_project p ON p.id = named.project::uuid
     GROUP BY 1) projects USING (organization_id)
"""
