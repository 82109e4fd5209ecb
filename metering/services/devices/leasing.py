"""Leasing device figures: which sealed hour's are due, which worker queries them, and the result.

The hour's billed usage is sealed already and not changed here. A lease expires by the database's
clock; a worker whose lease was taken over writes nothing, because its fence is no longer valid.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from metering.domain.collection.windows import DEFAULT_POLICY, MeteringPolicy, backoff_seconds
from metering.domain.errors import ClaimLostError
from metering.protocols import Evidence
from metering.selectors.collection.record_digest import DIGEST_OF_DEVICES, device_lines
from metering.selectors.locks import holds_device_figures
from metering.services.collection.composed import LeasedHour
from metering.services.collection.windows import hour_of
from tenants.models import Cluster

ERROR_LENGTH_MAX: Final = 1_000
_LEASE = """
WITH due AS (
  SELECT window_id FROM metering_devicewindow
   WHERE state IN ('due', 'collecting') AND not_before <= COALESCE(%(at)s, clock_timestamp())
     AND (state = 'due' OR lease_until <= clock_timestamp())
     AND (%(clusters)s::uuid[] IS NULL OR cluster_id = ANY (%(clusters)s::uuid[]))
   ORDER BY not_before, window_start, window_id
   LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED)
UPDATE metering_devicewindow d
   SET state = 'collecting', fence = d.fence + 1, attempt = d.attempt + 1,
       lease_owner = %(worker)s,
       lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
  FROM due WHERE d.window_id = due.window_id
RETURNING d.window_id, d.cluster_id, d.window_start, d.fence, d.attempt, d.failures
"""
_RETRY = """
UPDATE metering_devicewindow
   SET state = 'due', lease_owner = '', lease_until = NULL, attempt = 0, failures = failures + 1,
       not_before = %(not_before)s, last_error = %(error)s
 WHERE window_id = %(window_id)s
"""
_SEAL = f"""
UPDATE metering_devicewindow w
   SET state = %(state)s, lease_owner = '', lease_until = NULL, attempt = 0,
       failures = CASE WHEN %(state)s = 'sealed' THEN 0 ELSE w.failures END,
       last_error = %(error)s, sealed_at = %(at)s, evidence = %(evidence)s,
       missing_figures = %(missing)s, row_count = s.rows, row_digest = s.digest
  FROM (SELECT count(*) AS rows, {DIGEST_OF_DEVICES} AS digest
          FROM ({device_lines("%(window_id)s", "%(start_at)s")}) lines) s
 WHERE w.window_id = %(window_id)s
RETURNING w.row_count, w.row_digest
"""  # noqa: S608 - Constants.


@dataclass(frozen=True, kw_only=True)
class LeasedDevices(LeasedHour):
    """The device figures of one hour that a worker may write."""

    attempt: int


def lease_devices(
    *,
    worker: str,
    clusters: Collection[UUID] | None = None,
    at: datetime | None = None,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> LeasedDevices | None:
    """Lease the device figures that are longest due; None when none are, or others lease them.

    Args:
        worker: Name of the worker, for people.
        clusters: Only of these; None for any.
        at: Which retries are due; None takes the database's clock.
        policy: How long a lease lasts.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            _LEASE,
            {
                "at": at,
                "worker": worker[:64],
                "clusters": None if clusters is None else list(clusters),
                "lease": policy.lease_seconds,
            },
        )
        row = cursor.fetchone()
    if row is None:
        return None
    window_id, cluster_id, start_at, fence, attempt, failures = row
    cluster = Cluster.objects.get(pk=cluster_id)
    hour = hour_of(cluster, start_at=start_at, is_watched=cluster.is_watched)
    return LeasedDevices(id=window_id, hour=hour, fence=fence, attempt=attempt, failures=failures)


def check_lease(leased: LeasedDevices) -> None:
    """Lock leased device figures for this transaction.

    Raises:
        ClaimLostError: Another worker took them over.
    """
    if not holds_device_figures(leased.id, fence=leased.fence):
        raise ClaimLostError("Another worker took the device figures over.")


def put_off(leased: LeasedDevices, *, error: str, at: datetime) -> int:
    """Release a lease without figures; return the seconds until they are due again."""
    seed = f"devices/{leased.cluster_id}/{leased.start_at.isoformat()}"
    wait = backoff_seconds(failures=leased.failures + 1, seed=seed)
    with connection.cursor() as cursor:
        cursor.execute(
            _RETRY,
            {
                "window_id": leased.id,
                "not_before": at + timedelta(seconds=wait),
                "error": error[:ERROR_LENGTH_MAX],
            },
        )
    return wait


def seal_devices(
    leased: LeasedDevices,
    *,
    state: str,
    at: datetime,
    evidence: Sequence[Evidence] = (),
    missing: Sequence[str] = (),
    error: str = "",
) -> tuple[int, str]:
    """Bring device figures into a final state; return how many rows they have and their digest."""
    parameters: dict[str, Any] = {
        "window_id": leased.id,
        "start_at": leased.start_at,
        "state": state,
        "at": at,
        "evidence": json.dumps([one.to_json() for one in evidence]),
        "missing": json.dumps(list(missing)),
        "error": error[:ERROR_LENGTH_MAX],
    }
    with connection.cursor() as cursor:
        cursor.execute(_SEAL, parameters)
        rows, digest = cursor.fetchone()
    return int(rows), str(digest)
