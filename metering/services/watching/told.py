"""Told: one state of one object, when it was told, and whether the object is gone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from metering.protocols.watch import (
    Change,
    ClaimState,
    ListPage,
    NodeState,
    ObjectState,
    PodState,
    SliceState,
    WatchedKind,
    WatchEvent,
)

STATE_OF: Final[Mapping[WatchedKind, type[ObjectState]]] = {
    WatchedKind.PODS: PodState,
    WatchedKind.NODES: NodeState,
    WatchedKind.CLAIMS: ClaimState,
    WatchedKind.SLICES: SliceState,
}


@dataclass(frozen=True)
class Told:
    """One state as a list or an event told it.

    Attributes:
        told_at: When the list was taken, or when the event came in.
        is_prompt: Whether it tells of just now; False for what piled up while nobody watched.
    """

    state: ObjectState
    told_at: datetime
    is_gone: bool
    is_prompt: bool


def told_by_page(page: ListPage, *, kind: WatchedKind, at: datetime) -> list[Told]:
    """Return the states of a page, all there.

    A list tells promptly who is there. When somebody ended, it does not tell: whoever is terminal
    in it without an end of its own is bounded like one that is absent.
    """
    return [
        Told(_checked(state, kind=kind), told_at=at, is_gone=False, is_prompt=True)
        for state in page.states
    ]


def told_by_events(
    events: Sequence[WatchEvent], *, kind: WatchedKind, healthy_until: datetime | None
) -> list[Told]:
    """Return the states of some events, in order; bookmarks tell none.

    Args:
        events: As they came.
        kind: What they are of.
        healthy_until: What came in by then was told as it happened; None when nothing was.
    """
    return [
        Told(
            _checked(event.state, kind=kind),
            told_at=event.received_at,
            is_gone=event.change is Change.DELETED,
            is_prompt=event.is_prompt
            and healthy_until is not None
            and event.received_at <= healthy_until,
        )
        for event in events
        if event.state is not None
    ]


def _checked(state: ObjectState, *, kind: WatchedKind) -> ObjectState:
    if not isinstance(state, STATE_OF[kind]):
        raise TypeError(f"{type(state).__name__} among {kind.value}")
    return state
