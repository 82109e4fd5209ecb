"""The history is what Prometheus would hold: every scrape, and holes where it was blind."""

import io
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.exporters.exposition import ClusterExposition
from simulator.cluster.exporters.openmetrics import (
    OBJECT_FAMILIES,
    SLICE_SECONDS,
    HistorySlice,
    HistoryWriter,
    history_slices,
)
from simulator.cluster.exporters.scraping import DROPPED_LABELS, scrape_configs
from simulator.cluster.scenario import Outage, OutageKind, Scenario
from tests.simulator.conftest import MONTH, SEED
from tests.support.simulator.parsing import Line, named, read_lines

BUSY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
PART = HistorySlice(MONTH, MONTH + timedelta(hours=4))
BLIND = Outage(MONTH + timedelta(hours=1), MONTH + timedelta(hours=1, minutes=25))
DOWN = Outage(
    MONTH + timedelta(hours=3), MONTH + timedelta(hours=3, minutes=6), OutageKind.EXPORTERS
)


@pytest.fixture(scope="module")
def world() -> Scenario:
    return demo_scenario(SEED, MONTH, MONTH + timedelta(hours=5), outages=(BLIND, DOWN))


@pytest.fixture(scope="module")
def text(world: Scenario) -> str:
    out = io.BytesIO()
    HistoryWriter(world).write(PART, out)
    return out.getvalue().decode()


@pytest.fixture(scope="module")
def lines(text: str) -> list[Line]:
    return list(read_lines(text))


def seconds(at: datetime) -> int:
    return int(at.timestamp())


def test_it_ends_as_openmetrics_must(text: str) -> None:
    assert text.endswith("\n# EOF\n")
    assert text.count("# EOF") == 1


def test_the_figures_are_those_of_the_text(world: Scenario, lines: list[Line], text: str) -> None:
    figures = HistoryWriter(world).write(PART, io.BytesIO())

    assert figures.samples == len(lines)
    assert figures.size_bytes == len(text.encode())


def test_every_family_stands_together_and_is_typed(text: str, lines: list[Line]) -> None:
    typed = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE")]
    order = list(dict.fromkeys(line.name for line in lines))

    assert [name for name, _ in typed] == [*OBJECT_FAMILIES, BUSY, ENERGY, "up"]
    assert set(order) <= {name for name, _ in typed}
    assert [line.name for line in lines] == sorted([line.name for line in lines], key=order.index)
    assert all(kind != "counter" for name, kind in typed if not name.endswith("_total"))


def test_every_series_goes_forward_in_time(lines: list[Line]) -> None:
    last: defaultdict[tuple[str, frozenset[tuple[str, str]]], int] = defaultdict(int)
    for line in lines:
        assert line.second is not None
        key = (line.name, frozenset(line.labels))
        assert last[key] < line.second
        last[key] = line.second


def test_samples_are_on_the_scrapes_of_their_cluster(world: Scenario, lines: list[Line]) -> None:
    for cluster in world.clusters:
        ticks = {seconds(at) for at in cluster.ticks(PART.begin_at, PART.end_at)}
        found = {
            line.second for line in lines if line["cluster"] == cluster.slug and line.name != "up"
        }
        assert found == ticks


def test_a_blind_prometheus_leaves_nothing_and_a_dead_exporter_a_zero(
    lines: list[Line],
) -> None:
    ups = [line for line in lines if line.name == "up" and line["cluster"] == "hopper"]
    blind = [line for line in ups if BLIND.covers(datetime.fromtimestamp(line.second or 0, UTC))]
    down = [line for line in ups if DOWN.covers(datetime.fromtimestamp(line.second or 0, UTC))]

    assert blind == []
    assert {line.value for line in down} == {"0"}
    assert len(down) == 6
    assert {line["job"] for line in ups} == {"kube-state-metrics", "dcgm-exporter"}
    assert len(ups) == 2 * (120 - 13)


def test_history_and_live_exposition_tell_the_same(world: Scenario, lines: list[Line]) -> None:
    for cluster in world.clusters:
        at = cluster.ticks(MONTH + timedelta(hours=2), PART.end_at)[3]
        exposition = ClusterExposition(cluster)
        live = exposition.kube_state_metrics_text(at) + exposition.dcgm_text(at)
        kept = {*OBJECT_FAMILIES, BUSY, ENERGY}
        expected = {
            (line.name, line["uid"], line["UUID"], line["GPU_I_ID"], line["resource"],
             line["phase"], line["node"], line.value)
            for line in read_lines(live)
            if line.name in kept and line["phase"] in {"", "Succeeded", "Failed"}
        }  # fmt: skip
        found = {
            (line.name, line["uid"], line["UUID"], line["GPU_I_ID"], line["resource"],
             line["phase"], line["node"], line.value)
            for line in lines
            if line["cluster"] == cluster.slug
            and line.second == seconds(at)
            and line.name != "up"
        }  # fmt: skip
        assert found == expected


def test_a_series_ends_with_its_object(world: Scenario, lines: list[Line]) -> None:
    cluster = world.cluster("ampere")
    observations: defaultdict[str, list[int]] = defaultdict(list)
    for line in lines:
        if line.name == "kube_pod_info":
            observations[line["uid"]].append(line.second or 0)
    ticks = cluster.ticks(PART.begin_at, PART.end_at)
    for pod in cluster.pods:
        assert sorted(set(observations[pod.uid])) == [seconds(at) for at in ticks if pod.exists(at)]


def test_device_series_carry_the_exporters_names_and_the_workloads_as_exported(
    lines: list[Line],
) -> None:
    line = next(one for one in lines if one.name == BUSY and one["exported_pod"])

    assert (line["namespace"], line["pod"]) == ("gpu-operator", "nvidia-dcgm-exporter")
    assert line["exported_namespace"]
    assert line["exported_container"]
    assert (line["job"], line["instance"]) == ("dcgm-exporter", f"{line['cluster']}:9400")
    assert not set(line.keys) & set(DROPPED_LABELS)


def test_object_series_keep_their_own_names(lines: list[Line]) -> None:
    line = next(one for one in lines if one.name == "kube_pod_info")

    assert (line["job"], line["instance"]) == ("kube-state-metrics", f"{line['cluster']}:8080")
    assert line["pod"] != "kube-state-metrics"
    assert not set(line.keys) & set(DROPPED_LABELS)


def test_slices_beside_each_other_are_the_whole(world: Scenario, lines: list[Line]) -> None:
    middle = MONTH + timedelta(hours=1, minutes=51)
    writer = HistoryWriter(world)
    parts = []
    for part in (HistorySlice(MONTH, middle), HistorySlice(middle, PART.end_at)):
        out = io.BytesIO()
        writer.write(part, out)
        parts += list(read_lines(out.getvalue().decode()))

    assert set(parts) == set(lines)
    assert len(parts) == len(lines)


def test_slices_begin_on_block_boundaries() -> None:
    slices = history_slices(MONTH, MONTH + timedelta(days=31))

    assert slices[0].begin_at == MONTH
    assert slices[-1].end_at == MONTH + timedelta(days=31)
    for earlier, later in pairwise(slices):
        assert earlier.end_at == later.begin_at
        assert seconds(later.begin_at) % SLICE_SECONDS == 0
    assert len(slices) == 6


@pytest.mark.parametrize("length", [timedelta(seconds=1), timedelta(hours=162)])
def test_a_history_within_a_block_is_one_slice(length: timedelta) -> None:
    begin = datetime.fromtimestamp(SLICE_SECONDS * 3068, UTC)

    assert history_slices(begin, begin + length) == (HistorySlice(begin, begin + length),)


def test_no_time_is_no_slice() -> None:
    assert history_slices(MONTH, MONTH) == ()


def series_of(lines: list[Line]) -> dict[tuple[str, frozenset[tuple[str, str]], str], list[int]]:
    """Return the seconds of each series and value, in order."""
    found: defaultdict[tuple[str, frozenset[tuple[str, str]], str], list[int]] = defaultdict(list)
    for line in lines:
        found[line.name, frozenset(line.labels), line.value].append(line.second or 0)
    return dict(found)


def test_a_sparse_history_has_every_sample_that_a_meter_reads(
    world: Scenario, lines: list[Line]
) -> None:
    out = io.BytesIO()
    HistoryWriter(world, is_sparse=True).write(PART, out)
    sparse = series_of(list(read_lines(out.getvalue().decode())))
    whole = series_of(lines)
    counted = {"up", BUSY, ENERGY, "kube_node_status_allocatable"}

    assert sum(map(len, sparse.values())) < 0.6 * len(lines)
    for key, seconds_of in whole.items():
        name, _, value = key
        if name == "kube_pod_status_phase" and value == "0":
            assert key not in sparse
        elif name in counted or name.endswith("resource_requests"):
            assert sparse[key] == seconds_of
        else:
            # The last value of any range is the same, and an instant query finds the series.
            assert (sparse[key][0], sparse[key][-1]) == (seconds_of[0], seconds_of[-1])
            left_out = [at for at in seconds_of if at not in sparse[key]]
            assert not any(is_next(seconds_of, pair) for pair in pairwise(left_out))
    assert sparse.keys() <= whole.keys()


def is_next(seconds_of: list[int], pair: tuple[int, int]) -> bool:
    """Whether two samples of a series are of neighbouring scrapes."""
    return seconds_of.index(pair[1]) == seconds_of.index(pair[0]) + 1


def test_energy_never_falls(lines: list[Line]) -> None:
    by_device: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        if line.name == ENERGY:
            key = (line["UUID"], line["GPU_I_ID"])
            by_device[key].append((line.second or 0, int(line.value)))
    for samples in by_device.values():
        ordered = [value for _, value in sorted(samples)]
        assert ordered == sorted(ordered)


def test_a_prometheus_is_reported_to_scrape_in_the_same_shape(world: Scenario, text: str) -> None:
    configs = scrape_configs(world.clusters, "127.0.0.1:9400")

    by_job = {str(one["job_name"]): one for one in configs}
    assert by_job.keys() == {
        f"{slug}-{job}"
        for slug in ("hopper", "ampere")
        for job in ("kube-state-metrics", "dcgm-exporter")
    }
    objects, devices = by_job["hopper-kube-state-metrics"], by_job["hopper-dcgm-exporter"]
    assert (objects["honor_labels"], devices["honor_labels"]) == (True, False)
    assert objects["scrape_interval"] == "120s"
    assert objects["metrics_path"] == "/hopper/kube-state-metrics/metrics"
    static = devices["static_configs"]
    assert isinstance(static, list)
    up = named(text, "up", job="dcgm-exporter", cluster="hopper")[0]
    assert static[0]["labels"] == dict(up.labels)


def test_the_interval_of_a_live_prometheus_may_be_another(world: Scenario) -> None:
    configs = scrape_configs(world.clusters, "127.0.0.1:9400", interval_seconds=5)

    assert {one["scrape_interval"] for one in configs} == {"5s"}
