"""Use of a month up to now: what windows have recorded, and what pods hold since."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection

# A window that is not collected yet has no records; from there on the allocations tell, by whose
# the namespace is now. Seconds are whole, as records count them.
_MONTH_USE: Final = """
WITH known AS (
  SELECT k.id AS cluster_id,
         greatest(%(begin)s, coalesce(max(w.start_at) + interval '1 hour', %(begin)s)) AS until_at
    FROM tenants_cluster k
    LEFT JOIN metering_meteringwindow w
      ON w.cluster_id = k.id AND w.start_at >= %(begin)s AND w.start_at < %(at)s
     AND w.state IN ('collected', 'reconciled', 'sealed')
   GROUP BY k.id),
used AS (
  SELECT r.organization_id, r.project_id, r.owner AS username, r.cluster_id, r.size,
         r.price_group, r.unit_seconds
    FROM metering_usagerecord r JOIN known USING (cluster_id)
   WHERE r.window_start >= %(begin)s AND r.window_start < known.until_at
  UNION ALL
  SELECT p.organization_id, p.id, coalesce(nullif(a.owner, ''), u.username, ''), a.cluster_id,
         a.size, a.price_group,
         a.units * floor(extract(epoch FROM least(coalesce(a.end_at, %(at)s), %(at)s)
                                        - greatest(a.begin_at, known.until_at)))::bigint
    FROM metering_podallocation a
    JOIN known USING (cluster_id)
    JOIN tenants_namespacebinding b
      ON b.cluster_id = a.cluster_id AND b.namespace = a.namespace AND b.valid @> %(at)s
    JOIN tenants_project p ON p.id = b.project_id
    LEFT JOIN auth_user u ON u.id = b.default_owner_id
   WHERE a.size <> '' AND a.begin_at < %(at)s
     AND (a.end_at IS NULL OR a.end_at > known.until_at)
     AND greatest(a.begin_at, known.until_at) < %(at)s)
SELECT organization_id, project_id, username, cluster_id, size,
       split_part(price_group, '/', 1) AS model_group, sum(unit_seconds)::bigint
  FROM used
 GROUP BY 1, 2, 3, 4, 5, 6
HAVING sum(unit_seconds) <> 0
 ORDER BY 1, 2, 3, 4, 5, 6
"""


@dataclass(frozen=True)
class MonthUse:
    """Unit-seconds that one user of a project used of one size and GPU model on one cluster."""

    organization_id: UUID
    project_id: UUID
    username: str
    cluster_id: UUID
    size: str
    model_group: str
    unit_seconds: int


def month_use(*, month_begin: datetime, at: datetime) -> tuple[MonthUse, ...]:
    """Return what was used since the begin of a month, by tenant, person, size and model.

    One statement. Corrections that were posted count in their hour.

    Args:
        month_begin: The first moment of a UTC month.
        at: Up to when, UTC; decides whose a namespace is where no window was collected yet.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MONTH_USE, {"begin": month_begin, "at": at})
        return tuple(MonthUse(*row) for row in cursor.fetchall())
