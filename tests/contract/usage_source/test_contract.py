"""What every usage source promises, reported against the scenario's own truth."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from metering.protocols import ContainerKind, Observation, PodObservation
from simulator.cluster.exporters.prometheus_text import sanitize_name
from simulator.cluster.incidents import (
    ENDS_INSIDE_NAME,
    FINISHES_INSIDE_NAME,
    LIVES_INSIDE_NAME,
    PENDING_NAME,
    REFUSED_NAME,
)
from simulator.cluster.scenario import Pod
from tests.contract.usage_source.conftest import (
    FAILURE,
    HOURS,
    MONTH,
    OUTAGE,
    REFUSED_AFTER,
    SCRAPE_SECONDS,
    Seen,
)

SCRAPE = timedelta(seconds=SCRAPE_SECONDS)
FIGURES = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE")
HEALTH = "DCGM_FI_DEV_XID_ERRORS"
CLUSTERS = ("hopper", "ampere")
EVERY_HOUR = [(cluster, hour) for cluster in CLUSTERS for hour in range(HOURS - 1)]


def named(observation: Observation, name: str) -> list[PodObservation]:
    return [pod for pod in observation.pods if pod.name == name]


def sighted(seen: Seen, cluster: str, observation: Observation) -> Iterator[tuple[Pod, datetime]]:
    """Yield each pod that existed at a tick, with its last such tick: nobody can know more."""
    for pod in seen.scenario.cluster(cluster).pods:
        at_ticks = [tick for tick in observation.ticks if pod.exists(tick)]
        if at_ticks:
            yield pod, at_ticks[-1]


@pytest.mark.parametrize(("cluster", "hour"), EVERY_HOUR)
def test_ticks_are_the_scrapes_that_took_place(seen: Seen, cluster: str, hour: int) -> None:
    observation = seen.observe(cluster, hour)

    start_at, end_at = observation.start_at, observation.end_at
    truth = seen.scenario.cluster(cluster).ticks(
        start_at - 4 * SCRAPE, end_at + timedelta(minutes=10, seconds=1)
    )
    assert observation.ticks == truth
    assert observation.expected_ticks == 60
    assert observation.as_of == end_at + timedelta(minutes=10)


@pytest.mark.parametrize(("cluster", "hour"), EVERY_HOUR)
def test_every_pod_and_node_names_the_target_that_carried_it(
    seen: Seen, cluster: str, hour: int
) -> None:
    observation = seen.observe(cluster, hour)

    [target] = observation.targets
    assert (target.ticks, target.has_series) == (observation.ticks, True)
    assert {one.targets for one in observation.pods} == {(target.name,)}
    assert {one.targets for one in observation.nodes} == {(target.name,)}
    reach = {(one.first_seen_at, one.last_seen_at) for one in observation.nodes}
    assert reach == {(observation.ticks[0], observation.ticks[-1])}


@pytest.mark.parametrize("hour", [4, 5])
def test_failed_scrapes_of_a_target_are_counted(seen: Seen, hour: int) -> None:
    begin_at = MONTH + timedelta(hours=hour) - 4 * SCRAPE
    until = MONTH + timedelta(hours=hour + 1, minutes=10)

    [target] = seen.observe("hopper", hour).targets

    due = seen.scenario.cluster("hopper").scheduled_scrapes(begin_at, until)
    assert target.failures == sum(FAILURE.covers(at) for at in due) > 0


@pytest.mark.parametrize(("cluster", "hour"), EVERY_HOUR)
def test_every_pod_at_a_scrape_is_observed_once_with_its_own_times(
    seen: Seen, cluster: str, hour: int
) -> None:
    observation = seen.observe(cluster, hour)

    found = {pod.uid: pod for pod in observation.pods}
    assert len(found) == len(observation.pods)
    assert [pod.uid for pod in observation.pods] == sorted(found)
    truth = {pod.uid: (pod, last) for pod, last in sighted(seen, cluster, observation)}
    assert found.keys() == truth.keys()
    for uid, (pod, last) in truth.items():
        is_bound = pod.scheduled_at is not None and pod.scheduled_at <= last
        is_finished = pod.finished_at is not None and pod.finished_at <= last
        assert (found[uid].namespace, found[uid].name) == (pod.namespace, pod.name)
        assert found[uid].node == (pod.node if is_bound else "")
        assert found[uid].scheduled_at == (pod.scheduled_at if is_bound else None)
        assert found[uid].finished_at == (pod.finished_at if is_finished else None)
        assert found[uid].owner == pod.owner


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_requests_are_what_each_container_asked_for(seen: Seen, cluster: str) -> None:
    observation = seen.observe(cluster, 0)

    truth = {pod.uid: pod for pod in seen.scenario.cluster(cluster).pods}
    assert observation.pods
    for pod in observation.pods:
        asked = {
            (one.name, ContainerKind(one.kind), sanitize_name(resource), units)
            for one in truth[pod.uid].containers
            for resource, units in one.requests.items()
            if resource.startswith("nvidia.com/")
        }
        assert {(one.container, one.kind, one.resource, one.units) for one in pod.requests} == asked


@pytest.mark.parametrize(("cluster", "hour"), EVERY_HOUR)
def test_observations_are_on_the_scrape_grid(seen: Seen, cluster: str, hour: int) -> None:
    observation = seen.observe(cluster, hour)

    ticks = set(observation.ticks)
    for pod, last in sighted(seen, cluster, observation):
        (found,) = [one for one in observation.pods if one.uid == pod.uid]
        assert {found.first_seen_at, found.last_seen_at} <= ticks
        assert found.last_seen_at == last
        assert found.first_seen_at == next(at for at in observation.ticks if pod.exists(at))


def test_node_labels_are_those_of_the_pods_node(seen: Seen) -> None:
    observation = seen.observe("ampere", 0)

    nodes = seen.scenario.cluster("ampere").node_by_name
    bound = [pod for pod in observation.pods if pod.node]
    assert bound
    for pod in bound:
        labels = nodes[pod.node].labels
        assert pod.node_labels == {sanitize_name(key): value for key, value in labels.items()}


def test_a_pod_that_waits_for_ever_is_observed_as_unbound(seen: Seen) -> None:
    (pending,) = named(seen.observe("hopper", HOURS - 2), PENDING_NAME)

    assert (pending.node, pending.scheduled_at, pending.finished_at) == ("", None, None)
    assert sum(one.units for one in pending.requests) == 8


def test_a_pod_the_kubelet_refused_turned_terminal_without_an_end(seen: Seen) -> None:
    (refused,) = named(seen.observe("ampere", 1), REFUSED_NAME)

    assert refused.finished_at is None
    assert refused.scheduled_at == MONTH + REFUSED_AFTER + timedelta(seconds=2)
    assert refused.terminal_seen_at is not None
    assert timedelta(0) <= refused.terminal_seen_at - refused.scheduled_at <= SCRAPE


def test_a_refused_pod_that_stays_is_terminal_at_its_first_observation(seen: Seen) -> None:
    (refused,) = named(seen.observe("ampere", 3), REFUSED_NAME)

    assert refused.terminal_seen_at == refused.first_seen_at


@pytest.mark.parametrize("outage", [OUTAGE, FAILURE], ids=["silence", "up is 0"])
def test_an_outage_leaves_no_tick(seen: Seen, outage: object) -> None:
    assert isinstance(outage, type(OUTAGE))
    hour = (outage.begin_at - MONTH) // timedelta(hours=1)

    observation = seen.observe("hopper", hour, hours=2)

    assert observation.ticks
    assert not any(outage.covers(tick) for tick in observation.ticks)


def test_a_pod_that_ends_in_an_outage_was_last_seen_before_it(seen: Seen) -> None:
    (ended,) = named(seen.observe("hopper", 2), ENDS_INSIDE_NAME)

    assert OUTAGE.begin_at - SCRAPE <= ended.last_seen_at < OUTAGE.begin_at
    assert (ended.finished_at, ended.terminal_seen_at) == (None, None)


def test_a_pod_that_finishes_in_an_outage_and_stays_has_its_exact_end(seen: Seen) -> None:
    (finished,) = named(seen.observe("hopper", 2), FINISHES_INSIDE_NAME)

    assert finished.finished_at is not None
    assert OUTAGE.covers(finished.finished_at)
    assert finished.terminal_seen_at == finished.first_seen_at
    assert OUTAGE.end_at <= finished.first_seen_at < OUTAGE.end_at + SCRAPE


def test_a_pod_that_lives_in_an_outage_is_never_seen(seen: Seen) -> None:
    assert named(seen.observe("hopper", 2), LIVES_INSIDE_NAME) == []


def test_an_hour_that_ends_in_an_outage_is_blind_at_its_end(seen: Seen) -> None:
    early = seen.observe("hopper", 4, asked_after=timedelta(minutes=4))
    late = seen.observe("hopper", 4)

    assert early.ticks[-1] < FAILURE.begin_at
    assert late.ticks[-1] > FAILURE.end_at


def test_nodes_offer_what_they_have_for_as_long_as_they_were_seen(seen: Seen) -> None:
    whole, holed = seen.observe("hopper", 0), seen.observe("hopper", 2)

    nodes = seen.scenario.cluster("hopper").node_by_name
    assert [node.node for node in whole.nodes] == sorted(nodes)
    for node in whole.nodes:
        assert node.covered_seconds == 3600
        assert node.allocatable == {
            sanitize_name(resource): units
            for resource, units in sorted(nodes[node.node].allocatable.items())
            if resource.startswith("nvidia.com/")
        }
    hidden = 3600 - (OUTAGE.end_at - OUTAGE.begin_at).seconds
    assert all(abs(node.covered_seconds - hidden) <= 30 for node in holed.nodes)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_devices_tile_the_hour_without_overlap(seen: Seen, cluster: str) -> None:
    observation = seen.observe_devices(cluster, 0)

    truth = {
        (gpu.uuid, instance)
        for node in seen.scenario.cluster(cluster).nodes
        for gpu in node.gpus
        for instance in ([one.instance_id for one in gpu.instances] or [""])
    }
    runs: dict[tuple[str, str], list[tuple[datetime, datetime]]] = {key: [] for key in truth}
    for device in observation.devices:
        runs[device.uuid, device.instance_id].append((device.begin_at, device.end_at))
        assert 0 < device.samples == device.expected_samples
    for stretches in runs.values():
        assert (stretches[0][0], stretches[-1][1]) == (observation.start_at, observation.end_at)
        assert [end for _, end in stretches[:-1]] == [begin for begin, _ in stretches[1:]]


def test_energy_of_the_hours_adds_up_to_that_of_the_day(seen: Seen) -> None:
    hours = [seen.observe_devices("hopper", hour) for hour in (0, 1)]
    both = seen.observe_devices("hopper", 0, hours=2)

    parts, whole = (
        {
            uuid: sum(
                device.energy_millijoules or 0
                for observation in observations
                for device in observation.devices
                if device.uuid == uuid
            )
            for uuid in {device.uuid for device in both.devices if not device.instance_id}
        }
        for observations in (hours, [both])
    )
    assert parts == whole
    assert all(whole.values())


def test_asking_again_later_shows_the_same(seen: Seen) -> None:
    soon = seen.observe("hopper", 1, asked_after=timedelta(minutes=10))
    later = seen.observe("hopper", 1, asked_after=timedelta(minutes=55))

    assert soon == later


def test_evidence_says_what_was_asked(seen: Seen) -> None:
    observation, figures = seen.observe("hopper", 0), seen.observe_devices("hopper", 0)

    assert observation.evidence
    assert figures.evidence
    for one in (*observation.evidence, *figures.evidence):
        assert one.query
        assert len(one.sha256) == 64
        # The simulated history holds no figures beyond activity and energy, and healthy devices.
        is_count = one.query.startswith("count")
        has_none = any(name in one.query for name in (*FIGURES, HEALTH)) and not is_count
        assert (one.samples > 0) is not has_none, one.query
        assert observation.start_at < one.at <= observation.as_of


def test_a_window_may_not_be_asked_for_before_later_observations_are_possible(seen: Seen) -> None:
    with pytest.raises(ValueError, match="two scrapes"):
        seen.observe("hopper", 0, asked_after=timedelta(seconds=119))
