"""The source over a real socket: what it asks, and what it makes of sound answers."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from metering.protocols import (
    ContainerKind,
    ContainerRequest,
    DeviceObservation,
    NodeObservation,
    PodObservation,
)
from tests.support.metering.prometheus import (
    ASKED,
    END,
    FIRST,
    HOUR,
    KSM,
    SCRAPE,
    START,
    World,
    answer,
    facts_of,
    grid,
    identity,
    last,
    observe,
    observe_devices,
    raw,
    request,
    serving,
    sound_world,
    target_of,
    up,
)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_running_pod_is_observed_with_everything_known_of_it() -> None:
    observation = observe(sound_world())

    labels = {"nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3"}
    assert observation.pods == (
        PodObservation(
            uid="7c1f2a3b",
            namespace="team-nlp",
            name="llm-train-0",
            node="gpu-h100-01",
            requests=(
                ContainerRequest("trainer", ContainerKind.REGULAR, "nvidia_com_gpu", 1, None),
            ),
            scheduled_at=at(START - 7200),
            first_seen_at=at(FIRST + SCRAPE),
            last_seen_at=at(ASKED),
            priority_class="gpu-standard",
            node_labels=labels,
            targets=(KSM["instance"],),
        ),
    )
    assert observation.nodes == (
        NodeObservation(
            "gpu-h100-01",
            labels,
            {"nvidia_com_gpu": 8},
            covered_seconds=3600,
            first_seen_at=at(FIRST + SCRAPE),
            last_seen_at=at(ASKED),
            targets=(KSM["instance"],),
        ),
    )
    assert observe_devices(sound_world()).devices == (
        DeviceObservation(
            uuid="GPU-4a7b",
            node="gpu-h100-01",
            model="NVIDIA H100 80GB HBM3",
            instance_id="",
            instance_profile="",
            namespace="team-nlp",
            pod="llm-train-0",
            begin_at=HOUR,
            end_at=HOUR + timedelta(hours=1),
            busy_ratio=Decimal("0.980000"),
            samples=60,
            expected_samples=60,
        ),
    )


def test_the_clock_and_the_frame_of_an_observation() -> None:
    observation = observe(sound_world())

    assert observation.cluster == "hopper"
    assert observation.source == "prometheus"
    assert (observation.start_at, observation.end_at) == (HOUR, HOUR + timedelta(hours=1))
    assert observation.as_of == at(ASKED)
    assert observation.ticks == tuple(at(second) for second in grid())
    assert observation.expected_ticks == 60


def test_a_window_costs_four_queries_and_eight_for_devices_at_fixed_times() -> None:
    world = sound_world()

    observe(world)

    assert [one["time"] for one in world.asked] == 4 * [str(ASKED)]
    observe_devices(world)
    late, early = str(END + 2 * SCRAPE), str(START + 2 * SCRAPE)
    assert [one["time"] for one in world.asked[4:]] == [
        *(late, late, str(END), early, late),
        *(late, late, late),
    ]
    assert all(one["timeout"] == "45s" for one in world.asked)
    assert all(one["partial_response"] == "false" for one in world.asked)


def test_a_window_asked_for_early_is_asked_as_of_then() -> None:
    world = sound_world()
    world.observations = [up(grid(end=END + 120))]
    world.facts = []

    with serving(world) as url:
        observation = PrometheusUsageSource().observe(
            target_of(url),
            start_at=HOUR,
            end_at=HOUR + timedelta(hours=1),
            as_of=HOUR + timedelta(hours=1, seconds=120, milliseconds=900),
        )

    assert observation.as_of == at(END + 120)
    assert {one["time"] for one in world.asked} == {str(END + 120)}


@pytest.mark.parametrize(
    ("start_at", "end_at", "as_of"),
    [
        (HOUR, HOUR + timedelta(hours=1), HOUR + timedelta(hours=1, seconds=119)),
        (HOUR, HOUR, HOUR + timedelta(hours=1)),
        (HOUR.replace(tzinfo=None), HOUR + timedelta(hours=1), HOUR + timedelta(hours=2)),
    ],
    ids=["asked too early", "empty window", "no zone"],
)
def test_a_window_that_cannot_be_judged_is_a_programming_mistake(
    start_at: datetime, end_at: datetime, as_of: datetime
) -> None:
    world = sound_world()

    with serving(world) as url, pytest.raises(ValueError, match=r"window|zone"):
        PrometheusUsageSource().observe(
            target_of(url), start_at=start_at, end_at=end_at, as_of=as_of
        )

    assert world.asked == []


def test_every_query_leaves_evidence_of_its_answer() -> None:
    world = sound_world()

    observation, figures = observe(world), observe_devices(world)

    evidence = [*observation.evidence, *figures.evidence]
    assert [one.query for one in evidence] == [one["query"] for one in world.asked]
    assert [one.samples for one in evidence] == [
        *(3 * 74, 3, 2, 1),
        *(0, 1, 1, 0, 0, 64, 0, 0),
    ]
    assert isinstance(world.observations, list)
    body = json.dumps(answer(world.observations, "matrix")).encode()
    assert observation.evidence[0].sha256 == hashlib.sha256(body).hexdigest()
    assert [one.at for one in evidence] == [at(int(one["time"])) for one in world.asked]


def test_a_closed_and_a_left_open_range_give_the_same_observation() -> None:
    left_open, closed = sound_world(), sound_world()
    for rows, edge in ((closed.observations, FIRST), (closed.devices, START - 120)):
        assert isinstance(rows, list)
        for row in rows:
            row["values"].insert(0, [edge, "1"])
    assert isinstance(closed.devices, list)
    closed.devices[0]["values"].pop(0)
    assert isinstance(left_open.devices, list)
    left_open.devices[0]["values"].pop(0)

    assert observe(closed).pods == observe(left_open).pods
    assert observe(closed).ticks == observe(left_open).ticks
    assert observe(closed).nodes == observe(left_open).nodes
    assert observe_devices(closed).devices == observe_devices(left_open).devices


def test_nothing_seen_at_all_is_an_observation_without_ticks() -> None:
    observation = observe(World())

    assert observation.ticks == ()
    assert (observation.pods, observation.nodes) == ((), ())
    assert observe_devices(World()).devices == ()
    assert observation.expected_ticks == 60


def test_a_terminal_pod_without_a_reported_end_costs_a_query_more() -> None:
    world = sound_world()
    pod = identity("refused-0", "9d2e")
    phase = {**pod, "phase": "Failed"}
    assert isinstance(world.observations, list)
    assert isinstance(world.facts, list)
    world.observations.append(request(pod))
    world.facts += [*facts_of(pod), last("kube_pod_status_phase", phase)]
    world.details = [
        raw("kube_pod_status_phase", phase, "0", [START, START + 60]),
        raw("kube_pod_status_phase", phase, "1", [START + 120, START + 180]),
    ]

    observation = observe(world)

    refused = observation.pods[1]
    assert (refused.finished_at, refused.terminal_seen_at) == (None, at(START + 120))
    assert len(world.asked) == 5
    assert world.asked[2]["query"] == (
        '{__name__=~"kube_pod_status_phase",phase=~"|Succeeded|Failed"}[4440s]'
    )


def test_labels_that_changed_are_settled_by_when_they_were_seen() -> None:
    world = sound_world()
    node = {"node": "gpu-h100-01", **KSM}
    product = "label_nvidia_com_gpu_product"
    before, after = {**node, product: "A100"}, {**node, product: "H100"}
    world.facts = [
        *facts_of(identity(), scheduled=START + 600),
        last("kube_node_labels", before),
        last("kube_node_labels", after),
    ]
    world.details = [
        raw("kube_node_labels", after, times=grid(START + 1200)),
        raw("kube_node_labels", before, times=grid(end=START + 1140)),
    ]

    observation = observe(world)

    assert observation.pods[0].node_labels == {"nvidia_com_gpu_product": "A100"}
    assert observation.nodes[0].labels == {"nvidia_com_gpu_product": "H100"}
    assert "kube_node_labels" in world.asked[2]["query"]


def test_the_connection_is_kept_between_windows() -> None:
    world = sound_world()

    with serving(world) as url:
        source = PrometheusUsageSource()
        for _ in range(2):
            source.observe(
                target_of(url),
                start_at=HOUR,
                end_at=HOUR + timedelta(hours=1),
                as_of=HOUR + timedelta(hours=2),
            )

    assert len(world.asked) == 8


def test_site_names_are_read_as_ours() -> None:
    world = sound_world()
    assert isinstance(world.devices, list)
    labels = world.devices[0]["metric"]
    labels["__name__"] = "site_gpu_busy_percent"
    labels["Host"] = labels.pop("hostname")

    figures = observe_devices(
        world,
        metric_aliases={"DCGM_FI_DEV_GPU_UTIL": ["site_gpu_busy_percent"]},
        label_aliases={"hostname": ["Host"]},
    )

    assert "site_gpu_busy_percent|" in world.asked[2]["query"]
    assert figures.devices[0].node == "gpu-h100-01"
    assert figures.devices[0].busy_ratio == Decimal("0.980000")
