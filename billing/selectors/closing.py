"""Whether a period can be invoiced: every reason why not, found set-based."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from billing.domain.documents.document import utc_text
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
    given = {
        "organization": period.organization_id,
        "period": period.pk,
        "begin": period.hours.lower,
        "end": period.hours.upper,
        "at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_WINDOWS, given)
        windows = cursor.fetchone()
        cursor.execute(_AMOUNTS, given)
        amounts = cursor.fetchone()
    return Readiness(*windows, *amounts)


def reasons_against(
    period: BillingPeriod, readiness: Readiness, *, at: datetime
) -> tuple[FieldProblem, ...]:
    """Return every reason why a period cannot be invoiced yet; empty when it can."""
    lost = (
        readiness.used_unit_seconds - readiness.charged_unit_seconds - readiness.held_unit_seconds
    )
    first, upcoming = readiness.first_unsealed_at, readiness.upcoming_windows
    found = (
        (
            at < period.hours.upper,
            "period_not_over",
            f"The period ends at {utc_text(period.hours.upper)}"
            + (f"; {upcoming} hours are still to come." if upcoming else "."),
        ),
        (
            readiness.unsealed_windows > 0,
            "windows_not_sealed",
            f"{readiness.unsealed_windows} metering windows are not sealed"
            + (f", the first at {utc_text(first)}." if first else "."),
        ),
        (
            readiness.unaccrued_windows > 0,
            "windows_not_accrued",
            f"{readiness.unaccrued_windows} sealed windows are not accrued.",
        ),
        (
            readiness.unaccrued_corrections > 0,
            "corrections_not_accrued",
            f"{readiness.unaccrued_corrections} usage corrections are not accrued.",
        ),
        (
            readiness.open_exceptions > 0,
            "accrual_exceptions_open",
            (
                f"{readiness.open_exceptions} accrual exceptions hold "
                f"{readiness.held_unit_seconds} unit-seconds without a price."
            ),
        ),
        (
            readiness.unaccrued_windows + readiness.unaccrued_corrections == 0 and lost != 0,
            "usage_not_charged",
            f"Usage and charges differ by {lost} unit-seconds.",
        ),
        (
            readiness.foreign_charges > 0,
            "charges_in_other_currency",
            f"{readiness.foreign_charges} charges are not in the billing currency.",
        ),
    )
    return tuple(
        FieldProblem(field="period", code=code, message=message)
        for applies, code, message in found
        if applies
    )


# An hour counts where a namespace of the organization was bound: elsewhere it can use nothing.
_WINDOWS = """
WITH expected AS MATERIALIZED (
  SELECT DISTINCT b.cluster_id, hour.start_at
    FROM tenants_namespacebinding b
    JOIN tenants_project p ON p.id = b.project_id AND p.organization_id = %(organization)s
    JOIN tenants_cluster c ON c.id = b.cluster_id
   CROSS JOIN LATERAL generate_series(
     greatest(lower(b.valid), date_trunc('hour', c.metered_from), %(begin)s),
     least(upper(b.valid), c.metered_until, %(end)s) - interval '1 hour',
     interval '1 hour') AS hour(start_at)
)
SELECT count(*) FILTER (WHERE w.id IS NULL AND e.start_at <= %(at)s - interval '1 hour'),
       min(e.start_at) FILTER (WHERE w.id IS NULL AND e.start_at <= %(at)s - interval '1 hour'),
       count(*) FILTER (WHERE w.id IS NULL AND e.start_at > %(at)s - interval '1 hour'),
       count(*) FILTER (
         WHERE w.id IS NOT NULL AND (a.window_id IS NULL OR u.window_id IS NOT NULL))
  FROM expected e
  LEFT JOIN metering_sealed_window w
    ON w.cluster_id = e.cluster_id AND w.start_at = e.start_at
  LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
  LEFT JOIN billing_accruedusage u
    ON u.window_id = w.id AND u.organization_id = %(organization)s
   AND u.unpriced_unit_seconds <> 0 AND u.price_mark < 0
"""
# Accrual stores what was used by organization and window: no usage is read again, and the charges
# of the month once; those of earlier hours are in other partitions.
_AMOUNTS = """
SELECT
  (SELECT count(*) FROM metering_posted_correction c
     LEFT JOIN billing_accruedcorrection a ON a.correction_id = c.id
    WHERE c.organization_id = %(organization)s AND a.correction_id IS NULL
      AND c.window_start < %(end)s),
  (SELECT count(*) FROM billing_accrualexception e
    WHERE e.organization_id = %(organization)s AND e.resolved_at IS NULL
      AND e.window_start >= %(begin)s AND e.window_start < %(end)s),
  (SELECT coalesce(sum(e.unit_seconds), 0)::bigint FROM billing_accrualexception e
    WHERE e.organization_id = %(organization)s AND e.resolved_at IS NULL
      AND e.window_start >= %(begin)s AND e.window_start < %(end)s),
  (SELECT coalesce(sum(u.used_unit_seconds), 0)::bigint FROM billing_accruedusage u
    WHERE u.organization_id = %(organization)s
      AND u.window_start >= %(begin)s AND u.window_start < %(end)s)
  + (SELECT coalesce(sum(c.usage_unit_seconds), 0)::bigint FROM billing_accruedcorrection c
      WHERE c.organization_id = %(organization)s
        AND c.window_start >= %(begin)s AND c.window_start < %(end)s),
  own.unit_seconds,
  own.foreign_charges
  + (SELECT count(*) FROM billing_charge c
      WHERE c.period_id = %(period)s AND c.window_start < %(begin)s
        AND c.currency <> payer.currency)
  FROM (SELECT billing_currency AS currency FROM tenants_organization
         WHERE id = %(organization)s) payer
 CROSS JOIN LATERAL (
   SELECT coalesce(sum(c.unit_seconds), 0)::bigint AS unit_seconds,
          count(*) FILTER (WHERE c.period_id = %(period)s AND c.currency <> payer.currency)
            AS foreign_charges
     FROM billing_charge c
    WHERE c.organization_id = %(organization)s
      AND c.window_start >= %(begin)s AND c.window_start < %(end)s) own
"""


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
