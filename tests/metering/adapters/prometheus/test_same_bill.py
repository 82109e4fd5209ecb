"""The same bill however the same pods were scraped: twice, restarted, sharded, relabelled.

Each disturbance is what a real installation does to series without anything having happened to the
pods; whatever of them is combined, lives and units come out as from one without faults exporter.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.allocations.timeline import EndKind, clip, life_of
from metering.domain.catalogue.units import effective_units
from metering.protocols import Observation
from metering.services.collection.observing import scrapes_of
from tests.support.metering.prometheus import (
    ASKED,
    END,
    FIRST,
    HOUR,
    KSM,
    SCRAPE,
    START,
    Row,
    World,
    facts_of,
    grid,
    identity,
    last,
    raw,
    request,
    serving,
    target_of,
    up,
)

SOURCE = PrometheusUsageSource()
NEW_INSTANCE = "10.0.0.10:8080"


@dataclass(frozen=True)
class Life:
    """One pod: bound, and gone or finished at a second; `finished_at` 0 for one that did not."""

    uid: str
    name: str
    bound_at: int
    gone_at: int = ASKED + 1
    finished_at: int = 0
    units: str = "1"


LIVES = (
    Life("open", "llm-train-0", START - 7200, units="8"),
    Life("begins", "eval-0", START + 1234),
    Life("finishes", "job-a", START - 60, finished_at=START + 1801, units="2"),
    Life("first", "reused-0", START - 3600, gone_at=START + 900),
    Life("second", "reused-0", START + 905, gone_at=START + 2000),
    Life("brief", "sweep-7", START + 2403, gone_at=START + 2403 + SCRAPE),
    # Without it a shard may carry nothing when it goes, and nothing says what replaced it.
    Life("stays", "llm-train-1", START - 7200),
)


def expected_rows() -> World:
    """Return the lives as one exporter, scraped by one Prometheus, shows them."""
    node = {"node": "gpu-h100-01", **KSM}
    offered = {**node, "resource": "nvidia_com_gpu", "unit": "integer"}
    world = World(
        observations=[up(), raw("kube_node_status_allocatable", offered, "16")],
        facts=[last("kube_node_labels", {**node, "label_a": "b"})],
    )
    for life in LIVES:
        pod = identity(life.name, life.uid)
        seen = [at for at in grid() if life.bound_at <= at < life.gone_at]
        world.observations.append(request(pod, life.units, times=seen))  # type: ignore[union-attr]
        world.facts += facts_of(pod, scheduled=life.bound_at)  # type: ignore[operator]
        if life.finished_at:
            world.facts += [
                last("kube_pod_status_phase", {**pod, "phase": "Succeeded"}),
                last("kube_pod_completion_time", pod, str(life.finished_at)),
            ]
    return world


def each(world: World, change: Callable[[Row], list[Row]]) -> World:
    """Return a world in which every series has become some."""
    assert isinstance(world.observations, list)
    assert isinstance(world.facts, list)
    return World(
        observations=[one for row in world.observations for one in change(row)],
        facts=[one for row in world.facts for one in change(row)],
    )


def labelled(row: Row, **labels: str) -> Row:
    return {**row, "metric": {**row["metric"], **labels}}


def cut(row: Row, at: int, **labels: str) -> list[Row]:
    """Return a series that goes on under other labels; facts are reported by both."""
    if "value" in row:
        return [row, labelled(row, **labels)]
    before = [sample for sample in row["values"] if sample[0] < at]
    after = [sample for sample in row["values"] if sample[0] >= at]
    parts = [{**row, "values": before}, {**labelled(row, **labels), "values": after}]
    return [part for part in parts if part["values"]]


def by_two_replicas(world: World, _: int) -> World:
    """Two copies of Prometheus behind one Thanos, each with its own label."""
    return each(world, lambda row: [labelled(row, prometheus_replica=name) for name in ("a", "b")])


def restarted(world: World, at: int) -> World:
    """kube-state-metrics comes back as another pod with another address."""
    return each(world, lambda row: cut(row, at, instance=NEW_INSTANCE))


def relabelled(world: World, at: int) -> World:
    """Labels that nobody joins on change, as an IP address or a chart's version does."""
    return each(world, lambda row: cut(row, at, pod_ip="10.42.0.9", helm_sh_chart="ksm-5.1"))


def overlapping(world: World, at: int) -> World:
    """A rolling restart: old and new exporter show the same pods for five minutes."""

    def both(row: Row) -> list[Row]:
        parts = cut(row, at, instance=NEW_INSTANCE)
        if "value" not in row:
            begun = [sample for sample in row["values"] if at - 300 <= sample[0]]
            parts = [
                {**row, "values": [sample for sample in row["values"] if sample[0] < at]},
                {**labelled(row, instance=NEW_INSTANCE), "values": begun},
            ]
        return [part for part in parts if part.get("values") or "value" in part]

    return each(world, both)


def sharded(world: World, _: int) -> World:
    """Two exporters share the pods by uid; both have an `up`, nodes are the first one's."""

    def placed(row: Row) -> list[Row]:
        labels = row["metric"]
        if labels["__name__"] == "up":
            return [row, labelled(row, instance="10.0.0.11:8080")]
        is_second = len(labels.get("uid", "")) % 2 == 1
        return [labelled(row, instance="10.0.0.11:8080")] if is_second else [row]

    return each(world, placed)


DISTURBANCES = (by_two_replicas, restarted, relabelled, overlapping, sharded)
Bill = Mapping[str, tuple[datetime, datetime, EndKind, int]]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[World, str]]:
    """Serve one world for all examples; each puts its own rows into it."""
    world = World()
    with serving(world) as url:
        yield world, url


def seen_in(served: tuple[World, str], shown: World) -> Observation:
    world, url = served
    vars(world).update(vars(shown))
    return SOURCE.observe(
        target_of(url),
        start_at=HOUR,
        end_at=HOUR + timedelta(hours=1),
        as_of=HOUR + timedelta(hours=2),
    )


def billed(observation: Observation) -> Bill:
    """Return what each pod held in the hour: begin, end, how the end is known, units."""
    found = {}
    scrapes = scrapes_of(observation)
    for pod in observation.pods:
        life = life_of(
            pod,
            ticks=scrapes.ticks_for(pod.targets),
            scrape_interval_seconds=SCRAPE,
            observed_until=scrapes.last_tick,
        )
        assert life is not None
        part = clip(life, start_at=observation.start_at, end_at=observation.end_at)
        if part is not None:
            units = effective_units(pod.requests)
            found[pod.uid] = (part.begin_at, part.end_at, part.end_kind, units)
    return found


def test_in_one_snapshot_the_bill_is_what_truly_was(served: tuple[World, str]) -> None:
    bill = billed(seen_in(served, expected_rows()))

    def at(seconds: int) -> datetime:
        return HOUR + timedelta(seconds=seconds)

    half = SCRAPE // 2
    assert bill == {
        "open": (at(0), at(3600), EndKind.OPEN, 8),
        "stays": (at(0), at(3600), EndKind.OPEN, 1),
        "begins": (at(1234), at(3600), EndKind.OPEN, 1),
        "finishes": (at(0), at(1801), EndKind.EXACT, 2),
        "first": (at(0), at(900 - SCRAPE + half), EndKind.VANISHED, 1),
        "second": (at(905), at(1980 + half), EndKind.VANISHED, 1),
        "brief": (at(2403), at(2460 + half), EndKind.VANISHED, 1),
    }


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(DISTURBANCES), st.integers(FIRST + SCRAPE, ASKED)),
        min_size=1,
        max_size=4,
        unique_by=lambda one: one[0],
    )
)
def test_the_bill_does_not_depend_on_how_pods_were_scraped(
    served: tuple[World, str],
    disturbances: list[tuple[Callable[[World, int], World], int]],
) -> None:
    whole = seen_in(served, expected_rows())

    disturbed = seen_in(
        served, reduce(lambda world, one: one[0](world, one[1]), disturbances, expected_rows())
    )

    assert billed(disturbed) == billed(whole)
    assert disturbed.ticks == whole.ticks
    for one, other in ((disturbed.nodes, whole.nodes), (disturbed.pods, whole.pods)):
        assert [structs.replace(seen, targets=()) for seen in one] == [
            structs.replace(seen, targets=()) for seen in other
        ]


@pytest.mark.parametrize("late", [1, SCRAPE // 3, SCRAPE // 2, SCRAPE - 1])
def test_a_copy_that_scrapes_at_other_moments_moves_only_ends_that_nobody_reported(
    served: tuple[World, str], late: int
) -> None:
    whole = billed(seen_in(served, expected_rows()))

    def twice(row: Row) -> list[Row]:
        if "value" in row:
            return [row, labelled(row, prometheus_replica="b")]
        later = [[at + late, value] for at, value in row["values"] if at + late <= ASKED]
        return [row, {**labelled(row, prometheus_replica="b"), "values": later}]

    both = billed(seen_in(served, each(expected_rows(), twice)))

    assert both.keys() == whole.keys()
    for uid, (begin_at, end_at, kind, units) in whole.items():
        moved = both[uid]
        assert (moved[0], moved[2], moved[3]) == (begin_at, kind, units)
        slack = timedelta(seconds=SCRAPE if kind is EndKind.VANISHED else 0)
        assert abs(moved[1] - end_at) <= slack


def test_a_whole_hour_of_gpus_is_billed_whole_through_a_restart(
    served: tuple[World, str],
) -> None:
    observation = seen_in(served, restarted(expected_rows(), (START + END) // 2))

    begin_at, end_at, _, units = billed(observation)["open"]

    assert units * ((end_at - begin_at) // timedelta(seconds=1)) == 8 * 3600
