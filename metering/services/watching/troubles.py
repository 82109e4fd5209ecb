"""Troubles: the last thing that went wrong with a watch, for people to read.

A heartbeat takes it away again.
"""

from typing import Final

from metering.models import ClusterWatch
from metering.services.watching.leases import Lease

TEXT_MAX: Final = 500


def note_trouble(*, lease: Lease, text: str) -> None:
    """Keep what went wrong while this lease still stands; else leave it to whoever leads."""
    ClusterWatch.objects.filter(
        pk=lease.cluster_id, lease_owner=lease.holder, fence=lease.fence
    ).update(last_error=text[:TEXT_MAX])
