"""Lists and events: a consistent list of one kind, or events in their order, written at once.

The pages are read outside any transaction. Only after the last one is everything written at once,
with the version the stream continues from; an incomplete list is discarded.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import structlog
from django.db import transaction

from metering.domain.allocations.timeline import HEALTHY_FOR
from metering.domain.collection.crashpoints import crashpoint
from metering.protocols.watch import ListPage, WatchedKind, WatchEvent
from metering.selectors.allocations.watch import alive_at
from metering.services.allocations.batches import WatchBatch, spool_pods, write_batch
from metering.services.allocations.leases import Lease, require_lease
from metering.services.allocations.pods import ObservationSpool
from metering.services.allocations.states import (
    Changed,
    Ledgered,
    Observed,
    keep_list,
    keep_version,
    observed_in_events,
    observed_in_page,
)
from metering.services.catalogue import ensure_catalogue
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError

logger = structlog.get_logger(__name__)


class _Pages:
    """The pages of one list as they come, with the version all of them carry."""

    def __init__(self, pages: Iterable[ListPage]) -> None:
        self._pages = pages
        self.resource_version = ""

    def __iter__(self) -> Iterator[ListPage]:
        for page in self._pages:
            self.resource_version = self.resource_version or page.resource_version
            if not page.resource_version or page.resource_version != self.resource_version:
                raise SourceUnavailableError(
                    "The pages of a list are of different versions.", reason="inconsistent_list"
                )
            yield page
            crashpoint("watch.list.after_page")
        if not self.resource_version:
            raise SourceUnavailableError("A list had no page.", reason="inconsistent_list")


def ledger_list(  # noqa: PLR0913 - A list needs what it is of and how it was read.
    *,
    lease: Lease,
    kind: WatchedKind,
    pages: Iterator[ListPage],
    at: datetime,
    actor: Actor,
    is_afresh: bool = True,
    is_sure: bool = False,
) -> Ledgered:
    """Write a consistent list and the version it was taken at, all of it or nothing.

    What is open in the ledger but not in the list has ended between the last time it was known
    alive and `at`; that bound is recorded. New objects in the list open from their own times. List
    nodes and slices before pods, and pods before claims, so that each finds the objects it refers
    to.

    Args:
        lease: The watch's.
        kind: What is listed.
        pages: Read one after the other, outside any transaction.
        at: When the list was requested.
        actor: The watching process.
        is_afresh: Whether what happened before the list may have been missed; False only when the
            kind was read without a gap up to the list. The next heartbeat records the gap, from
            whichever process.
        is_sure: Whether the list is accepted even when most open objects are missing in it.

    Raises:
        LeaseLostError: Another process leads the watch; nothing was written.
        WatchExpiredError: A page could not be read; nothing was written.
        DoubtfulListError: Most of what is open is missing; nothing was written.
        SourceUnavailableError: As above, or the pages are not of one list.
    """
    read = _Pages(pages)
    catalogue = ensure_catalogue(actor=actor, at=at)
    with ObservationSpool() as pods:
        observed = _read(read, kind=kind, at=at, pods=pods)
        with transaction.atomic():
            require_lease(lease)
            batch = WatchBatch(
                cluster_id=lease.cluster_id,
                catalogue=catalogue,
                at=at,
                alive_at=alive_at(lease.cluster_id, kind),
                is_list=True,
                is_sure=is_sure,
            )
            states, changed = write_batch(batch, kind=kind, observed=observed, pods=pods)
            keep_list(
                lease.cluster_id,
                kind=kind,
                resource_version=read.resource_version,
                at=at,
                is_afresh=is_afresh,
            )
            crashpoint("watch.list.before_commit")
    crashpoint("watch.list.after_commit")
    logger.info(
        "metering.watch.listed",
        cluster_id=str(lease.cluster_id),
        kind=kind.value,
        states=states,
        opened=changed.opened,
        closed=changed.closed,
    )
    return Ledgered(kind, states, changed.opened, changed.closed, read.resource_version)


def _read(
    pages: _Pages, *, kind: WatchedKind, at: datetime, pods: ObservationSpool
) -> Sequence[Observed]:
    """Read a list to its end; pods go to their spool page by page, because there are many."""
    if kind is not WatchedKind.PODS:
        return [observed for page in pages for observed in observed_in_page(page, kind=kind, at=at)]
    for page in pages:
        spool_pods(pods, observed_in_page(page, kind=kind, at=at), is_list=True)
    return ()


def ledger_events(
    *, lease: Lease, kind: WatchedKind, events: Sequence[WatchEvent], at: datetime, actor: Actor
) -> Ledgered:
    """Write some events of one kind, in order, and the version of the last one, or nothing.

    An event counts as prompt when its stream says so, and the last heartbeat or the list it
    continues from is not older than `HEALTHY_FOR` when it arrived. Other events accumulated while
    no watch ran: an end without its own time is bounded by the last heartbeat. Duplicates and
    events after a pod's deletion change nothing.

    Args:
        lease: The watch's.
        kind: What was watched.
        events: In order of arrival; bookmarks only move the version. May be empty.
        at: Now.
        actor: The watching process.

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
        observed = observed_in_events(
            events, kind=kind, healthy_until=known_alive and known_alive + HEALTHY_FOR
        )
        states, changed = 0, Changed()
        if observed:
            batch = WatchBatch(
                cluster_id=lease.cluster_id,
                catalogue=catalogue,
                at=at,
                alive_at=known_alive,
                is_list=False,
            )
            with ObservationSpool() as pods:
                if kind is WatchedKind.PODS:
                    spool_pods(pods, observed, is_list=False)
                states, changed = write_batch(batch, kind=kind, observed=observed, pods=pods)
        keep_version(lease.cluster_id, kind=kind, resource_version=resource_version, at=at)
        crashpoint("watch.events.before_commit")
    crashpoint("watch.events.after_commit")
    return Ledgered(kind, states, changed.opened, changed.closed, resource_version)
