"""States of watched objects, and the result of writing them to the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection

from metering.protocols.watch import (
    Change,
    ClaimState,
    ClassState,
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
    WatchedKind.CLASSES: ClassState,
}


@dataclass(frozen=True)
class Observed:
    """One state from a list or an event.

    Attributes:
        observed_at: When the list was taken, or when the event arrived.
        is_prompt: Whether the change has just happened; False for what accumulated while no watch
            ran.
    """

    state: ObjectState
    observed_at: datetime
    is_gone: bool
    is_prompt: bool


def observed_in_page(page: ListPage, *, kind: WatchedKind, at: datetime) -> list[Observed]:
    """Return the states of a page, all present.

    A list shows promptly which objects exist, but not when one ended: a terminal object without its
    own end is bounded like an absent one.
    """
    return [
        Observed(_checked(state, kind=kind), observed_at=at, is_gone=False, is_prompt=True)
        for state in page.states
    ]


def observed_in_events(
    events: Sequence[WatchEvent], *, kind: WatchedKind, healthy_until: datetime | None
) -> list[Observed]:
    """Return the states of some events, in order; bookmarks have none.

    Args:
        events: In order of arrival.
        kind: What they are of.
        healthy_until: Events that arrived by then were prompt; None when none was.
    """
    return [
        Observed(
            _checked(event.state, kind=kind),
            observed_at=event.received_at,
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


@dataclass(frozen=True)
class Ledgered:
    """What one list or batch of events changed.

    Attributes:
        states: Objects that concern the ledger, each counted once.
        opened: Rows that were new.
        closed: Rows that ended, or whose end became better known.
        resource_version: Where the stream continues; "" without any event.
    """

    kind: WatchedKind
    states: int
    opened: int
    closed: int
    resource_version: str


@dataclass(frozen=True)
class Changed:
    """Rows that one step opened and closed."""

    opened: int = 0
    closed: int = 0


_LISTED = """
INSERT INTO metering_watchcursor AS c (cluster_id, kind, resource_version, listed_at, is_afresh)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (cluster_id, kind) DO UPDATE
   SET resource_version = EXCLUDED.resource_version, listed_at = EXCLUDED.listed_at,
       is_afresh = c.is_afresh OR EXCLUDED.is_afresh
"""
_READ_ON = """
INSERT INTO metering_watchcursor (cluster_id, kind, resource_version, listed_at)
VALUES (%s, %s, %s, %s)
ON CONFLICT (cluster_id, kind) DO UPDATE SET resource_version = EXCLUDED.resource_version
"""


def keep_version(
    cluster_id: UUID, *, kind: WatchedKind, resource_version: str, at: datetime
) -> None:
    """Keep how far a kind was read, in the transaction of the rows that were written with it."""
    with connection.cursor() as cursor:
        cursor.execute(_READ_ON, [cluster_id, kind.value, resource_version, at])


def keep_list(
    cluster_id: UUID, *, kind: WatchedKind, resource_version: str, at: datetime, is_afresh: bool
) -> None:
    """Keep the version of a list, and whether what was before it is unknown, with its rows."""
    with connection.cursor() as cursor:
        cursor.execute(_LISTED, [cluster_id, kind.value, resource_version, at, is_afresh])
