"""Events: what a watch told, written in the order it came, with the version it ends at."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from metering.domain.crashpoints import crashpoint
from metering.domain.watch_coverage import HEALTHY_FOR
from metering.protocols.watch import WatchedKind, WatchEvent
from metering.selectors.watch import alive_at
from metering.services.catalogue import ensure_catalogue
from metering.services.watching.batches import Batch, spool_pods, write_batch
from metering.services.watching.leases import Lease, require_lease
from metering.services.watching.ledgered import Changed, Ledgered, keep_version
from metering.services.watching.staging import ObservationSpool
from metering.services.watching.told import told_by_events
from tenants.domain.actors import Actor


def ledger_events(
    *, lease: Lease, kind: WatchedKind, events: Sequence[WatchEvent], at: datetime, actor: Actor
) -> Ledgered:
    """Write some events of one kind, in order, and the version of the last one, or nothing.

    An event counts as prompt when its stream says so, and the last heartbeat or the list it goes
    on from is not older than `HEALTHY_FOR` at the time it came in. Everything else piled up while
    nobody watched: an end it tells without a time of its own is bounded by the last heartbeat.
    Duplicates and what comes after a pod's deletion change nothing.

    Args:
        lease: The watch's.
        kind: What was watched.
        events: As they came; bookmarks only move the version. None of them is no work.
        at: Now.
        actor: Who watches.

    Raises:
        LeaseLostError: Another process leads the watch; nothing was written.
    """
    if not events:
        return Ledgered(kind, states=0, opened=0, closed=0, resource_version="")
    resource_version = events[-1].resource_version
    catalogue = ensure_catalogue(actor=actor, at=at)
    with transaction.atomic():
        require_lease(lease)
        known_alive = alive_at(lease.cluster_id, kind)
        told = told_by_events(
            events, kind=kind, healthy_until=known_alive and known_alive + HEALTHY_FOR
        )
        states, changed = 0, Changed()
        if told:
            batch = Batch(
                cluster_id=lease.cluster_id,
                catalogue=catalogue,
                at=at,
                alive_at=known_alive,
                is_list=False,
            )
            with ObservationSpool() as pods:
                if kind is WatchedKind.PODS:
                    spool_pods(pods, told, is_list=False)
                states, changed = write_batch(batch, kind=kind, told=told, pods=pods)
        keep_version(lease.cluster_id, kind=kind, resource_version=resource_version, at=at)
        crashpoint("watch.events.before_commit")
    crashpoint("watch.events.after_commit")
    return Ledgered(kind, states, changed.opened, changed.closed, resource_version)
