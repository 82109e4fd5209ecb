"""Nodes: offers, coverage, and the labels at a time."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import (
    Hours,
    covered_seconds,
    label_sets,
    plain_labels,
    read_nodes,
    timed_label_sets,
)
from metering.adapters.prometheus.samples import Fact, Series
from metering.protocols import ClusterTarget

NAMES = names_of(ClusterTarget(slug="hopper"))
HOUR = Hours(start=3_600_000, end=7_200_000, scrape=60_000)
NO_LABELS = label_sets((), NAMES)


def offer(
    times: Sequence[int], value: str = "8", *, node: str = "a", resource: str = "nvidia_com_gpu"
) -> Series:
    labels = {"node": node, "resource": resource}
    return Series(
        "kube_node_status_allocatable", labels, [at * 1000 for at in times], [value] * len(times)
    )


def labelled(node: str, times: Sequence[int] = (), **labels: str) -> Series:
    reported = {"node": node, **{f"label_{key}": value for key, value in labels.items()}}
    return Series("kube_node_labels", reported, [at * 1000 for at in times], ["1"] * len(times))


def as_fact(series: Series) -> Fact:
    return Fact(series.metric, series.labels, "1")


def test_a_node_offers_the_most_that_was_seen_inside_the_window() -> None:
    before, inside, after = offer([3540], "9"), offer([3600, 7140], "8"), offer([7200], "9")

    (node,) = read_nodes([after, before, inside], NO_LABELS, NAMES, HOUR)

    assert node.allocatable == {"nvidia_com_gpu": 8}


def test_an_offer_that_changes_is_counted_for_as_long_as_it_held() -> None:
    whole = offer(range(3540, 5400, 60), "8")
    less = offer(range(5400, 7300, 60), "7")
    one = whole._replace(times=[*whole.times, *less.times], values=[*whole.values, *less.values])

    (node,) = read_nodes([one], NO_LABELS, NAMES, HOUR)

    assert (node.allocatable, node.covered_seconds) == ({"nvidia_com_gpu": 8}, 3600)
    assert node.offered_unit_seconds == {"nvidia_com_gpu": 8 * 1800 + 7 * 1800}


@pytest.mark.parametrize(
    ("step", "phase", "seconds"),
    [(300, 0, 3600), (300, 299, 3600), (900, 0, 3600), (900, 899, 3600), (1200, 0, 3 * 60)],
)
def test_a_sample_holds_until_the_next_one_of_its_series(
    step: int, phase: int, seconds: int
) -> None:
    times = range(3600 - 240 + phase, 7200 + 601, step)

    (node,) = read_nodes([offer(times)], NO_LABELS, NAMES, HOUR)

    assert node.covered_seconds == seconds
    assert node.offered_unit_seconds == {}


def test_copies_that_disagree_count_by_the_larger_one() -> None:
    copies = [offer([3600], "7"), offer([3600], "8"), offer([3600], "6")]

    (node,) = read_nodes(copies, NO_LABELS, NAMES, HOUR)

    assert node.allocatable == {"nvidia_com_gpu": 8}


def test_nodes_come_by_name_with_every_resource() -> None:
    series = [
        offer([3600], "7", node="b"),
        offer([3600], "2", node="b", resource="nvidia_com_mig_1g_10gb"),
        offer([3600], "8", node="a"),
    ]

    nodes = read_nodes(series, NO_LABELS, NAMES, HOUR)

    assert [node.node for node in nodes] == ["a", "b"]
    assert nodes[1].allocatable == {"nvidia_com_gpu": 7, "nvidia_com_mig_1g_10gb": 2}


@pytest.mark.parametrize(
    "series", [offer([3540, 7200]), offer([3600], "0")], ids=["outside the window", "nothing"]
)
def test_a_node_that_offered_nothing_inside_is_left_out(series: Series) -> None:
    assert read_nodes([series], NO_LABELS, NAMES, HOUR) == ()


def test_an_offer_that_cannot_be_believed_is_a_defect_of_its_node() -> None:
    series = [offer([3600], "NaN"), offer([3600], "8", node="b")]

    bad, good = read_nodes(series, NO_LABELS, NAMES, HOUR)

    assert (bad.allocatable, bad.defects) == ({}, ("Its offer of nvidia_com_gpu cannot be 'NaN'.",))
    assert (good.allocatable, good.defects) == ({"nvidia_com_gpu": 8}, ())


def test_series_of_other_metrics_are_passed_over() -> None:
    assert read_nodes([Series("up", {}, [3_600_000], ["1"])], NO_LABELS, NAMES, HOUR) == ()


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([], 0),
        (range(3540, 7261, 60), 3600),
        (range(3640, 7200, 60), 3590),
        ([4000], 60),
        ([3600], 30),
        ([7200], 30),
        ([4000, 4150], 150 + 60),
        ([4000, 4151], 60 + 60),
        ([1000, 9000], 0),
    ],
    ids=[
        "never",
        "throughout",
        "throughout, off the grid",
        "once",
        "once at the start",
        "once after the end",
        "two scrapes missed",
        "a hole",
        "around a hole of the whole window",
    ],
)
def test_coverage_is_what_observations_speak_for(times: Sequence[int], seconds: int) -> None:
    assert covered_seconds([at * 1000 for at in times], HOUR) == seconds


@given(st.sets(st.integers(0, 10_800), max_size=60))
def test_coverage_lies_between_nothing_and_the_window(times: set[int]) -> None:
    assert 0 <= covered_seconds([at * 1000 for at in sorted(times)], HOUR) <= 3600


def test_one_set_of_labels_is_settled_without_times() -> None:
    twice = [as_fact(labelled("a", x="1")), as_fact(labelled("a", x="1"))]
    labels = label_sets([*twice, Fact("kube_pod_info", {"node": "b"}, "1")], NAMES)

    assert labels.is_settled()
    assert labels.nearest("a", 0) == {"x": "1"}
    assert labels.nearest("b", 0) == {}


def test_two_sets_of_labels_need_times() -> None:
    labels = label_sets([as_fact(labelled("a", x="1")), as_fact(labelled("a", x="2"))], NAMES)

    assert not labels.is_settled()


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, "1"), (3700, "1"), (3729, "1"), (3730, "2"), (3731, "2"), (9000, "2")],
)
def test_labels_are_those_of_the_nearest_observation_and_the_later_of_two(
    at: int, value: str
) -> None:
    labels = timed_label_sets(
        [
            labelled("a", [3760, 3820], x="2"),
            labelled("a", [3640], x="1"),
            labelled("a", [3700], x="1"),
        ],
        NAMES,
    )

    assert labels.is_settled()
    assert labels.nearest("a", at * 1000) == {"x": value}


def test_only_the_objects_own_labels_are_kept() -> None:
    assert plain_labels({"node": "a", "label_x": "1", "job": "b", "label_label_y": "2"}) == {
        "x": "1",
        "label_y": "2",
    }
