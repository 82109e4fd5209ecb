"""Heartbeats: the watch tells that it is healthy, so that its silence means something."""

from datetime import datetime
from typing import Any

from django.db import connection, transaction

from metering.domain.crashpoints import crashpoint
from metering.domain.watch_coverage import HEALTHY_FOR
from metering.services.watching.ends import end_on_lost_nodes
from metering.services.watching.leases import Lease, require_lease

# The newest span goes on unless the watch was silent for too long, or a list began a new one.
_GO_ON = """
UPDATE metering_watchspan s SET until_at = GREATEST(s.until_at, %(at)s)
 WHERE s.id = (SELECT id FROM metering_watchspan WHERE cluster_id = %(cluster_id)s
                ORDER BY begin_at DESC LIMIT 1)
   AND s.until_at >= %(at)s - %(healthy_for)s
   AND NOT EXISTS (SELECT FROM metering_watchcursor c
     WHERE c.cluster_id = %(cluster_id)s AND c.is_afresh)
"""
# A heartbeat that is older than a list tells nothing of it: a clock may be put back.
_BEGIN = """
INSERT INTO metering_watchspan (cluster_id, begin_at, until_at, is_resumed)
SELECT %(cluster_id)s, %(at)s, %(at)s,
       NOT EXISTS (SELECT FROM metering_watchcursor c
         WHERE c.cluster_id = %(cluster_id)s AND c.is_afresh)
 WHERE NOT EXISTS (SELECT FROM metering_watchcursor c
   WHERE c.cluster_id = %(cluster_id)s AND c.is_afresh AND c.listed_at > %(at)s)
    ON CONFLICT DO NOTHING
"""
_TOLD = """
UPDATE metering_watchcursor SET is_afresh = false
 WHERE cluster_id = %(cluster_id)s AND is_afresh AND listed_at <= %(at)s
"""
_HEALTHY = """
UPDATE metering_clusterwatch SET healthy_at = GREATEST(healthy_at, %(at)s), last_error = ''
 WHERE cluster_id = %(cluster_id)s
"""


def beat(*, lease: Lease, at: datetime) -> None:
    """Tell that every stream is alive, has caught up, and that all it had said is written.

    Call it every `HEARTBEAT_SECONDS`. After a stream broke, call it again only once it has caught
    up: a bookmark has come, or nothing more came for a while. A deletion that comes before that is
    taken for one of the time of silence, and its end is bounded by the last heartbeat.

    Whether anything was lost since the heartbeat before is not the caller's to say: a kind that was
    listed afresh says so in the ledger, and then a span begins that is not resumed.

    Args:
        lease: The watch's.
        at: Now, by the clock of the process.

    Raises:
        LeaseLostError: Another process leads the watch; nothing was written.
    """
    given: dict[str, Any] = {
        "cluster_id": lease.cluster_id,
        "at": at,
        "healthy_for": HEALTHY_FOR,
    }
    with transaction.atomic():
        require_lease(lease)
        with connection.cursor() as cursor:
            cursor.execute(_GO_ON, given)
            if not cursor.rowcount:
                cursor.execute(_BEGIN, given)
                cursor.execute(_TOLD, given)
            cursor.execute(_HEALTHY, given)
        end_on_lost_nodes(lease.cluster_id, at=at)
        crashpoint("watch.beat.before_commit")
    crashpoint("watch.beat.after_commit")
