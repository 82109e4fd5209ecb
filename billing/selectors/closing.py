"""Whether a period can be invoiced: every reason why not, found set-based."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from billing.domain.documents.document import utc_text
from billing.domain.documents.document_text import count_text
from billing.models import BillingPeriod
from tenants.domain.errors import FieldProblem
from tenants.models import NamespaceBinding


@dataclass(frozen=True)
class Readiness:
    """Counts that must all be 0, or equal, before a period is invoiced.

    Attributes:
        unsealed_windows: Hours of the organization's clusters that are over and not sealed.
        upcoming_windows: Hours of them that are not over yet.
        unaccrued_windows: Sealed windows whose usage of the organization is not rated.
        unaccrued_corrections: Posted corrections of its hours without accrual.
        open_exceptions: Usage of the period that waits for a price.
        held_unit_seconds: How much that is.
        used_unit_seconds: Sealed usage of the period's hours.
        charged_unit_seconds: Charges for the same hours, wherever they were posted.
        foreign_charges: Charges posted to the period in another than the billing currency.
    """

    unsealed_windows: int
    first_unsealed_at: datetime | None
    upcoming_windows: int
    unaccrued_windows: int
    unaccrued_corrections: int
    open_exceptions: int
    held_unit_seconds: int
    used_unit_seconds: int
    charged_unit_seconds: int
    foreign_charges: int


def readiness_of(period: BillingPeriod, *, at: datetime) -> Readiness:
    """Return how far metering and accrual of a period have come by a time."""
    return readiness_of_periods([period], at=at)[period.pk]


def readiness_of_periods(
    periods: Collection[BillingPeriod], *, at: datetime
) -> dict[UUID, Readiness]:
    """Return how far metering and accrual of periods have come by a time, by the period's id.

    Two statements for the periods of the same hours: as many as there are time zones.

    Args:
        periods: At most one of each organization.
        at: The time.
    """
    found: dict[UUID, Readiness] = {}
    together: defaultdict[tuple[datetime, datetime], list[BillingPeriod]] = defaultdict(list)
    for period in periods:
        together[period.hours.lower, period.hours.upper].append(period)
    for (begin_at, end_at), alike in together.items():
        values: dict[str, Any] = {
            "periods": [period.pk for period in alike],
            "organizations": [period.organization_id for period in alike],
            "begin": begin_at,
            "end": end_at,
            "at": at,
        }
        with connection.cursor() as cursor:
            cursor.execute(_WINDOWS, values)
            windows = {period_id: counts for period_id, *counts in cursor.fetchall()}
            cursor.execute(_AMOUNTS, values)
            found |= {
                period_id: Readiness(*windows[period_id], *amounts)
                for period_id, *amounts in cursor.fetchall()
            }
    return found


def reasons_against(
    period: BillingPeriod, readiness: Readiness, *, at: datetime
) -> tuple[FieldProblem, ...]:
    """Return every reason why a period cannot be invoiced yet; empty when it can."""
    settled = readiness.charged_unit_seconds + readiness.held_unit_seconds
    lost = readiness.used_unit_seconds - settled
    first, upcoming = readiness.first_unsealed_at, readiness.upcoming_windows
    corrections = readiness.unaccrued_corrections
    still = count_text(upcoming, "hour is", "hours are")
    found = (
        (
            at < period.hours.upper,
            "period_not_over",
            f"The period ends at {utc_text(period.hours.upper)}"
            + (f"; {still} still to come." if upcoming else "."),
        ),
        (
            readiness.unsealed_windows > 0,
            "windows_not_sealed",
            count_text(readiness.unsealed_windows, "metering window is", "metering windows are")
            + " not sealed"
            + (f", the first at {utc_text(first)}." if first else "."),
        ),
        (
            readiness.unaccrued_windows > 0,
            "windows_not_accrued",
            count_text(readiness.unaccrued_windows, "sealed window is", "sealed windows are")
            + " not accrued.",
        ),
        (
            corrections > 0,
            "corrections_not_accrued",
            count_text(corrections, "usage correction is", "usage corrections are")
            + " not accrued.",
        ),
        (
            readiness.open_exceptions > 0,
            "accrual_exceptions_open",
            count_text(
                readiness.open_exceptions, "accrual exception holds", "accrual exceptions hold"
            )
            + f" {readiness.held_unit_seconds} unit-seconds without a price.",
        ),
        (
            readiness.unaccrued_windows + corrections == 0 and lost != 0,
            "usage_not_charged",
            f"Usage and charges differ by {lost} unit-seconds.",
        ),
        (
            readiness.foreign_charges > 0,
            "charges_in_other_currency",
            count_text(readiness.foreign_charges, "charge is", "charges are")
            + " not in the billing currency.",
        ),
    )
    return tuple(
        FieldProblem(field="period", code=code, message=message)
        for applies, code, message in found
        if applies
    )


_DUE = """
due AS MATERIALIZED (
  SELECT p.id, p.organization_id, o.billing_currency AS currency
    FROM billing_billingperiod p JOIN tenants_organization o ON o.id = p.organization_id
   WHERE p.id = ANY (%(periods)s) AND o.id = ANY (%(organizations)s)
)"""
# An hour counts where a namespace of the organization was bound: elsewhere it can use nothing. The
# hours that are not accrued are few, so they are found once for each cluster.
_WINDOWS = f"""
WITH {_DUE},
bound AS MATERIALIZED (
  SELECT b.cluster_id, b.valid, d.id
    FROM due d
    JOIN tenants_project p ON p.organization_id = d.organization_id
    JOIN tenants_namespacebinding b ON b.project_id = p.id
   WHERE b.valid && tstzrange(%(begin)s, %(end)s)
),
unfinished AS MATERIALIZED (
  SELECT c.id AS cluster_id, hour.start_at, w.id IS NOT NULL AS is_sealed
    FROM tenants_cluster c
   CROSS JOIN LATERAL generate_series(
     greatest(date_trunc('hour', c.metered_from), %(begin)s),
     least(c.metered_until, %(end)s) - interval '1 hour', interval '1 hour') AS hour(start_at)
    LEFT JOIN metering_sealed_window w ON w.cluster_id = c.id AND w.start_at = hour.start_at
    LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
   WHERE c.id IN (SELECT cluster_id FROM bound) AND a.window_id IS NULL
),
waiting AS MATERIALIZED (
  SELECT DISTINCT b.id, u.cluster_id, u.start_at, u.is_sealed
    FROM unfinished u
    JOIN bound b ON b.cluster_id = u.cluster_id AND b.valid @> u.start_at
),
hours AS MATERIALIZED (
  SELECT id,
         count(*) FILTER (WHERE NOT is_sealed AND start_at <= %(at)s - interval '1 hour')
           AS missing,
         min(start_at) FILTER (WHERE NOT is_sealed AND start_at <= %(at)s - interval '1 hour')
           AS first_at,
         count(*) FILTER (WHERE NOT is_sealed AND start_at > %(at)s - interval '1 hour')
           AS upcoming,
         count(*) FILTER (WHERE is_sealed) AS unaccrued
    FROM waiting GROUP BY 1
),
unrated AS MATERIALIZED (
  SELECT organization_id, count(*) AS hours
    FROM billing_accruedusage
   WHERE organization_id = ANY (%(organizations)s)
     AND window_start >= %(begin)s AND window_start < %(end)s
     AND unpriced_unit_seconds <> 0 AND price_mark < 0
   GROUP BY 1
)
SELECT d.id, coalesce(h.missing, 0), h.first_at, coalesce(h.upcoming, 0),
       coalesce(h.unaccrued, 0) + coalesce(r.hours, 0)
  FROM due d
  LEFT JOIN hours h ON h.id = d.id
  LEFT JOIN unrated r ON r.organization_id = d.organization_id
"""  # noqa: S608 - Put together from constants only.
# Accrual stores what was used by organization and window: no usage is read again, and the charges
# of the month once; those of earlier hours are in other partitions.
_AMOUNTS = f"""
WITH {_DUE},
waiting AS MATERIALIZED (
  SELECT c.organization_id, count(*) AS corrections
    FROM metering_posted_correction c
    LEFT JOIN billing_accruedcorrection a ON a.correction_id = c.id
   WHERE c.organization_id = ANY (%(organizations)s) AND a.correction_id IS NULL
     AND c.window_start < %(end)s
   GROUP BY 1
),
held AS MATERIALIZED (
  SELECT organization_id, count(*) AS exceptions, sum(unit_seconds)::bigint AS unit_seconds
    FROM billing_accrualexception
   WHERE organization_id = ANY (%(organizations)s) AND resolved_at IS NULL
     AND window_start >= %(begin)s AND window_start < %(end)s
   GROUP BY 1
),
used AS MATERIALIZED (
  SELECT organization_id, sum(used_unit_seconds)::bigint AS unit_seconds
    FROM billing_accruedusage
   WHERE organization_id = ANY (%(organizations)s)
     AND window_start >= %(begin)s AND window_start < %(end)s
   GROUP BY 1
),
corrected AS MATERIALIZED (
  SELECT organization_id, sum(usage_unit_seconds)::bigint AS unit_seconds
    FROM billing_accruedcorrection
   WHERE organization_id = ANY (%(organizations)s)
     AND window_start >= %(begin)s AND window_start < %(end)s
   GROUP BY 1
),
charged AS MATERIALIZED (
  SELECT organization_id, period_id, currency, count(*) AS charges,
         sum(unit_seconds)::bigint AS unit_seconds
    FROM billing_charge
   WHERE organization_id = ANY (%(organizations)s)
     AND window_start >= %(begin)s AND window_start < %(end)s
   GROUP BY 1, 2, 3
),
late AS MATERIALIZED (
  SELECT period_id, currency, count(*) AS charges
    FROM billing_charge
   WHERE period_id = ANY (%(periods)s) AND window_start < %(begin)s
   GROUP BY 1, 2
),
own AS MATERIALIZED (
  SELECT d.id, sum(c.unit_seconds)::bigint AS unit_seconds,
         sum(c.charges) FILTER (WHERE c.period_id = d.id AND c.currency <> d.currency)
           AS foreign_charges
    FROM due d JOIN charged c ON c.organization_id = d.organization_id
   GROUP BY 1
),
foreign_late AS MATERIALIZED (
  SELECT d.id, sum(l.charges) AS charges
    FROM due d JOIN late l ON l.period_id = d.id AND l.currency <> d.currency
   GROUP BY 1
)
SELECT d.id, coalesce(w.corrections, 0), coalesce(h.exceptions, 0), coalesce(h.unit_seconds, 0),
       coalesce(u.unit_seconds, 0) + coalesce(x.unit_seconds, 0), coalesce(o.unit_seconds, 0),
       (coalesce(o.foreign_charges, 0) + coalesce(f.charges, 0))::bigint
  FROM due d
  LEFT JOIN waiting w USING (organization_id)
  LEFT JOIN held h USING (organization_id)
  LEFT JOIN used u USING (organization_id)
  LEFT JOIN corrected x USING (organization_id)
  LEFT JOIN own o ON o.id = d.id
  LEFT JOIN foreign_late f ON f.id = d.id
"""  # noqa: S608 - Put together from constants only.


def clusters_of(period: BillingPeriod) -> list[UUID]:
    """Return the clusters where the organization had namespaces in a period."""
    return list(
        NamespaceBinding.objects.filter(
            project__organization_id=period.organization_id, valid__overlap=period.hours
        )
        .order_by("cluster_id")
        .values_list("cluster_id", flat=True)
        .distinct()
    )


@dataclass(frozen=True)
class ClosedHours:
    """Hours of an organization's month whose invoice is final."""

    organization: str
    label: str
    hours: int


def closed_hours(cluster_id: UUID, *, hours: Sequence[datetime]) -> list[ClosedHours]:
    """Return a cluster's hours in closed periods of organizations that had namespaces there."""
    with connection.cursor() as cursor:
        cursor.execute(_CLOSED, {"cluster": cluster_id, "hours": list(hours)})
        return [ClosedHours(*row) for row in cursor.fetchall()]


_CLOSED = """
SELECT o.slug, p.label, count(DISTINCT hour)
  FROM unnest(%(hours)s::timestamptz[]) AS hour
  JOIN tenants_namespacebinding b ON b.cluster_id = %(cluster)s AND b.valid @> hour
  JOIN tenants_project j ON j.id = b.project_id
  JOIN tenants_organization o ON o.id = j.organization_id
  JOIN billing_billingperiod p
    ON p.organization_id = o.id AND p.hours @> hour AND p.state = 'closed'
 GROUP BY o.slug, p.label
 ORDER BY p.label, o.slug
"""
