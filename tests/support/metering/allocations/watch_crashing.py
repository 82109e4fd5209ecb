"""What a watch that dies does: a fixed hour of lists, events and heartbeats; see crashing.py.

Anyone who goes on afterwards looks at the kept versions, as the driver does: what they cover is not
reported again, everything after is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from metering.protocols.watch import ClaimState, NodeState, ObjectState, PodState, WatchedKind
from metering.selectors.allocations.watch import cursor_of
from metering.services.allocations.leases import release_lease
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.allocations.states import (
    Watching,
    deleted,
    event,
    lead,
    reported_claim,
    reported_node,
    reported_pod,
    reported_slice,
)
from tests.support.metering.seen import HOUR

State = TypeVar("State", PodState, NodeState, ClaimState)

CLUSTER = UUID(int=1)


def set_the_stage() -> None:
    """Make a watched cluster, a project and a binding whose keys are the same in every run."""
    cluster = make_cluster(id=CLUSTER, metered_from=HOUR, is_watched=True)
    project = make_project(make_organization(id=UUID(int=2)), id=UUID(int=3))
    bind(cluster, "team-nlp", project)


def watch(holder: str) -> None:
    """Lead the watch and ledger the hour, going on from the versions that are kept."""
    leading = lead(CLUSTER, holder)
    for kind, version, step in _steps(leading):
        if int(cursor_of(CLUSTER, kind) or 0) < version:
            step()
    release_lease(lease=leading.lease)


def _steps(leading: Watching) -> list[tuple[WatchedKind, int, Callable[[], object]]]:
    """Return the steps in order, each with the version it leaves; heartbeats move none."""
    pods, nodes, claims = WatchedKind.PODS, WatchedKind.NODES, WatchedKind.CLAIMS
    reported = [
        event(_at(reported_pod("a"), 11), 5),
        deleted(_at(reported_pod("b", finished=20), 12), 22),
        event(_at(reported_pod("strange", node="node-2"), 13), 23),
    ]
    later = [
        deleted(_at(reported_pod("a"), 14), 40),
        event(_at(reported_pod("c", bound=30), 15), 41),
        event(_at(reported_pod("a"), 16), 42),
    ]
    never = 1_000_000
    return [
        (nodes, 1, lambda: leading.list(-60, reported_node(), version="1")),
        (WatchedKind.SLICES, 1, lambda: leading.list(-60, reported_slice(), version="1")),
        (pods, 10, lambda: leading.list(-60, *_first_pods(), version="10")),
        (claims, 1, lambda: leading.list(-60, reported_claim(consumers=["a"]), version="1")),
        (pods, never, lambda: leading.beat(0)),
        (pods, 13, lambda: leading.tell(*reported)),
        (nodes, 2, lambda: leading.tell(event(_at(reported_node("node-2"), 2), 24))),
        (pods, never, lambda: leading.beat(30)),
        (pods, 16, lambda: leading.tell(*later)),
        (claims, 2, lambda: leading.tell(event(_at(reported_claim(devices=()), 2), 45))),
        (pods, 20, lambda: leading.list(3600, reported_pod("c", bound=30), version="20")),
        (pods, never, lambda: leading.beat(3610)),
    ]


def _first_pods() -> list[ObjectState]:
    """Return enough pods for two pages."""
    return [
        reported_pod("b"),
        reported_pod("d"),
        reported_pod("waiting", bound=None, phase="Pending"),
    ]


def _at(state: State, version: int) -> State:
    """Return a state as of a version."""
    return replace(state, resource_version=str(version))
