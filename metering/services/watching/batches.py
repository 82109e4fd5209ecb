"""Batches: a list or some events of one kind, written by the steps of that kind."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from metering.domain.catalogue import Catalogue
from metering.domain.pod_life import merge_sights
from metering.protocols.watch import ClaimState, NodeState, PodState, SliceState, WatchedKind
from metering.services.watching.claims import write_claims
from metering.services.watching.doubts import refuse_doubtful
from metering.services.watching.ends import end_absent, end_on_lost_nodes
from metering.services.watching.ledgered import Changed
from metering.services.watching.nodes import write_nodes
from metering.services.watching.pods import write_pods
from metering.services.watching.settling import settle_open_sizes
from metering.services.watching.sights import sight_of
from metering.services.watching.slices import write_slices
from metering.services.watching.staging import ObservationSpool
from metering.services.watching.told import Told


@dataclass(frozen=True)
class Batch:
    """What every step of a batch has to know.

    Attributes:
        at: When it is written; of a list, when it was asked for.
        alive_at: Everything open in the ledger was alive then; None when nobody knows.
        is_list: Whether it is a complete list, so that absence means something.
        is_sure: Whether it is believed even when most of what is open is absent.
    """

    cluster_id: UUID
    catalogue: Catalogue
    at: datetime
    alive_at: datetime | None
    is_list: bool
    is_sure: bool = False


def spool_pods(spool: ObservationSpool, told: Sequence[Told], *, is_list: bool) -> None:
    """Keep what the states of some pods show, one observation per pod."""
    sights = (
        sight_of(
            item.state,
            told_at=item.told_at,
            is_deleted=item.is_gone,
            is_prompt=item.is_prompt,
            is_list=is_list,
        )
        for item in told
        if isinstance(item.state, PodState)
    )
    spool.add(merge_sights(sight for sight in sights if sight is not None))


def write_batch(
    batch: Batch, *, kind: WatchedKind, told: Sequence[Told], pods: ObservationSpool
) -> tuple[int, Changed]:
    """Write a batch within a transaction; return how many objects it told of, and what changed.

    Pods are read from `pods`; all other kinds from `told`.

    Raises:
        DoubtfulListError: It is a list that would end most of what is open.
    """
    if kind is WatchedKind.PODS:
        return _pods(batch, pods)
    uids = {item.state.uid for item in told}
    objects = len(uids)
    _doubt(batch, kind=kind, uids=uids)
    if kind is WatchedKind.NODES:
        return objects, _nodes(batch, told=told)
    if kind is WatchedKind.SLICES:
        slices = [(item, item.state) for item in told if isinstance(item.state, SliceState)]
        return objects, write_slices(
            batch.cluster_id, told=slices, at=batch.at, is_list=batch.is_list
        )
    claims = [(item, item.state) for item in told if isinstance(item.state, ClaimState)]
    changed = write_claims(
        batch.cluster_id,
        told=claims,
        at=batch.at,
        alive_at=batch.alive_at,
        is_list=batch.is_list,
        catalogue=batch.catalogue,
    )
    settle_open_sizes(batch.cluster_id, catalogue=batch.catalogue)
    return objects, changed


def _doubt(batch: Batch, *, kind: WatchedKind, uids: Collection[str]) -> None:
    if batch.is_list and not batch.is_sure:
        refuse_doubtful(batch.cluster_id, kind=kind, uids=uids, at=batch.at)


def _pods(batch: Batch, spool: ObservationSpool) -> tuple[int, Changed]:
    if spool.is_empty and not batch.is_list:
        return 0, Changed(closed=end_on_lost_nodes(batch.cluster_id, at=batch.at))
    pods = spool.load()
    _doubt(batch, kind=WatchedKind.PODS, uids=())
    changed = write_pods(
        batch.cluster_id,
        catalogue=batch.catalogue,
        alive_at=batch.alive_at,
        is_list=batch.is_list,
    )
    closed = changed.closed
    if batch.is_list:
        closed += end_absent(batch.cluster_id, alive_at=batch.alive_at, at=batch.at)
    closed += end_on_lost_nodes(batch.cluster_id, at=batch.at)
    return pods, Changed(opened=changed.opened, closed=closed)


def _nodes(batch: Batch, *, told: Sequence[Told]) -> Changed:
    nodes = [(item, item.state) for item in told if isinstance(item.state, NodeState)]
    changed = write_nodes(
        batch.cluster_id,
        told=nodes,
        at=batch.at,
        alive_at=batch.alive_at,
        is_list=batch.is_list,
    )
    settle_open_sizes(batch.cluster_id, catalogue=batch.catalogue)
    end_on_lost_nodes(batch.cluster_id, at=batch.at)
    return changed
