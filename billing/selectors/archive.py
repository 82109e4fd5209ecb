"""A month of charges as it is archived, and what of billing holds a month up."""

from typing import Final

from django.db import connection

from tenants.domain.archives import ArchivedTable, ArchiveMonth, MonthTable

CHARGES: Final = MonthTable(
    name=ArchivedTable.CHARGES,
    app="billing",
    table="billing_charge",
    key="id",
    sums="""jsonb_build_object('unit_seconds', coalesce(sum(r.unit_seconds), 0)::text)
      || coalesce((SELECT jsonb_object_agg(m.currency, m.amount::text)
                     FROM (SELECT currency, round(sum(unit_seconds * unit_price) / 3600, 10)
                             AS amount FROM {relation} c GROUP BY 1) m), '{{}}')""",
    guard="billing_guard_charge_partition",
    relation="billing_charge",
)
CHARGE_MONTHS: Final = """
SELECT DISTINCT date_trunc('month', window_start, 'UTC') AS begin_at
  FROM billing_accruedwindow WHERE charged_unit_seconds <> 0"""
"""SQL of the months that have charges."""

# Use that is added up is charged from its rows: without them it would count as charged, with
# nothing.
_UNFINISHED: Final = """
SELECT 'billing periods that are not closed', count(*) FROM billing_billingperiod
 WHERE state <> 'closed' AND hours && tstzrange(%(begin)s, %(end)s)
 UNION ALL
SELECT 'documents that are not final', count(*)
  FROM billing_invoice i JOIN billing_billingperiod p ON p.id = i.period_id
 WHERE i.state <> 'final' AND p.hours && tstzrange(%(begin)s, %(end)s)
 UNION ALL
SELECT 'sealed windows that are not charged', count(*)
  FROM metering_sealed_window w LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
 WHERE w.start_at >= %(begin)s AND w.start_at < %(end)s AND a.is_complete IS NOT TRUE
 UNION ALL
SELECT 'organizations with use without a price', count(DISTINCT organization_id)
  FROM billing_accrualexception
 WHERE resolved_at IS NULL AND window_start >= %(begin)s AND window_start < %(end)s
 UNION ALL
SELECT 'corrections that are not charged', count(*)
  FROM metering_posted_correction c LEFT JOIN billing_accruedcorrection a ON a.correction_id = c.id
 WHERE c.window_start >= %(begin)s AND c.window_start < %(end)s AND a.is_complete IS NOT TRUE
"""


def unfinished_billing(month: ArchiveMonth) -> list[str]:
    """Return what of billing still reads a month, a phrase each; one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_UNFINISHED, {"begin": month.begin_at, "end": month.end_at})
        return [f"{count} {what}" for what, count in cursor.fetchall() if count]
