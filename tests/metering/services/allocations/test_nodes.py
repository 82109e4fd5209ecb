"""Nodes have a history: a new row only when the offer, the labels or the health changed."""

from metering.models import NodeRecord
from metering.protocols.watch import WatchedKind
from tests.support.metering.allocations.states import (
    GPU,
    H100,
    Watching,
    deleted,
    event,
    reported_node,
    second_of,
)


def history(
    node: str = "node-1",
) -> list[tuple[int | None, int | None, bool, bool, dict[str, int]]]:
    return [
        (
            second_of(row.begin_at),
            second_of(row.end_at),
            row.is_ready,
            row.is_schedulable,
            row.allocatable,
        )
        for row in NodeRecord.objects.filter(node=node).order_by("begin_at", "id")
    ]


def test_a_heartbeat_of_a_node_is_no_news(watching: Watching) -> None:
    done = watching.tell(event(reported_node(resource_version="2"), 10))

    assert history() == [(-60, None, True, True, {GPU: 8})]
    assert (done.states, done.opened, done.closed) == (1, 0, 0)


def test_every_change_that_matters_begins_a_row(watching: Watching) -> None:
    watching.tell(event(reported_node(is_ready=False), 10))
    watching.tell(event(reported_node(is_schedulable=False), 20))
    watching.tell(event(reported_node(allocatable={GPU: 7}), 30))
    watching.tell(event(reported_node(allocatable={GPU: 7}, labels={"other": "x", **H100}), 40))
    watching.tell(event(reported_node(allocatable={GPU: 7}, labels={}), 50))

    assert history() == [
        (-60, 10, True, True, {GPU: 8}),
        (10, 20, False, True, {GPU: 8}),
        (20, 30, True, False, {GPU: 8}),
        (30, 50, True, True, {GPU: 7}),
        (50, None, True, True, {GPU: 7}),
    ]


def test_whom_a_node_is_dedicated_to_is_kept_and_other_labels_are_not(watching: Watching) -> None:
    ours, rollout = "gpu-ledger.io/dedicated-to", "nvidia.com/gpu.deploy.driver"
    watching.tell(
        event(reported_node(labels={**H100, ours: "acme", "zone": "a", rollout: "true"}), 10)
    )

    assert NodeRecord.objects.get(end_at=None).labels == {**H100, ours: "acme"}


def test_of_several_states_in_a_batch_the_last_one_stands(watching: Watching) -> None:
    watching.tell(event(reported_node(is_ready=False), 10), event(reported_node(), 11))

    assert history() == [(-60, None, True, True, {GPU: 8})]


def test_a_deleted_node_ends_and_its_successor_begins_anew(watching: Watching) -> None:
    watching.tell(deleted(reported_node(), 10))
    watching.tell(event(reported_node(uid="new"), 20))

    assert history() == [(-60, 10, True, True, {GPU: 8}), (20, None, True, True, {GPU: 8})]
    assert NodeRecord.objects.order_by("-begin_at")[0].node_uid == "new"


def test_a_node_that_was_replaced_under_its_name_begins_anew(watching: Watching) -> None:
    watching.tell(event(reported_node(uid="new"), 20))

    assert [row[:2] for row in history()] == [(-60, 20), (20, None)]


def test_a_node_without_gpus_is_none_of_ours(watching: Watching) -> None:
    watching.tell(event(reported_node("cpu", labels={"a": "b"}, allocatable={}), 10))

    assert history("cpu") == []


def test_a_node_that_lost_its_gpus_says_so(watching: Watching) -> None:
    watching.tell(event(reported_node(labels={}, allocatable={}), 10))

    assert history() == [(-60, 10, True, True, {GPU: 8}), (10, None, True, True, {})]


def test_a_node_that_is_not_in_a_list_was_there_until_the_last_heartbeat(
    watching: Watching,
) -> None:
    watching.beat(20)
    done = watching.list(3600, reported_node("node-2"))

    assert history() == [(-60, 20, True, True, {GPU: 8})]
    assert history("node-2") == [(3600, None, True, True, {GPU: 8})]
    assert (done.opened, done.closed) == (1, 1)


def test_an_empty_list_of_nodes_ends_them_all(watching: Watching) -> None:
    done = watching.list(3600, kind=WatchedKind.NODES)

    assert (done.opened, done.closed) == (0, 1)


def test_a_clock_that_went_back_makes_no_row_that_ends_before_it_begins(
    watching: Watching,
) -> None:
    watching.tell(event(reported_node(is_ready=False), -100))

    assert history() == [(-60, -60, True, True, {GPU: 8}), (-60, None, False, True, {GPU: 8})]
