"""Sealing: makes a window immutable, with its digest in the audit trail.

A window with open exceptions about single pods may be sealed: their unit-seconds stay held there,
and one tenant's unbound namespace does not stop the invoices of the others. A cause that concerns
the whole window prevents its reconciliation, and so its seal.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import connection, transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.windows import WindowState
from metering.domain.corrections.exceptions import BLOCKING_KINDS
from metering.domain.errors import WindowNotFoundError, WindowNotReconciledError, WindowSealedError
from metering.models import MeteringWindow
from metering.selectors.collection.record_digest import (
    DIGEST_OF_LINES,
    RECORD_LINE,
    capacity_digest,
)
from tenants.domain.actors import Actor
from tenants.services.audit import record

logger = structlog.get_logger(__name__)

_SEAL = f"""
UPDATE metering_meteringwindow w
   SET state = 'sealed', sealed_at = LEAST(%(at)s, clock_timestamp()),
       record_count = d.records, record_digest = d.digest
  FROM (
    SELECT count(*) AS records, COALESCE(sum(unit_seconds), 0) AS unit_seconds,
           {DIGEST_OF_LINES} AS digest
      FROM (
        SELECT u.pod_uid, u.resource, u.revision, u.unit_seconds, {RECORD_LINE} AS line
          FROM metering_usage u
         WHERE u.window_start = %(start_at)s AND u.window_id = %(window_id)s
           AND u.revision = 0) lines) d
 WHERE w.id = %(window_id)s AND w.state = 'reconciled'
RETURNING d.records, d.unit_seconds, d.digest
"""  # noqa: S608 - Constants.


def reconcile_windows(*, window_ids: list[int], actor: Actor, at: datetime) -> list[int]:
    """Reconcile collected windows without open blocking exceptions; return their ids.

    With one source there is nothing to compare; a person resolved the exceptions, which is in the
    audit trail already.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE metering_meteringwindow w SET state = 'reconciled'"
            " WHERE w.id = ANY(%s) AND w.state = 'collected' AND NOT EXISTS ("
            "  SELECT FROM metering_meteringexception e"
            "   WHERE e.window_id = w.id AND e.state = 'open' AND e.kind = ANY(%s))"
            " RETURNING w.id",
            [window_ids, sorted(kind.value for kind in BLOCKING_KINDS)],
        )
        reconciled = sorted(window_id for (window_id,) in cursor.fetchall())
    if reconciled:
        logger.info(
            "metering.window.reconciled", windows=len(reconciled), actor=actor.id, at=str(at)
        )
    return reconciled


def seal_window(*, window_id: int, actor: Actor, at: datetime) -> str:
    """Seal a reconciled window; return the SHA-256 over its records in key order.

    Raises:
        WindowNotFoundError: There is no such window.
        WindowSealedError: It is sealed already.
        WindowNotReconciledError: It is not reconciled yet, or a blocking exception is open.
    """
    with transaction.atomic():
        # The row is locked by a separate statement, so that the digest includes every commit.
        cluster_id, start_at = _lock_reconciled(window_id)
        with connection.cursor() as cursor:
            cursor.execute(_SEAL, {"window_id": window_id, "start_at": start_at, "at": at})
            records, unit_seconds, digest = cursor.fetchone()
        make_devices_due(window_id=window_id, at=at)
        record(
            actor=actor,
            at=at,
            action="metering:window:seal",
            object_kind="metering_window",
            object_id=window_id,
            facts={
                "cluster": str(cluster_id),
                "start_at": start_at.isoformat(),
                "records": records,
                "unit_seconds": int(unit_seconds),
                "digest": digest,
                "capacity_digest": capacity_digest(window_id),
            },
        )
        crashpoint("seal.before_commit")
    crashpoint("seal.after_commit")
    logger.info("metering.window.sealed", window_id=window_id, records=records)
    return str(digest)


def _lock_reconciled(window_id: int) -> tuple[UUID, datetime]:
    """Lock a reconciled window and return its cluster and start.

    Raises:
        WindowNotFoundError: There is no such window.
        WindowSealedError: It is sealed already.
        WindowNotReconciledError: It is in another state.
    """
    locked = MeteringWindow.objects.select_for_update().filter(id=window_id)
    found = locked.values_list("state", "cluster_id", "start_at").first()
    if found is None:
        raise WindowNotFoundError("There is no such window.")
    state, cluster_id, start_at = found
    if state == WindowState.SEALED:
        raise WindowSealedError("The window is sealed already.")
    if state != WindowState.RECONCILED:
        raise WindowNotReconciledError(
            f"The window is {state}, not reconciled.", facts={"state": state}
        )
    return cluster_id, start_at


_INSERT_DUE = """
INSERT INTO metering_devicewindow (window_id, window_start, cluster_id, state, fence, attempt,
  failures, lease_owner, not_before, missing_figures, evidence, row_count, row_digest, last_error)
SELECT w.id, w.start_at, w.cluster_id, 'due', 0, 0, 0, '', %(at)s, '[]', '[]', 0, '', ''
"""


# With the seal of the window, so that no sealed window is without.
_DUE = f"""{_INSERT_DUE}  FROM metering_meteringwindow w WHERE w.id = %(window_id)s
"""


def make_devices_due(*, window_id: int, at: datetime) -> None:
    """Make the device figures of a window due; called in the transaction that seals it."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"window_id": window_id, "at": at})


UPGRADE_DURATION_MAX: Final = timedelta(days=3)
"""For so long workers of two versions may run beside each other."""


SEALED_AGE_MAX: Final = timedelta(days=35)
"""Older hours are not searched: a backlog of a month is the longest that is usual."""


# A worker of an older version seals without it while an upgrade is under way.
_MISSING_DUE = f"""{_INSERT_DUE}  FROM tenants_cluster c
  JOIN metering_meteringwindow w ON w.cluster_id = c.id AND w.start_at >= %(begin)s
 WHERE w.state = 'sealed' AND w.sealed_at >= %(since)s
   AND NOT EXISTS (SELECT FROM metering_devicewindow d WHERE d.window_id = w.id)
ON CONFLICT DO NOTHING
"""


def make_missing_due(*, at: datetime) -> int:
    """Make the device figures due of recent sealed hours that lack them; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            _MISSING_DUE,
            {"at": at, "since": at - UPGRADE_DURATION_MAX, "begin": at - SEALED_AGE_MAX},
        )
        return int(cursor.rowcount)
