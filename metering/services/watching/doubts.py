"""Doubts: a list in which most of what is open is missing is believed only when it is told twice.

A filtering proxy, a lost permission or the address of another cluster answer with a list that is
well formed and nearly empty. Believed at once it would end everybody's pods in one transaction.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from metering.domain.pod_life import CLAIM_PREFIX
from metering.protocols.watch import WatchedKind
from tenants.domain.errors import SourceUnavailableError

OPEN_MIN: Final = 20
"""With fewer rows most may end within the ten minutes between two lists, by mere chance."""
ABSENT_PERCENT_MAX: Final = 50
"""More than half at once is a fault far more often than it is true; if true, it is told again."""

_OPEN_PODS = """
SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
         SELECT FROM watch_sight s WHERE s.uid = a.pod_uid))
  FROM metering_podallocation a
 WHERE a.cluster_id = %(cluster_id)s AND a.end_at IS NULL AND a.begin_at <= %(at)s
   AND NOT starts_with(a.resource, %(claims)s)
"""
_OPEN_CLAIMS = """
SELECT count(*), count(*) FILTER (WHERE a.pod_uid <> ALL(%(uids)s))
  FROM metering_podallocation a
 WHERE a.cluster_id = %(cluster_id)s AND a.end_at IS NULL AND a.begin_at <= %(at)s
   AND starts_with(a.resource, %(claims)s)
"""
_OPEN_NODES = """
SELECT count(*), count(*) FILTER (WHERE n.node_uid <> ALL(%(uids)s))
  FROM metering_noderecord n
 WHERE n.cluster_id = %(cluster_id)s AND n.end_at IS NULL AND n.begin_at <= %(at)s
"""
_OPEN: Final = {
    WatchedKind.PODS: _OPEN_PODS,
    WatchedKind.CLAIMS: _OPEN_CLAIMS,
    WatchedKind.NODES: _OPEN_NODES,
}


class DoubtfulListError(SourceUnavailableError):
    """Raised when a list would end most of what is open; nothing was written."""


def refuse_doubtful(
    cluster_id: UUID, *, kind: WatchedKind, uids: Collection[str], at: datetime
) -> None:
    """Refuse a complete list in which most of what is open is missing.

    Args:
        cluster_id: The cluster.
        kind: What is listed; slices hold nothing, so they are not doubted.
        uids: What the list shows. Pods are read from the stage instead.
        at: When the list was asked for.

    Raises:
        DoubtfulListError: More than `ABSENT_PERCENT_MAX` of at least `OPEN_MIN` rows are missing.
    """
    statement = _OPEN.get(kind)
    if statement is None:
        return
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "at": at,
        "uids": list(uids),
        "claims": CLAIM_PREFIX,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        known, absent = cursor.fetchone()
    if known >= OPEN_MIN and absent * 100 > known * ABSENT_PERCENT_MAX:
        raise DoubtfulListError(
            f"{absent} of {known} open rows are missing in a list; is it the right cluster, and"
            " may all of it be read? It is believed when it is told again.",
            reason="doubtful_list",
        )
