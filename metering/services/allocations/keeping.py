"""Keeping a watch: lead a cluster's watch, or wait to lead it, until the process is stopped."""

from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection

from metering.domain.errors import LeaseLostError
from metering.protocols.watch import WatchTarget
from metering.services.allocations.heartbeats import (
    RENEWALS_PER_LEASE,
    ClockAheadError,
    note_idle_trouble,
    wait_seconds,
)
from metering.services.allocations.leading import Leader, StoppedError, Watcher
from metering.services.allocations.leases import release_lease, take_lease
from metering.services.allocations.loop import WatchLoop
from tenants.services.audit import audited_use

logger = structlog.get_logger(__name__)


def keep_watching(*, cluster_id: UUID, target: WatchTarget, watcher: Watcher) -> None:
    """Watch a cluster, or wait to lead its watch, until the watcher is stopped.

    An error of one cluster is logged and retried; it never ends the others.
    """
    failures = 0
    while not watcher.stop.is_set():
        pause = watcher.pace.lease_seconds // RENEWALS_PER_LEASE
        try:
            if watch_cluster(cluster_id=cluster_id, target=target, watcher=watcher):
                failures = 0
        except LeaseLostError:
            logger.warning("metering.watch.lease_lost", cluster=target.slug)
        except ClockAheadError as error:
            failures += 1
            pause = wait_seconds(failures=failures, seed=target.slug)
            note_idle_trouble(cluster_id=cluster_id, text=str(error))
            logger.error(  # noqa: TRY400 - The traceback would add nothing.
                "metering.watch.clock_ahead", cluster=target.slug, reason=str(error)
            )
        except (OperationalError, InterfaceError) as error:
            failures += 1
            connection.close()
            pause = wait_seconds(failures=failures, seed=target.slug)
            logger.warning(
                "metering.watch.database_unavailable", cluster=target.slug, reason=str(error)
            )
        except Exception:  # One cluster's fault is not the others'.
            failures += 1
            pause = wait_seconds(failures=failures, seed=target.slug)
            logger.exception("metering.watch.failed", cluster=target.slug)
        watcher.stop.wait(pause)


def watch_cluster(
    *, cluster_id: UUID, target: WatchTarget, watcher: Watcher, is_once: bool = False
) -> bool:
    """Lead a cluster's watch until stopped; return False when another process leads it.

    Args:
        cluster_id: The cluster.
        target: The same, as its API is reached.
        watcher: The watching process.
        is_once: Read every kind up to now and return.

    Raises:
        LeaseLostError: The lease was lost; nothing was written after that.
        ClockAheadError: The process' clock is wrong; it does not lead.
        SourceUnavailableError: With `is_once`, the API cannot be queried.
    """
    lease = take_lease(
        cluster_id=cluster_id,
        holder=watcher.name,
        lease_seconds=watcher.pace.lease_seconds,
        actor=watcher.actor,
        at=watcher.moment(),
    )
    if lease is None:
        return False
    logger.info("metering.watch.leading", cluster=target.slug, fence=lease.fence)
    loop = WatchLoop(
        leader=Leader(lease=lease, target=target, watcher=watcher), cluster_id=cluster_id
    )
    try:
        if is_once:
            with audited_use(slug=target.slug, actor=watcher.actor, at=watcher.clock()):
                loop.read_once()
        while not (is_once or watcher.stop.is_set()):
            loop.turn()
        loop.finish()
    except ClockAheadError:
        # A process whose clock is right may lead at once; it continues from the stored versions.
        release_lease(lease=lease)
        raise
    except StoppedError:
        logger.info("metering.watch.list_interrupted", cluster=target.slug)
    finally:
        loop.abandon()
    release_lease(lease=lease)
    logger.info("metering.watch.stopped", cluster=target.slug)
    return True
