"""Troubles: the last thing that went wrong with a watch, for people to read.

A heartbeat takes it away again.
"""

from typing import Final
from uuid import UUID

from django.db import connection

from metering.models import ClusterWatch
from metering.services.watching.leases import Lease

# The judge is the database's clock, as for leases.
_IDLE = """
UPDATE metering_clusterwatch SET last_error = %s
 WHERE cluster_id = %s AND COALESCE(lease_until <= clock_timestamp(), true)
"""
TEXT_MAX: Final = 500


def note_trouble(*, lease: Lease, text: str) -> None:
    """Keep what went wrong while this lease still stands; else leave it to whoever leads."""
    ClusterWatch.objects.filter(
        pk=lease.cluster_id, lease_owner=lease.holder, fence=lease.fence
    ).update(last_error=text[:TEXT_MAX])


def note_idle_trouble(*, cluster_id: UUID, text: str) -> None:
    """Keep why a process does not lead, unless another one does."""
    with connection.cursor() as cursor:
        cursor.execute(_IDLE, [text[:TEXT_MAX], cluster_id])
