"""Months of all organizations: what is to be drafted, closed or drafted again, and their board."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.domain.documents.invoicing import reference_of
from billing.domain.documents.taxes import tax_point_of
from billing.domain.month_board import MonthFacts
from billing.domain.period import Month
from billing.models import BillingPeriod, PeriodState
from billing.selectors.documents.invoices import usual_totals
from billing.selectors.documents.minimums import IN_FORCE
from billing.selectors.documents.taxes import missing_rates
from billing.selectors.pricing.held_costs import PriceBookHeldCosts
from metering.protocols.held_costs import HeldCost
from metering.selectors.corrections.exceptions import HeldUsage, held_of_organizations


@dataclass(frozen=True)
class Undrafted:
    """Open periods that are over and have no invoice.

    Attributes:
        ready_ids: Those with charges, or a minimum charge, that nothing is known to hold up: least
            recently refused first, then oldest first.
        nil_ids: Those without, likewise.
        parked: How many others wait for windows, corrections or prices.
    """

    ready_ids: tuple[UUID, ...]
    nil_ids: tuple[UUID, ...]
    parked: int


def undrafted_periods(*, ended_before: datetime) -> Undrafted:
    """Return the periods of all organizations; one statement, whatever their number.

    Args:
        ended_before: A period counts as over when it ended by then.
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNDRAFTED, {"ended_before": ended_before})
        rows = cursor.fetchall()
    ready = tuple(key for key, is_parked, has_charges in rows if has_charges and not is_parked)
    nil = tuple(key for key, is_parked, has_charges in rows if not has_charges and not is_parked)
    return Undrafted(ready, nil, parked=len(rows) - len(ready) - len(nil))


# The hours that are not accrued are few, so they are found once for each cluster, and not for each
# organization. Like readiness, only hours count in which a namespace was bound.
REASONS: Final = """
unfinished AS MATERIALIZED (
  SELECT c.id AS cluster_id, hour.start_at
    FROM (SELECT min(begin_at) AS begin_at, max(end_at) AS end_at FROM due) span
   CROSS JOIN tenants_cluster c
   CROSS JOIN LATERAL generate_series(
     greatest(date_trunc('hour', c.metered_from), span.begin_at),
     least(c.metered_until, span.end_at) - interval '1 hour', interval '1 hour') AS hour(start_at)
   WHERE NOT EXISTS (
     SELECT FROM billing_accruedwindow a
      WHERE a.cluster_id = c.id AND a.window_start = hour.start_at)
),
unaccrued AS MATERIALIZED (
  SELECT d.id, count(DISTINCT (u.cluster_id, u.start_at)) AS hours, min(u.start_at) AS first_at
    FROM unfinished u
    JOIN tenants_namespacebinding b ON b.cluster_id = u.cluster_id AND b.valid @> u.start_at
    JOIN tenants_project p ON p.id = b.project_id
    JOIN due d ON d.organization_id = p.organization_id
     AND u.start_at >= d.begin_at AND u.start_at < d.end_at
   GROUP BY 1
),
unrated AS MATERIALIZED (
  SELECT d.id, count(*) AS hours
    FROM billing_accruedusage a
    JOIN due d ON d.organization_id = a.organization_id
     AND a.window_start >= d.begin_at AND a.window_start < d.end_at
   WHERE a.unpriced_unit_seconds <> 0 AND a.price_mark < 0
   GROUP BY 1
),
uncorrected AS MATERIALIZED (
  SELECT d.id, count(*) AS corrections
    FROM metering_posted_correction c
    LEFT JOIN billing_accruedcorrection a ON a.correction_id = c.id
    JOIN due d ON d.organization_id = c.organization_id AND c.window_start < d.end_at
   WHERE a.correction_id IS NULL
   GROUP BY 1
),
unpriced AS MATERIALIZED (
  SELECT d.id, count(*) AS exceptions, sum(e.unit_seconds)::bigint AS unit_seconds
    FROM billing_accrualexception e
    JOIN due d ON d.organization_id = e.organization_id
     AND e.window_start >= d.begin_at AND e.window_start < d.end_at
   WHERE e.resolved_at IS NULL
   GROUP BY 1
)"""
"""What holds up the months in `due` (id, organization_id, begin_at, end_at), by month."""

_UNDRAFTED: Final = f"""
WITH due AS MATERIALIZED (
  SELECT p.id, p.organization_id, p.label, p.draft_refused_at, lower(p.hours) AS begin_at,
         upper(p.hours) AS end_at
    FROM billing_billingperiod p
   WHERE p.state = 'open' AND upper(p.hours) <= %(ended_before)s
     AND NOT EXISTS (SELECT FROM billing_invoice i WHERE i.period_id = p.id)
),
{REASONS}
SELECT d.id,
       EXISTS (SELECT FROM unaccrued x WHERE x.id = d.id)
       OR EXISTS (SELECT FROM unrated x WHERE x.id = d.id)
       OR EXISTS (SELECT FROM uncorrected x WHERE x.id = d.id)
       OR EXISTS (SELECT FROM unpriced x WHERE x.id = d.id),
       EXISTS (SELECT FROM billing_charge c WHERE c.period_id = d.id)
       OR {IN_FORCE.format(organization="d.organization_id", label="d.label")}
  FROM due d
 ORDER BY d.draft_refused_at NULLS FIRST, d.begin_at, d.id
"""  # noqa: S608 - Put together from constants only.


def stale_drafts(*, checked_before: datetime) -> list[UUID]:
    """Return the periods whose drafts are to be made again; one statement.

    Args:
        checked_before: A draft compared with the charges before this is due, and one whose
            organization had a correction charged since.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STALE, {"checked_before": checked_before})
        return [row[0] for row in cursor.fetchall()]


_STALE = """
SELECT p.id
  FROM billing_invoice i JOIN billing_billingperiod p ON p.id = i.period_id
 CROSS JOIN LATERAL (SELECT greatest(i.checked_at, i.drafted_at) AS at) looked
 WHERE i.state = 'draft' AND p.state = 'open'
   AND (looked.at < %(checked_before)s
     OR EXISTS (SELECT FROM billing_accruedcorrection a
                 WHERE a.organization_id = p.organization_id AND a.accrued_at > looked.at))
 GROUP BY p.id ORDER BY min(looked.at), p.id
"""


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
    held = held_of_organizations(
        {row["organization_id"]: (row["begin_at"], row["end_at"]) for row in rows}
    )
    months = [_facts(row, usual=usual, previous=previous) for row in rows]
    return _with_held(_with_untaxed(months, label=label, ended_by=ended_by), held)


def _with_untaxed(
    months: Sequence[MonthFacts], *, label: str, ended_by: datetime
) -> list[MonthFacts]:
    """Return months with what they are taxed by and has no rate; one statement."""
    tax_point = tax_point_of(label)
    due = [
        month.period_id
        for month in months
        if month.state == PeriodState.OPEN and month.end_at <= ended_by
    ]
    missing = missing_rates(due, label=label, tax_point=tax_point)
    texts = {
        key: " and ".join(f"{tax.country}, category {tax.category}," for tax in taxes)
        for key, taxes in missing.items()
    }
    return [
        replace(month, untaxed=f"no tax rate of {texts[month.period_id]} on {tax_point}")
        if month.period_id in texts
        else month
        for month in months
    ]


def _with_held(months: Iterable[MonthFacts], held: Mapping[UUID, HeldUsage]) -> list[MonthFacts]:
    """Return months with what exceptions keep off their bills, and its cost; one statement."""
    uses = [use for usage in held.values() for use in usage.uses]
    costs: defaultdict[UUID | None, list[HeldCost]] = defaultdict(list)
    for use, cost in zip(uses, PriceBookHeldCosts().costs_of(uses), strict=True):
        costs[use.organization_id].append(cost)
    return [
        _held_facts(month, held[month.organization_id], costs[month.organization_id])
        if month.organization_id in held
        else month
        for month in months
    ]


def _held_facts(month: MonthFacts, held: HeldUsage, costs: Sequence[HeldCost]) -> MonthFacts:
    known = [
        cost.amount for cost in costs if cost.amount is not None and cost.currency == month.currency
    ]
    return replace(
        month,
        held=held.exceptions,
        held_unit_seconds=held.held_unit_seconds,
        held_cost=sum(known, start=Decimal()) if known else None,
        held_unpriced=len(costs) - len(known),
    )


def month_labels() -> list[str]:
    """Return the labels of all months, newest first."""
    labels = BillingPeriod.objects.order_by("-label").values_list("label", flat=True)
    return list(labels.distinct())


def labels_over(*, ended_by: datetime) -> list[str]:
    """Return the labels of months that are over and still open, oldest first."""
    over = BillingPeriod.objects.filter(state=PeriodState.OPEN, hours__endswith__lte=ended_by)
    return list(over.order_by("label").values_list("label", flat=True).distinct())


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
  SELECT p.id, p.organization_id, p.label, o.slug, o.name, o.billing_currency, p.state,
         p.reviewed_by, p.reviewed_by_id, lower(p.hours) AS begin_at, upper(p.hours) AS end_at
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
       EXISTS (SELECT FROM billing_charge c WHERE c.period_id = e.id)
       OR {IN_FORCE.format(organization="e.organization_id", label="e.label")} AS has_charges,
       i.id AS invoice_id, i.series, i.number, coalesce(i.version, 0) AS version,
       coalesce((SELECT sum(f.total) FROM billing_invoice f
                  WHERE f.period_id = e.id AND f.state = 'final'), i.total) AS total,
       i.payable, coalesce(i.documents, 0) AS documents,
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
    SELECT i.id, i.series, i.number, i.version, i.currency, sum(i.total) OVER run AS total,
           sum(i.total + i.tax_total + i.brought_forward - i.carried_forward) OVER run
             AS payable, count(*) OVER run AS documents
      FROM billing_invoice i
     WHERE i.period_id = e.id AND i.corrects_id IS NULL
    WINDOW run AS (PARTITION BY i.run)
     ORDER BY i.run DESC, i.id LIMIT 1) i ON true
 ORDER BY e.slug
"""  # noqa: S608 - Put together from constants only.
