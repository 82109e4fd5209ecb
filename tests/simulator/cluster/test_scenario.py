"""Pods and clusters answer for any moment; scrapes happen on their grid and not in an outage."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster.scenario import (
    Outage,
    Pod,
    PodPhase,
    Scenario,
    SimulatedCluster,
)

T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)


def after(seconds: int) -> datetime:
    return T0 + timedelta(seconds=seconds)


def make_pod(**changes: object) -> Pod:
    """Return a pod that is created at 0, bound at 10, runs from 20 to 100, and goes at 160."""
    fields: dict[str, object] = {
        "uid": "u",
        "namespace": "ns",
        "name": "pod",
        "node": "node",
        "created_at": after(0),
        "scheduled_at": after(10),
        "started_at": after(20),
        "finished_at": after(100),
        "deleted_at": after(160),
        "end_phase": PodPhase.SUCCEEDED,
        "containers": (),
        "resource": "nvidia.com/gpu",
        "labels": {},
        "owner": "",
        "owner_kind": "Job",
        "owner_name": "job",
        "priority_class": "",
        "slots": (),
        "true_units": 2,
        "true_size": "large",
        "true_price_group": "H100/whole",
        "true_sharing_mode": "whole",
    }
    return Pod(**{**fields, **changes})  # type: ignore[arg-type]


def make_cluster(**changes: object) -> SimulatedCluster:
    fields: dict[str, object] = {
        "slug": "c",
        "name": "C",
        "nodes": (),
        "namespaces": (),
        "pods": (),
        "offered_resources": (),
        "scrape_interval_seconds": 60,
        "scrape_offset_seconds": 7,
    }
    return SimulatedCluster(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("second", "phase"),
    [
        (0, PodPhase.PENDING),
        (10, PodPhase.PENDING),
        (19, PodPhase.PENDING),
        (20, PodPhase.RUNNING),
        (99, PodPhase.RUNNING),
        (100, PodPhase.SUCCEEDED),
        (159, PodPhase.SUCCEEDED),
    ],
)
def test_the_phase_turns_at_the_very_second(second: int, phase: PodPhase) -> None:
    assert make_pod().phase(after(second)) is phase


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (-1, "gone"),
        (0, "there"),
        (9, "there"),
        (10, "holds"),
        (99, "holds"),
        (100, "there"),
        (159, "there"),
        (160, "gone"),
    ],
)
def test_it_exists_and_holds_over_half_open_intervals(second: int, expected: str) -> None:
    pod = make_pod()
    reported = {(False, False): "gone", (True, False): "there", (True, True): "holds"}

    assert reported[pod.exists(after(second)), pod.holds(after(second))] == expected


def test_what_is_billable_ends_with_the_last_container() -> None:
    assert make_pod().truth == (after(10), after(100))


def test_what_was_deleted_while_running_ends_with_the_object() -> None:
    pod = make_pod(finished_at=None, end_phase=PodPhase.RUNNING)

    assert pod.truth == (after(10), after(160))
    assert pod.phase(after(159)) is PodPhase.RUNNING


def test_what_runs_on_has_no_end() -> None:
    pod = make_pod(finished_at=None, deleted_at=None, end_phase=PodPhase.RUNNING)

    assert pod.truth == (after(10), None)
    assert pod.holds(after(10**9))
    assert pod.true_seconds(after(0), after(1000)) == 990


@pytest.mark.parametrize(
    ("begin", "end", "seconds"),
    [(0, 1000, 90), (10, 100, 90), (50, 60, 10), (0, 10, 0), (100, 200, 0), (99, 101, 1)],
)
def test_seconds_are_clipped_to_the_window(begin: int, end: int, seconds: int) -> None:
    assert make_pod().true_seconds(after(begin), after(end)) == seconds


@given(st.lists(st.integers(-50, 250), min_size=2, max_size=6, unique=True))
def test_windows_beside_each_other_add_up(marks: list[int]) -> None:
    marks.sort()
    pod = make_pod()

    parts = [pod.true_seconds(after(first), after(last)) for first, last in pairwise(marks)]

    assert sum(parts) == pod.true_seconds(after(marks[0]), after(marks[-1]))


def test_the_refused_and_the_unbound_hold_nothing() -> None:
    refused = make_pod(rejected_at=after(11), started_at=None, finished_at=None)
    unbound = make_pod(scheduled_at=None, started_at=None, finished_at=None)

    assert (refused.truth, unbound.truth) == (None, None)
    assert not refused.holds(after(50))
    assert unbound.true_seconds(after(0), after(1000)) == 0


def test_scrapes_are_on_the_grid_whatever_is_asked() -> None:
    cluster = make_cluster()

    whole = list(cluster.scheduled_scrapes(after(0), after(3600)))
    parts = [
        *cluster.scheduled_scrapes(after(0), after(1234)),
        *cluster.scheduled_scrapes(after(1234), after(3600)),
    ]

    assert whole == parts
    assert len(whole) == 60
    assert whole[:2] == [after(7), after(67)]


def test_an_outage_has_no_ticks_and_the_scrape_at_its_end_is_one() -> None:
    cluster = make_cluster(outages=(Outage(after(67), after(187)),))

    assert cluster.ticks(after(0), after(200)) == (after(7), after(187))
    assert len(list(cluster.scheduled_scrapes(after(0), after(200)))) == 4
    assert cluster.is_blind(after(67))
    assert not cluster.is_blind(after(187))


def test_alive_are_the_holders_and_objects_are_all_that_exist() -> None:
    running = make_pod()
    kept = make_pod(uid="v", finished_at=after(30))
    waiting = make_pod(uid="w", scheduled_at=None, started_at=None, finished_at=None)
    cluster = make_cluster(pods=(running, kept, waiting))

    assert cluster.pods_alive(after(50)) == (running,)
    assert cluster.objects(after(50)) == (running, kept, waiting)
    assert cluster.objects(after(160)) == ()


def test_a_cluster_is_found_by_its_slug(scenario: Scenario) -> None:
    assert scenario.cluster("ampere").slug == "ampere"
    with pytest.raises(KeyError):
        scenario.cluster("turing")


def test_a_binding_shows_organization_and_project(scenario: Scenario) -> None:
    organization, project = scenario.bindings["hopper", "llm-train"]

    assert (organization.slug, project.slug) == ("northwind", "llm")
    assert ("hopper", "scratch-dana") not in scenario.bindings


def test_a_changed_copy_forgets_nothing(hopper: SimulatedCluster) -> None:
    moved = replace(hopper, outages=())

    assert moved.pods == hopper.pods
    assert moved.node_by_name["hopper-mig-1"] == hopper.node_by_name["hopper-mig-1"]
