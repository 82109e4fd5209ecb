"""A complete list settles who is there; who is not has ended within a bound that is reported."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.models import PodAllocation, QueuedPod
from metering.protocols.watch import Change, ListPage, WatchedKind, WatchExpiredError
from metering.selectors.allocations.watch import cursor_of
from metering.services.allocations.lists import ledger_list
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tests.support.builders import make_cluster
from tests.support.metering.allocations.states import (
    GPU,
    Watching,
    deleted,
    ends,
    event,
    pages,
    reported_node,
    reported_pod,
    second_of,
)
from tests.support.metering.allocations.watched import label_set
from tests.support.metering.seen import ACTOR, moment


def test_a_new_pod_opens_from_its_own_times(cluster: Cluster, watching: Watching) -> None:
    done = watching.list(3600, reported_pod(bound=100), reported_pod("b", bound=200), version="7")

    assert ends() == [("b", 200, None, "open", 0), ("uid-1", 100, None, "open", 0)]
    assert (done.states, done.opened, done.closed, done.resource_version) == (2, 2, 0, "7")
    assert cursor_of(cluster.id, WatchedKind.PODS) == "7"


def test_a_finished_pod_in_a_list_ends_exactly(watching: Watching) -> None:
    watching.list(3600, reported_pod(finished=50))

    assert ends() == [("uid-1", 0, 50, "exact", 0)]


def test_a_pod_that_is_gone_ended_after_the_last_heartbeat(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.beat(20)
    done = watching.list(3600)

    assert ends() == [("uid-1", 0, 20, "vanished_in_gap", 3580)]
    assert done.closed == 1
    assert second_of(QueuedPod.objects.get().gone_at) == 20


def test_a_pod_that_cannot_be_read_in_a_list_is_still_there(watching: Watching) -> None:
    unreadable = replace(
        reported_pod(), node="", phase="", requests=(), scheduled_at=None, defects=("No.",)
    )
    watching.list(300, reported_pod(), reported_pod("b"))

    watching.list(900, unreadable, reported_pod("b"))

    assert ends() == [("b", 0, None, "open", 0), ("uid-1", 0, None, "open", 0)]
    assert QueuedPod.objects.get(pod_uid="uid-1").defects == ["No."]


def test_a_pod_bound_after_the_last_heartbeat_is_bounded_by_its_bind(watching: Watching) -> None:
    watching.tell(event(reported_pod(bound=12), 14))
    watching.list(600)

    assert ends() == [("uid-1", 12, 14, "vanished_in_gap", 586)]


def test_the_list_before_counts_as_a_observation(watching: Watching) -> None:
    watching.list(300, reported_pod())
    watching.list(900)

    assert ends() == [("uid-1", 0, 300, "vanished_in_gap", 600)]


def test_a_pod_in_a_terminal_phase_without_a_time_is_bounded_like_one_that_is_gone(
    watching: Watching,
) -> None:
    watching.list(300, reported_pod())
    watching.list(900, reported_pod(phase="Failed", reason="NodeLost"))

    assert ends() == [("uid-1", 0, 300, "vanished_in_gap", 600)]


def test_a_late_exact_end_replaces_a_bound_and_the_next_list_keeps_it(watching: Watching) -> None:
    watching.list(300, reported_pod())
    watching.list(900)
    watching.tell(deleted(reported_pod(finished=700), 905))
    watching.list(1000)

    assert ends() == [("uid-1", 0, 700, "exact", 0)]


def test_the_same_list_again_changes_nothing(watching: Watching) -> None:
    pods = [
        reported_pod(),
        reported_pod("b", finished=20),
        reported_pod("c", bound=None, phase="Pending"),
    ]
    watching.list(100, *pods)
    before = [
        list(table.objects.order_by("pod_uid").values()) for table in (PodAllocation, QueuedPod)
    ]
    done = watching.list(160, *pods)

    assert (done.opened, done.closed) == (0, 0)
    assert before == [
        list(table.objects.order_by("pod_uid").values()) for table in (PodAllocation, QueuedPod)
    ]


def test_an_event_from_before_the_list_brings_nobody_back(watching: Watching) -> None:
    watching.list(300, reported_pod())
    watching.list(310)
    watching.tell(event(reported_pod(), 311, Change.MODIFIED))

    assert ends() == [("uid-1", 0, 300, "vanished_in_gap", 10)]


def test_anyone_who_is_in_a_list_was_wrongly_given_up(cluster: Cluster, watching: Watching) -> None:
    PodAllocation.objects.create(
        **prometheus_row(cluster), end_at=moment(60), end_kind="vanished_in_gap"
    )
    watching.list(900, reported_pod(bound=3))

    assert ends() == [("uid-1", 0, None, "open", 0)]


def test_a_list_that_still_shows_a_pod_on_a_lost_node_takes_no_policy_back(
    watching: Watching,
) -> None:
    watching.tell(event(reported_pod(deletion=40), 5))
    watching.tell(event(reported_node(is_ready=False), 50))
    watching.beat(400)
    watching.list(900, reported_pod(deletion=40))

    assert ends() == [("uid-1", 0, 340, "vanished", 0)]


def test_a_deletion_that_came_after_the_list_was_taken_is_not_taken_back(
    watching: Watching,
) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.tell(deleted(reported_pod(), 600))
    watching.list(590, reported_pod())

    assert ends() == [("uid-1", 0, 5, "vanished_in_gap", 595)]
    assert second_of(QueuedPod.objects.get().gone_at) == 600


def prometheus_row(cluster: Cluster) -> dict[str, object]:
    """Return an allocation as collecting from Prometheus leaves it."""
    return {
        "cluster": cluster,
        "pod_uid": "uid-1",
        "resource": GPU,
        "namespace": "team-nlp",
        "pod_name": "pod-uid-1",
        "node": "node-1",
        "units": 1,
        "size": "large",
        "price_group": "H100/whole",
        "sharing_mode": "whole",
        "catalogue_version": 1,
        "label_set": label_set({"nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3"}),
        "begin_at": moment(0),
        "last_seen_at": moment(30),
    }


def test_the_api_takes_over_the_end_of_what_prometheus_opened(
    cluster: Cluster, watching: Watching
) -> None:
    PodAllocation.objects.create(**prometheus_row(cluster))
    watching.list(600, reported_pod(bound=3))
    watching.tell(event(reported_pod(bound=3, finished=620), 625))

    row = PodAllocation.objects.get()
    assert (row.source, row.owner, row.controller, row.priority) == (
        "prometheus",
        "",
        "Job/train",
        10,
    )
    assert ends() == [("uid-1", 0, 620, "exact", 0)]
    assert second_of(QueuedPod.objects.get().bound_at) == 3


def test_what_prometheus_alone_has_open_ends_with_a_list_that_does_not_show_it(
    cluster: Cluster, watching: Watching
) -> None:
    PodAllocation.objects.create(**prometheus_row(cluster))
    watching.list(600)

    assert ends() == [("uid-1", 0, 30, "vanished_in_gap", 570)]


def test_a_observation_after_the_list_is_not_ended_by_it(
    cluster: Cluster, watching: Watching
) -> None:
    row = {**prometheus_row(cluster), "last_seen_at": moment(700)}
    PodAllocation.objects.create(**row)
    watching.list(600)

    assert ends() == [("uid-1", 0, None, "open", 0)]


def test_another_clusters_pods_are_left_alone(cluster: Cluster, watching: Watching) -> None:
    other = make_cluster("ampere")
    PodAllocation.objects.create(**{**prometheus_row(cluster), "cluster": other})
    watching.list(600)

    assert ends() == [("uid-1", 0, None, "open", 0)]


def test_a_pod_that_was_reported_twice_counts_once(watching: Watching) -> None:
    done = watching.list(100, reported_pod(), reported_pod("b"), reported_pod(finished=50))

    assert done.states == 2
    assert ends() == [("b", 0, None, "open", 0), ("uid-1", 0, 50, "exact", 0)]


def test_an_empty_list_is_a_list(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))

    assert watching.list(100).closed == 1


def breaking_off(parts: tuple[ListPage, ...], error: Exception | None) -> Iterator[ListPage]:
    yield from parts
    if error is not None:
        raise error


EXPIRED = WatchExpiredError("continue token")
BROKEN = [
    ((), None, SourceUnavailableError),
    (tuple(pages([reported_pod("b")])), EXPIRED, WatchExpiredError),
    ((ListPage((reported_pod("b"),), "1"), ListPage((), "2")), None, SourceUnavailableError),
    ((ListPage((reported_pod("b"),), ""),), None, SourceUnavailableError),
    ((ListPage((reported_node(),), "1"),), None, TypeError),
]


@pytest.mark.parametrize(
    ("parts", "error", "refusal"),
    BROKEN,
    ids=["no page", "410", "two versions", "no version", "kind"],
)
def test_a_list_that_breaks_off_is_no_list(
    cluster: Cluster,
    watching: Watching,
    parts: tuple[ListPage, ...],
    error: Exception | None,
    refusal: type[Exception],
) -> None:
    watching.tell(event(reported_pod(), 5))

    with pytest.raises(refusal):
        ledger_list(
            lease=watching.lease,
            kind=WatchedKind.PODS,
            pages=breaking_off(parts, error),
            at=moment(600),
            actor=ACTOR,
        )

    assert ends() == [("uid-1", 0, None, "open", 0)]
    assert cursor_of(cluster.id, WatchedKind.PODS) == "1"
    # What the broken list left on the stage does not leak into the next one.
    assert watching.list(700, reported_pod()).states == 1


def statements(watching: Watching, second: int, *, count: int) -> tuple[int, int]:
    """Return how many statements a list and as many events take; one page each."""
    pods = tuple(reported_pod(f"{second}-{number:03}") for number in range(count))
    with CaptureQueriesContext(
        connection,
    ) as listed:
        ledger_list(
            lease=watching.lease,
            kind=WatchedKind.PODS,
            pages=iter(pages(pods, size=count)),
            at=moment(second),
            actor=ACTOR,
        )
    with CaptureQueriesContext(connection) as reported:
        watching.tell(
            *(deleted(pod, second + 1) for pod in pods),
            *(event(reported_pod(f"{pod.uid}-next"), second + 1) for pod in pods),
        )
    return len(listed), len(reported)


def test_statements_do_not_grow_with_pods(watching: Watching) -> None:
    few, many = statements(watching, 10, count=2), statements(watching, 20, count=60)

    assert few == many
    assert max(few) <= 28
