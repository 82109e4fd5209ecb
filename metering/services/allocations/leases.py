"""Leases: which process leads the watch of a cluster, by the database's clock and a fence.

Any number of processes may compete; one leads. Taking a lease over raises the fence, so that writes
still in flight from the former leader are refused.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.errors import LeaseLostError
from metering.selectors.locks import holds_lease, lock_cluster_ledger
from tenants.domain.actors import Actor
from tenants.services.audit import record


@dataclass(frozen=True)
class Lease:
    """The right to write one cluster's ledger from its watch while `fence` is valid.

    Attributes:
        holder: Name of the process, unique to it: two processes of one name would share a lease.
    """

    cluster_id: UUID
    holder: str
    fence: int


_ENSURE = """
INSERT INTO metering_clusterwatch (cluster_id, fence, lease_owner, last_error)
VALUES (%s, 0, '', '') ON CONFLICT (cluster_id) DO NOTHING
"""
_TAKE = """
WITH former AS (
  SELECT cluster_id, lease_owner FROM metering_clusterwatch
   WHERE cluster_id = %(cluster_id)s
     AND (lease_until IS NULL OR lease_until <= clock_timestamp() OR lease_owner = %(holder)s)
   FOR UPDATE)
UPDATE metering_clusterwatch w
   SET fence = w.fence + 1, lease_owner = %(holder)s,
       lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
  FROM former WHERE w.cluster_id = former.cluster_id
RETURNING w.fence, former.lease_owner
"""
_RENEW = """
UPDATE metering_clusterwatch
   SET lease_until = clock_timestamp() + make_interval(secs => %s)
 WHERE cluster_id = %s AND lease_owner = %s AND fence = %s AND lease_until > clock_timestamp()
"""
# The name of the last leader stays, so that the same one coming back is no change of leadership.
_RELEASE = """
UPDATE metering_clusterwatch SET lease_until = NULL
 WHERE cluster_id = %s AND lease_owner = %s AND fence = %s
"""


def take_lease(
    *, cluster_id: UUID, holder: str, lease_seconds: int, actor: Actor, at: datetime
) -> Lease | None:
    """Take the lease of a cluster's watch; return None while another process holds it.

    A change of leadership leaves an audit entry; the same holder coming back does not, but its
    fence rises all the same, so that its earlier writes are refused.

    Args:
        cluster_id: The cluster.
        holder: Unique name of the process, at most 64 characters.
        lease_seconds: How long the lease lasts without being renewed.
        actor: The watching process.
        at: When, for the audit trail.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_ENSURE, [cluster_id])
            cursor.execute(
                _TAKE, {"cluster_id": cluster_id, "holder": holder, "lease": lease_seconds}
            )
            row = cursor.fetchone()
        if row is None:
            return None
        fence, former = row
        if former != holder:
            record(
                actor=actor,
                at=at,
                action="metering:watch:lead",
                object_kind="cluster",
                object_id=cluster_id,
                facts={"holder": holder, "former": former, "fence": fence},
            )
        crashpoint("watch.lease.before_commit")
    crashpoint("watch.lease.after_commit")
    return Lease(cluster_id=cluster_id, holder=holder, fence=fence)


def renew_lease(*, lease: Lease, lease_seconds: int) -> bool:
    """Prolong a lease from now on; return False when it is lost, whatever the reason.

    It waits while a write of the same lease is under way, because both lock the watch.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RENEW, [lease_seconds, lease.cluster_id, lease.holder, lease.fence])
        return bool(cursor.rowcount)


def release_lease(*, lease: Lease) -> None:
    """Let another process lead at once; a lease that is lost already is left alone."""
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, [lease.cluster_id, lease.holder, lease.fence])


def require_lease(lease: Lease) -> None:
    """Lock the watch, then the cluster's ledger, for a write in this transaction.

    Raises:
        LeaseLostError: Another process leads the watch, or the lease ran out.
    """
    if not holds_lease(lease.cluster_id, holder=lease.holder, fence=lease.fence):
        raise LeaseLostError("Another process leads the watch of this cluster.")
    lock_cluster_ledger(lease.cluster_id)
