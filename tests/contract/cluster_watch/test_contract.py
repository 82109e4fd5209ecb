"""What every watch of a cluster does, anyone who shows it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from metering.protocols.watch import (
    Change,
    NodeState,
    ObjectState,
    PodState,
    WatchedKind,
    WatchEvent,
    WatchExpiredError,
)
from simulator.cluster.scenario import PodPhase
from tenants.domain.errors import SourceUnavailableError
from tests.contract.cluster_watch.benches import START, STEP, Bench, listed, reported, version_of

PODS, NODES = WatchedKind.PODS, WatchedKind.NODES


def applied(before: dict[str, ObjectState], events: list[WatchEvent]) -> dict[str, ObjectState]:
    """Return a list after events."""
    after = dict(before)
    for event in events:
        if event.change is Change.DELETED:
            assert event.state is not None
            del after[event.state.uid]
        elif event.state is not None:
            after[event.state.uid] = event.state
    return after


def test_pods_and_nodes_are_served(bench: Bench) -> None:
    assert bench.watch.serves(bench.target, PODS)
    assert bench.watch.serves(bench.target, NODES)


def test_a_cluster_nobody_knows_is_unavailable(bench: Bench) -> None:
    nowhere = replace(bench.target, slug="nowhere", credential_reference="")

    with pytest.raises(SourceUnavailableError):
        bench.watch.serves(nowhere, PODS)
    with pytest.raises(SourceUnavailableError):
        list(bench.watch.list(nowhere, PODS))


def test_a_list_is_the_scenario_at_that_moment(bench: Bench, watched_scenario: object) -> None:
    cluster = watched_scenario.cluster("hopper")  # type: ignore[attr-defined]
    truth = {pod.uid: pod for pod in cluster.objects(START)}

    states = listed(bench)

    assert set(states) == set(truth)
    for uid, pod in truth.items():
        state = states[uid]
        assert isinstance(state, PodState)
        assert state.defects == ()
        assert (state.namespace, state.name, state.owner) == (pod.namespace, pod.name, pod.owner)
        assert state.phase == str(pod.phase(START))
        assert (state.scheduled_at is not None) == (state.node != "")
        if pod.holds(START):
            assert (state.node, state.scheduled_at) == (pod.node, pod.scheduled_at)
            assert state.finished_at is None


def test_a_list_of_nodes_offers_what_the_scenario_has(
    bench: Bench, watched_scenario: object
) -> None:
    nodes = {node.name: node for node in watched_scenario.cluster("hopper").nodes}  # type: ignore[attr-defined]

    states = {state.name: state for state in listed(bench, NODES).values()}

    assert set(states) == set(nodes)
    for name, state in states.items():
        assert isinstance(state, NodeState)
        assert state.labels == nodes[name].labels
        assert (state.is_ready, state.is_schedulable, state.defects) == (True, True, ())
        assert "cpu" not in state.allocatable
        assert state.allocatable["nvidia.com/gpu"] == nodes[name].allocatable["nvidia.com/gpu"]


def test_a_stream_opens_with_the_version_asked_for(bench: Bench) -> None:
    version = version_of(bench)

    first, *_ = reported(bench, version)

    assert (first.change, first.resource_version, first.state) == (Change.BOOKMARK, version, None)
    assert first.received_at == START


def test_a_list_and_the_events_after_it_are_the_next_list(bench: Bench) -> None:
    before, version = listed(bench), version_of(bench)
    bench.move(START + STEP)

    events = reported(bench, version)

    assert {event.change for event in events} == {
        Change.ADDED,
        Change.MODIFIED,
        Change.DELETED,
        Change.BOOKMARK,
    }
    after = listed(bench)
    moved = applied(before, events)
    assert set(moved) == set(after)
    assert [replace_version(moved[uid]) for uid in sorted(moved)] == [
        replace_version(after[uid]) for uid in sorted(after)
    ]


def test_a_stream_goes_on_where_an_event_left_it(bench: Bench) -> None:
    version = version_of(bench)
    bench.move(START + STEP)
    whole = [event for event in reported(bench, version) if event.state is not None]

    rest = [
        event for event in reported(bench, whole[2].resource_version) if event.state is not None
    ]

    assert [event.resource_version for event in rest] == [
        event.resource_version for event in whole[3:]
    ]


def test_a_stream_that_has_nothing_to_tell_moves_on_with_a_bookmark(bench: Bench) -> None:
    version = version_of(bench)

    events = reported(bench, version)

    assert [event.change for event in events] == [Change.BOOKMARK, Change.BOOKMARK]
    assert reported(bench, events[1].resource_version)[0].change is Change.BOOKMARK


def test_a_version_that_is_purged_is_expired(bench: Bench) -> None:
    version = version_of(bench)
    bench.move(START + STEP)
    bench.purge()

    with pytest.raises(WatchExpiredError):
        reported(bench, version)
    assert reported(bench, version_of(bench))[0].change is Change.BOOKMARK


def test_a_version_that_is_none_is_refused(bench: Bench) -> None:
    with pytest.raises(SourceUnavailableError):
        reported(bench, "yesterday")


def test_a_deleted_pod_comes_with_its_last_state(bench: Bench, watched_scenario: object) -> None:
    version = version_of(bench)
    bench.move(START + STEP)
    truth = {
        pod.uid: pod
        for pod in watched_scenario.cluster("hopper").pods  # type: ignore[attr-defined]
        if pod.deleted_at and START < pod.deleted_at <= START + STEP
    }

    deleted = [event for event in reported(bench, version) if event.change is Change.DELETED]

    assert deleted
    for event in deleted:
        assert isinstance(event.state, PodState)
        pod = truth[event.state.uid]
        assert event.state.scheduled_at == pod.scheduled_at
        if pod.end_phase is PodPhase.RUNNING:
            assert event.state.finished_at is None


def replace_version(state: ObjectState) -> ObjectState:
    return replace(state, resource_version="")


def test_the_months_first_hours_are_reported_without_a_fault(bench: Bench) -> None:
    before, version = listed(bench), version_of(bench)
    for step in range(1, 4):
        bench.move(START + step * timedelta(hours=5))
        events = reported(bench, version)
        before, version = applied(before, events), events[-1].resource_version

    assert set(before) == set(listed(bench))
