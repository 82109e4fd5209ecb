"""What the parts of a window show together is what one answer about all pods would show."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import NodeLabels
from metering.adapters.prometheus.parts import OfferTrace, PodTrace, settle_parts, trace_frame
from metering.adapters.prometheus.queries import QueryPlan, plan_queries
from metering.domain.collection.parts import Part
from metering.protocols import ClusterTarget, Observation, ScrapeTarget
from metering.protocols.parts import DividingSource, Frame, Settled
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import END, HOUR, SCRAPE, START, grid

TARGET = ClusterTarget(slug="hopper", scrape_interval_seconds=SCRAPE)
KSM = "10.0.0.9:8080"
OTHER = "10.0.0.10:8080"
REST = "![0123456789abcdef]"


def trace(uid: str, **fields: Any) -> PodTrace:  # noqa: ANN401 - Any field.
    """Return what is kept of a pod that was there all the hour."""
    defaults: dict[str, Any] = {
        "namespace": "team-nlp",
        "name": f"pod-{uid}",
        "first": (START - 180) * 1000,
        "last": (END + 600) * 1000,
        "targets": (KSM,),
        "nodes": ("node-1",),
        "created": START - 7200,
        "has_uid": True,
        "has_facts": True,
        "is_bound": True,
        "is_scheduled": True,
    }
    return PodTrace(uid=uid, **{**defaults, **fields})


def offer(node: str = "node-1", target: str = KSM) -> OfferTrace:
    """Return what is kept of a node that was offered all the hour."""
    return OfferTrace(node, target, (START - 180) * 1000, (END + 600) * 1000)


def frame(*offers: OfferTrace, targets: tuple[str, ...] = (KSM,), idle: str = "") -> Frame:
    """Return an hour whose targets were scraped throughout."""
    ticks = tuple(HOUR + timedelta(seconds=at - START) for at in grid())
    observation = Observation(
        cluster="hopper",
        start_at=HOUR,
        end_at=HOUR + timedelta(hours=1),
        as_of=HOUR + timedelta(minutes=70),
        source="prometheus",
        ticks=ticks,
        expected_ticks=3600 // SCRAPE,
        pods=(),
        nodes=(),
        targets=tuple(ScrapeTarget(name, ticks, has_series=name != idle) for name in targets),
    )
    return Frame(observation, trace_frame(offers or (offer(),), NodeLabels({})))


def settled(*parts: list[PodTrace], within: Frame | None = None) -> Settled:
    """Return what some parts show together."""
    traces = [msgspec.msgpack.encode(part) for part in parts]
    return settle_parts(TARGET, frame=within or frame(), traces=traces)


def refused(*parts: list[PodTrace], within: Frame | None = None) -> str:
    """Return why some parts cannot be of one window."""
    with pytest.raises(SourceUnavailableError) as error:
        settled(*parts, within=within)
    return error.value.reason


def test_parts_that_agree_need_nothing_put_right() -> None:
    assert settled([trace("a")], [trace("b")], []) == Settled()


def test_no_pods_at_all_are_no_contradiction() -> None:
    assert settled([], []) == Settled()


def test_the_clock_is_measured_over_the_new_pods_of_all_parts() -> None:
    ahead = 120
    new = [
        trace(
            f"new-{number}",
            created=START + 600 * number + 30,
            first=(START + 600 * number + 30 + ahead) // SCRAPE * SCRAPE * 1000,
        )
        for number in range(1, 5)
    ]

    each = [settled([one]).clock_skew_seconds for one in new]
    together = settled(*([one] for one in new)).clock_skew_seconds

    assert each == [0, 0, 0, 0]
    assert together == settled(new).clock_skew_seconds
    assert together > 60


def test_pods_of_one_name_at_once_contradict_each_other_across_parts() -> None:
    twins = [trace("a", name="same"), trace("b", name="same", first=START * 1000)]

    found = settled([twins[0]], [twins[1], trace("c")])

    assert found.defects == {
        "a": ("Pod b of the same name is shown at the same time.",),
        "b": ("Pod a of the same name is shown at the same time.",),
    }
    assert found == settled([*twins, trace("c")])


def test_a_pod_that_followed_one_of_its_name_is_no_twin() -> None:
    first = trace("a", name="same", last=(START + 600) * 1000)
    second = trace("b", name="same", first=(START + 660) * 1000)

    assert settled([first], [second]).defects == {}


def test_strangers_behind_one_selector_are_refused_across_parts() -> None:
    within = frame(offer(), offer("node-2", OTHER), targets=(KSM, OTHER))
    one = trace("a", name="same")
    other = trace("b", name="same", first=START * 1000, targets=(OTHER,), nodes=("node-2",))

    assert refused([one], [other], within=within) == "two_clusters"


def test_one_node_that_two_targets_show_with_other_pods_is_refused_across_parts() -> None:
    within = frame(offer(), offer(target=OTHER), targets=(KSM, OTHER))

    assert refused([trace("a")], [trace("b", targets=(OTHER,))], within=within) == "two_clusters"


def test_copies_of_an_exporter_that_show_the_same_pods_are_one_cluster() -> None:
    within = frame(offer(), offer(target=OTHER), targets=(KSM, OTHER))
    both = (KSM, OTHER)

    found = settled([trace("a", targets=both)], [trace("b", targets=both)], within=within)

    assert found == Settled()


def test_a_request_without_uid_is_left_out_where_another_part_shows_the_pod() -> None:
    nameless = trace("no-uid-1", name="same", has_uid=False, has_facts=False)

    assert settled([trace("a", name="same")], [nameless]).left_out == {"no-uid-1"}
    assert settled([trace("a")], [nameless]).left_out == frozenset()


def test_requests_of_which_none_carries_a_uid_are_refused() -> None:
    nameless = [trace(f"no-uid-{one}", has_uid=False, has_facts=False) for one in range(3)]

    assert refused([], nameless) == "bad_answer"


def test_pods_most_of_which_have_no_facts_are_refused_together_only() -> None:
    bare = [trace(f"bare-{one}", has_facts=False) for one in range(3)]
    sound = [trace(f"sound-{one}") for one in range(3)]

    assert refused(bare, sound[:2]) == "incomplete_answer"
    assert settled(bare, sound) == Settled()


def test_bound_pods_of_which_none_has_a_time_of_bind_are_refused() -> None:
    unscheduled = [trace(f"pod-{one}", is_scheduled=False) for one in range(2)]

    assert refused(unscheduled[:1], unscheduled[1:]) == "incomplete_answer"
    assert settled(unscheduled, [trace("bound")]) == Settled()


def test_a_target_that_showed_pods_and_is_not_known_to_is_refused() -> None:
    within = frame(targets=(KSM, OTHER), idle=OTHER)

    assert refused([trace("a", targets=(OTHER,))], within=within) == "count_differs"


def plan(part: str | None) -> QueryPlan:
    """Return the queries about a part; None asks about no pods."""
    whole = plan_queries(TARGET, names_of(TARGET), resources="nvidia_.*", jobs=".*ksm.*")
    return replace(whole, part=None if part is None else Part(part))


def test_a_part_asks_about_its_pods_and_no_scrapes_or_offers() -> None:
    query = plan("[0123]").observations(60)

    assert 'uid=~"[0123].*"' in query
    assert "kube_pod_container_resource_requests" in query
    assert "kube_node_status_allocatable" not in query
    assert '|up"' not in query


def test_the_rest_asks_about_what_begins_otherwise() -> None:
    query = plan(REST).observations(60)

    assert 'uid!~"[0123456789abcdef].*"' in query


def test_a_frame_asks_about_no_pods() -> None:
    frame_plan = plan(None)

    assert "kube_pod_container_resource_requests" not in frame_plan.observations(60)
    assert "kube_node_status_allocatable" in frame_plan.observations(60)
    assert "kube_pod_info" not in frame_plan.facts(60)
    assert "kube_node_labels" in frame_plan.facts(60)


def test_facts_of_a_part_are_those_of_its_pods_alone() -> None:
    query = plan("a").facts(60)

    assert query.count('uid=~"a.*"') == 4
    for metric in ("kube_node_labels", "kube_node_status_allocatable", "DCGM"):
        assert metric not in query
        assert metric in plan("").facts(60)


def test_details_of_a_part_include_nodes_which_have_no_uid() -> None:
    assert 'uid=~"|a.*"' in plan("a").details(("kube_node_labels",), 60)
    assert "uid" not in plan("").details(("kube_node_labels",), 60)


def test_all_pods_are_asked_about_as_before() -> None:
    assert "uid=~" not in plan("").observations(60)
    assert "uid=~" not in plan("").facts(60)


@pytest.mark.parametrize("part", ["[0123]", "a", "a[89ab]", REST])
def test_parts_stand_in_queries_as_quoted_text(part: str) -> None:
    beginning = Part(part).beginning

    assert f'~"{beginning}.*"' in plan(part).observations(60)


def test_the_source_answers_in_parts() -> None:
    assert isinstance(PrometheusUsageSource(), DividingSource)
