"""Monthly allowances: what a month has used, kept on the counters of limits that have one."""

import json
from datetime import UTC, datetime

from django.db import connection, transaction

from metering.selectors.month_use import month_use
from quotas.models import QuotaLimit
from tenants.domain.actors import Actor


@transaction.atomic
def refresh_allowances(*, actor: Actor, at: datetime) -> int:
    """Set what this UTC month has used on every limit with an allowance; return how many.

    Three statements, or one when nobody has an allowance. It is a reading of the usage ledger, not
    a decision, and leaves no audit entry.

    Args:
        actor: Who refreshes.
        at: When, UTC: decides which month it is.
    """
    del actor
    if not QuotaLimit.objects.filter(monthly_unit_hours__isnull=False).exists():
        return 0
    begin = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    used = [
        {
            "organization_id": str(row.organization_id),
            "project_id": str(row.project_id),
            "username": row.username,
            "cluster_id": str(row.cluster_id),
            "size": row.size,
            "model_groups": [row.model_group],
            "unit_seconds": row.unit_seconds,
        }
        for row in month_use(month_begin=begin, at=at)
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quotas_count_months(%s, %s::jsonb)", [begin.date(), json.dumps(used)]
        )
        (written,) = cursor.fetchone()
    return int(written)
