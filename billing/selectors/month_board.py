"""The months of all organizations with one label: four statements, whatever their number."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.domain.invoicing import reference_of
from billing.domain.month_board import MonthFacts
from billing.domain.period import Month
from billing.models import BillingPeriod
from billing.selectors.invoices import usual_totals
from billing.selectors.undrafted import REASONS
from metering.selectors.corrections.exceptions import open_exceptions_of_organizations


def month_board(label: str, *, ended_by: datetime) -> list[MonthFacts]:
    """Return the months with a label such as "2026-10", by organization.

    Args:
        label: The month.
        ended_by: A month that ends later has no reasons yet: it goes on.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BOARD, {"label": label, "ended_by": ended_by})
        names = [column.name for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    organizations = [row["organization_id"] for row in rows]
    usual = usual_totals(organizations, label=label)
    previous = _previous(organizations, label=Month.parse(label).shift(-1).label)
    held = open_exceptions_of_organizations(
        {row["organization_id"]: (row["begin_at"], row["end_at"]) for row in rows}
    )
    months = [_facts(row, usual=usual, previous=previous) for row in rows]
    return [
        replace(
            month,
            held=held[month.organization_id].exceptions,
            held_unit_seconds=held[month.organization_id].held_unit_seconds,
        )
        if month.organization_id in held
        else month
        for month in months
    ]


def month_labels() -> list[str]:
    """Return the labels of all months, newest first."""
    labels = BillingPeriod.objects.order_by("-label").values_list("label", flat=True)
    return list(labels.distinct())


def _facts(
    row: dict[str, Any],
    *,
    usual: dict[tuple[UUID, str], Decimal],
    previous: dict[tuple[UUID, str], Decimal],
) -> MonthFacts:
    series, number = row.pop("series"), row.pop("number")
    key = (row["organization_id"], row["currency"])
    return MonthFacts(
        **row,
        reference="draft" if number is None else reference_of(series, number),
        usual=usual.get(key),
        previous=previous.get(key),
    )


def _previous(organization_ids: list[UUID], *, label: str) -> dict[tuple[UUID, str], Decimal]:
    with connection.cursor() as cursor:
        cursor.execute(_PREVIOUS, {"ids": organization_ids, "label": label})
        return {(key, currency): total for key, currency, total in cursor.fetchall()}


_PREVIOUS: Final = """
SELECT p.organization_id, i.currency, sum(i.total)
  FROM billing_billingperiod p JOIN billing_invoice i ON i.period_id = p.id
 WHERE p.organization_id = ANY(%(ids)s) AND p.label = %(label)s AND i.state = 'final'
 GROUP BY 1, 2
"""
_BOARD: Final = f"""
WITH every AS MATERIALIZED (
  SELECT p.id, p.organization_id, o.slug, o.name, o.billing_currency, p.state, p.reviewed_by,
         p.reviewed_by_id, lower(p.hours) AS begin_at, upper(p.hours) AS end_at
    FROM billing_billingperiod p JOIN tenants_organization o ON o.id = p.organization_id
   WHERE p.label = %(label)s
),
due AS MATERIALIZED (
  SELECT id, organization_id, begin_at, end_at FROM every
   WHERE state = 'open' AND end_at <= %(ended_by)s
),
{REASONS}
SELECT e.id AS period_id, e.organization_id, e.slug, e.name AS organization, e.state, e.begin_at,
       e.end_at, e.reviewed_by, e.reviewed_by_id,
       EXISTS (SELECT FROM billing_charge c WHERE c.period_id = e.id) AS has_charges,
       i.id AS invoice_id, i.series, i.number, i.total,
       coalesce(i.currency, e.billing_currency) AS currency,
       coalesce(ua.hours, 0) + coalesce(ur.hours, 0) AS unaccrued_hours,
       ua.first_at AS first_unaccrued_at, coalesce(uc.corrections, 0) AS waiting_corrections,
       coalesce(up.exceptions, 0) AS unpriced, coalesce(up.unit_seconds, 0) AS unpriced_unit_seconds
  FROM every e
  LEFT JOIN unaccrued ua ON ua.id = e.id
  LEFT JOIN unrated ur ON ur.id = e.id
  LEFT JOIN uncorrected uc ON uc.id = e.id
  LEFT JOIN unpriced up ON up.id = e.id
  LEFT JOIN LATERAL (
    SELECT i.id, i.series, i.number, i.total, i.currency FROM billing_invoice i
     WHERE i.period_id = e.id AND i.corrects_id IS NULL ORDER BY i.run DESC LIMIT 1) i ON true
 ORDER BY e.slug
"""  # noqa: S608 - Put together from constants only.
