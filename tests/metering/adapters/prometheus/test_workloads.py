"""Workloads: who a device's series belong to, however its labels clash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.devices.columns import (
    Column,
    Exporters,
    Workload,
    merged,
    read_exporters,
    runs_of,
)
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Fact
from metering.protocols import ClusterTarget

NAMES = names_of(ClusterTarget(slug="hopper"))
OWN = {
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-7hx2p",
    "container": "nvidia-dcgm-exporter",
}
EXPORTERS = Exporters(frozenset({("gpu-operator", "nvidia-dcgm-exporter-7hx2p")}))


def serving(pod: str) -> dict[str, str]:
    return {
        "exported_namespace": "team-nlp",
        "exported_pod": pod,
        "exported_container": "main",
    }


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({**OWN, **serving("a")}, ("team-nlp", "a")),
        (OWN, ("", "")),
        ({"namespace": "team-nlp", "pod": "a", "container": "main"}, ("team-nlp", "a")),
        ({"namespace": "team-nlp", "pod": "a", "container": "exporter"}, ("team-nlp", "a")),
        ({"pod_namespace": "team-nlp", "pod_name": "a", **OWN}, ("team-nlp", "a")),
        ({}, ("", "")),
        ({"namespace": "team-nlp"}, ("", "")),
        ({"pod": "a"}, ("", "")),
    ],
    ids=[
        "honor_labels false, busy",
        "idle, either way",
        "honor_labels true, busy",
        "honor_labels true, a tenant's own exporter",
        "old namespace names",
        "no labels",
        "no pod",
        "no namespace",
    ],
)
def test_who_a_series_belongs_to(labels: dict[str, str], expected: tuple[str, str]) -> None:
    assert EXPORTERS.workload(labels, NAMES) == expected


def test_without_up_of_the_exporter_its_container_shows_it() -> None:
    unknown = Exporters(frozenset())

    assert unknown.workload(OWN, NAMES) == ("", "")
    assert unknown.workload({**OWN, "container": "main"}, NAMES) == (OWN["namespace"], OWN["pod"])


def test_exporters_are_the_targets_that_carry_a_pod() -> None:
    facts = [
        Fact("up", {"namespace": "gpu-operator", "pod": "x"}, "1"),
        Fact("up", {"instance": "y"}, "1"),
        Fact("kube_pod_info", {"namespace": "n", "pod": "p"}, "1"),
    ]

    assert read_exporters(facts).pods == frozenset({("gpu-operator", "x")})


@given(
    st.lists(
        st.tuples(st.sampled_from([("", ""), ("team-nlp", "a"), ("team-nlp", "b")]), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_series_one_after_another_tell_the_same_runs_as_their_samples_one_by_one(
    scrapes: list[tuple[Workload, bool]],
) -> None:
    hours = Hours(start=60_000, end=1_800_000, scrape=60_000)
    series: list[tuple[Workload, list[int]]] = []
    for number, (workload, is_seen) in enumerate(scrapes):
        if is_seen and series and series[-1][0] == workload:
            series[-1][1].append(number * 60_000)
        elif is_seen:
            series.append((workload, [number * 60_000]))
    # A second metric that skips a scrape overlaps the first, so that each sample is looked at.
    thinned = [(workload, times[1:-1]) for workload, times in series if len(times) > 2]

    if series:
        assert list(runs_of(series, hours)) == list(runs_of([*series, *thinned], hours))


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30, unique=True), st.data())
def test_columns_one_after_another_are_one_column(times: list[int], data: st.DataObject) -> None:
    whole = Column(sorted(times), [at * 7 for at in sorted(times)])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(times)))) | {len(times)})
    parts = [
        Column(whole.times[begin:end], whole.values[begin:end])
        for begin, end in zip([0, *cuts], cuts, strict=False)
    ]

    joined = merged(data.draw(st.permutations(parts)))

    assert list(joined.times) == whole.times
    assert list(joined.values) == whole.values
