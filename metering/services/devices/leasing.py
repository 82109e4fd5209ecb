"""Leasing device figures: which sealed hour's are due, which worker queries them, and the result.

The hour's billed usage is sealed already and not changed here. A lease expires by the database's
clock; a worker whose lease was taken over writes nothing, because its fence is no longer valid.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from metering.domain.collection.policy import DEFAULT_POLICY, MeteringPolicy, backoff_seconds
from metering.domain.errors import ClaimLostError
from metering.protocols import ClusterTarget, Evidence
from metering.selectors.collection.record_digest import DIGEST_OF_DEVICES, device_lines
from metering.services.collection.composed import Hour, target_of
from tenants.models import Cluster

ERROR_LENGTH_MAX: Final = 1_000
UPGRADE_DURATION_MAX: Final = timedelta(days=3)
"""For so long workers of two versions may run beside each other."""
SEALED_AGE_MAX: Final = timedelta(days=35)
"""Older hours are not searched: a backlog of a month is the longest that is usual."""

_INSERT_DUE = """
INSERT INTO metering_devicewindow (window_id, window_start, cluster_id, state, fence, attempt,
  failures, lease_owner, not_before, missing_figures, evidence, row_count, row_digest, last_error)
SELECT w.id, w.start_at, w.cluster_id, 'due', 0, 0, 0, '', %(at)s, '[]', '[]', 0, '', ''
"""
# With the seal of the window, so that no sealed window is without.
_DUE = f"""{_INSERT_DUE}  FROM metering_meteringwindow w WHERE w.id = %(window_id)s
"""
# A worker of an older version seals without it while an upgrade is under way.
_MISSING_DUE = f"""{_INSERT_DUE}  FROM tenants_cluster c
  JOIN metering_meteringwindow w ON w.cluster_id = c.id AND w.start_at >= %(begin)s
 WHERE w.state = 'sealed' AND w.sealed_at >= %(since)s
   AND NOT EXISTS (SELECT FROM metering_devicewindow d WHERE d.window_id = w.id)
ON CONFLICT DO NOTHING
"""
_LEASE = """
WITH due AS (
  SELECT window_id FROM metering_devicewindow
   WHERE state IN ('due', 'collecting') AND not_before <= COALESCE(%(at)s, clock_timestamp())
     AND (state = 'due' OR lease_until <= clock_timestamp())
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
_HOLDS = """
SELECT fence = %(fence)s AND state = 'collecting' AND lease_until > clock_timestamp()
  FROM metering_devicewindow WHERE window_id = %(window_id)s FOR NO KEY UPDATE
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
          FROM ({device_lines("%(window_id)s")}) lines) s
 WHERE w.window_id = %(window_id)s
RETURNING w.row_count, w.row_digest
"""  # noqa: S608 - Constants.


@dataclass(frozen=True)
class LeasedDevices:
    """The device figures of one hour, which a worker may write while `fence` and lease hold."""

    id: int
    hour: Hour
    fence: int
    attempt: int
    failures: int

    @property
    def cluster_id(self) -> UUID:
        """Return the cluster of the hour."""
        return self.hour.cluster_id

    @property
    def start_at(self) -> datetime:
        """Return the begin of the hour, included."""
        return self.hour.start_at

    @property
    def end_at(self) -> datetime:
        """Return the end of the hour, excluded."""
        return self.hour.end_at

    @property
    def target(self) -> ClusterTarget:
        """Return the cluster as a source needs to know it."""
        return self.hour.target


def make_devices_due(*, window_id: int, at: datetime) -> None:
    """Make the device figures of a window due; called in the transaction that seals it."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"window_id": window_id, "at": at})


def make_missing_due(*, at: datetime) -> int:
    """Make the device figures due of recent sealed hours that lack them; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            _MISSING_DUE,
            {"at": at, "since": at - UPGRADE_DURATION_MAX, "begin": at - SEALED_AGE_MAX},
        )
        return int(cursor.rowcount)


def lease_devices(
    *, worker: str, at: datetime | None = None, policy: MeteringPolicy = DEFAULT_POLICY
) -> LeasedDevices | None:
    """Lease the device figures that are longest due; None when none are, or others lease them.

    Args:
        worker: Name of the worker, for people.
        at: Which retries are due; None takes the database's clock.
        policy: How long a lease lasts.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            _LEASE,
            {
                "at": at,
                "worker": worker[:64],
                "lease": policy.lease_seconds,
            },
        )
        row = cursor.fetchone()
    if row is None:
        return None
    window_id, cluster_id, start_at, fence, attempt, failures = row
    cluster = Cluster.objects.get(pk=cluster_id)
    hour = Hour(cluster.pk, start_at, target_of(cluster), is_watched=cluster.is_watched)
    return LeasedDevices(window_id, hour, fence, attempt, failures)


def check_lease(leased: LeasedDevices) -> None:
    """Lock leased device figures for this transaction.

    Raises:
        ClaimLostError: Another worker took them over.
    """
    with connection.cursor() as cursor:
        cursor.execute(_HOLDS, {"window_id": leased.id, "fence": leased.fence})
        row = cursor.fetchone()
    if not (row and row[0]):
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
        "state": state,
        "at": at,
        "evidence": json.dumps([{**asdict(one), "at": one.at.isoformat()} for one in evidence]),
        "missing": json.dumps(list(missing)),
        "error": error[:ERROR_LENGTH_MAX],
    }
    with connection.cursor() as cursor:
        cursor.execute(_SEAL, parameters)
        rows, digest = cursor.fetchone()
    return int(rows), str(digest)
