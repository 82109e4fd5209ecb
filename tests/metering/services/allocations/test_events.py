"""Events open and end rows, each end by the best evidence that ever came."""

import pytest

from metering.models import PodAllocation, QueuedPod
from metering.protocols import ContainerKind, ContainerRequest
from metering.protocols.watch import Change, WatchedKind, WatchEvent
from metering.selectors.allocations.watch import cursor_of
from metering.services.allocations.lists import ledger_events
from tenants.models import Cluster
from tests.support.metering.allocations.states import (
    GPU,
    Watching,
    deleted,
    ends,
    event,
    reported_node,
    reported_pod,
    second_of,
)
from tests.support.metering.seen import ACTOR, HOUR, moment


def test_a_bound_pod_opens_a_row_from_its_bind(watching: Watching) -> None:
    done = watching.tell(event(reported_pod(bound=5), 9))

    assert ends() == [("uid-1", 5, None, "open", 0)]
    assert (done.states, done.opened, done.closed) == (1, 1, 0)


def test_a_waiting_pod_stands_in_the_queue_only(watching: Watching) -> None:
    watching.tell(event(reported_pod(bound=None, phase="Pending"), 9))

    assert ends() == []
    waiting = QueuedPod.objects.get()
    assert (waiting.requests, waiting.bound_at, waiting.gone_at) == ({GPU: 1}, None, None)


def test_a_pod_that_left_the_queue_unbound_is_gone(watching: Watching) -> None:
    pod = reported_pod(bound=None, phase="Pending")
    watching.tell(event(pod, 9), deleted(pod, 20))

    assert second_of(QueuedPod.objects.get().gone_at) == 20
    assert ends() == []


def test_the_kubelets_time_is_the_exact_end(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5), event(reported_pod(finished=15), 17))

    assert ends() == [("uid-1", 0, 15, "exact", 0)]


def test_a_deletion_while_healthy_is_the_end_to_the_second(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    done = watching.tell(deleted(reported_pod(), 19))

    assert ends() == [("uid-1", 0, 19, "vanished", 0)]
    assert (done.opened, done.closed) == (0, 1)


def test_a_deletion_that_carries_an_old_phase_still_ends_what_was_held(watching: Watching) -> None:
    watching.tell(deleted(reported_pod(phase="Pending", started=None), 19))

    assert ends() == [("uid-1", 0, 19, "vanished", 0)]


def test_a_pod_the_kubelet_refused_held_nothing(watching: Watching) -> None:
    pending = reported_pod(phase="Pending", started=None)
    refused = reported_pod(phase="Failed", started=None, reason="UnexpectedAdmissionError")
    watching.tell(event(pending, 3))
    watching.tell(event(refused, 5))

    assert ends() == [("uid-1", 0, 0, "exact", 0)]
    assert QueuedPod.objects.get().reason == "UnexpectedAdmissionError"


def test_a_pod_evicted_before_it_started_held_until_then(watching: Watching) -> None:
    watching.tell(event(reported_pod(phase="Pending", started=None), 3))
    watching.tell(event(reported_pod(phase="Failed", started=None, reason="Evicted"), 25))

    assert ends() == [("uid-1", 0, 25, "vanished", 0)]


def test_a_crash_loop_holds_on(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5), event(reported_pod(phase="Running"), 20))

    assert ends() == [("uid-1", 0, None, "open", 0)]


def test_a_terminating_pod_holds_until_it_is_gone(watching: Watching) -> None:
    watching.tell(event(reported_pod(deletion=10), 5))
    watching.beat(25)
    assert ends() == [("uid-1", 0, None, "open", 0)]

    watching.tell(deleted(reported_pod(deletion=10), 28))
    assert ends() == [("uid-1", 0, 28, "vanished", 0)]


@pytest.mark.parametrize("is_node_gone", [False, True])
def test_a_terminating_pod_on_a_lost_node_ends_by_policy(
    watching: Watching,
    is_node_gone: bool,  # noqa: FBT001 - A column of the table.
) -> None:
    watching.tell(event(reported_pod(deletion=40), 5))
    node = reported_node(is_ready=False)
    watching.tell(deleted(node, 50) if is_node_gone else event(node, 50))

    watching.beat(339)
    assert ends() == [("uid-1", 0, None, "open", 0)]
    watching.beat(340)
    assert ends() == [("uid-1", 0, 340, "vanished", 0)]

    # The object may go away much later; when the node comes back its kubelet shows the truth.
    watching.beat(4000)
    watching.tell(deleted(reported_pod(deletion=40), 4001))
    assert ends() == [("uid-1", 0, 340, "vanished", 0)]
    watching.tell(deleted(reported_pod(deletion=40, finished=70), 4002))
    assert ends() == [("uid-1", 0, 70, "exact", 0)]


def test_a_pod_that_is_not_being_deleted_holds_on_a_lost_node(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.tell(event(reported_node(is_ready=False), 50))
    watching.beat(4000)

    assert ends() == [("uid-1", 0, None, "open", 0)]


def test_nothing_after_a_deletion_brings_a_pod_back(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.tell(deleted(reported_pod(finished=12), 15))
    known = PodAllocation.objects.values().get()
    queued = QueuedPod.objects.values().get()

    watching.tell(event(reported_pod(), 16, Change.ADDED))
    watching.tell(deleted(reported_pod(), 17), event(reported_pod(), 18, Change.ADDED))

    assert PodAllocation.objects.values().get() == known
    assert QueuedPod.objects.values().get() == queued


def test_a_worse_end_never_replaces_a_better_one(watching: Watching) -> None:
    watching.tell(deleted(reported_pod(), 19))
    watching.tell(deleted(reported_pod(), 25))
    assert ends() == [("uid-1", 0, 19, "vanished", 0)]

    watching.tell(deleted(reported_pod(finished=18), 26))
    watching.tell(deleted(reported_pod(), 15))
    assert ends() == [("uid-1", 0, 18, "exact", 0)]


def test_what_piled_up_while_nobody_watched_is_bounded_by_the_last_heartbeat(
    watching: Watching,
) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.beat(20)
    watching.tell(deleted(reported_pod(), 3000))

    assert ends() == [("uid-1", 0, 20, "vanished_in_gap", 2980)]


def test_a_late_event_of_the_living_proves_no_moment_of_life(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.beat(20)
    watching.tell(event(reported_pod(), 3000), deleted(reported_pod(), 3001))

    assert ends() == [("uid-1", 0, 20, "vanished_in_gap", 2981)]


def test_a_pod_that_came_and_went_while_nobody_watched_is_bounded_by_its_bind(
    watching: Watching,
) -> None:
    watching.beat(20)
    watching.tell(event(reported_pod(bound=600), 3000), deleted(reported_pod(bound=600), 3001))

    assert ends() == [("uid-1", 600, 600, "vanished_in_gap", 2401)]


def test_a_better_bound_replaces_a_worse_one(watching: Watching) -> None:
    watching.tell(event(reported_pod(), 5))
    watching.tell(deleted(reported_pod(), 3000))
    assert ends() == [("uid-1", 0, 5, "vanished_in_gap", 2995)]

    watching.tell(deleted(reported_pod(), 2000))
    assert ends() == [("uid-1", 0, 5, "vanished_in_gap", 1995)]


def test_each_resource_of_a_pod_is_a_row_with_its_effective_units(watching: Watching) -> None:
    requests = (
        ContainerRequest("prepare", ContainerKind.INIT, GPU, 4, 0),
        ContainerRequest("proxy", ContainerKind.SIDECAR, GPU, 1, 1),
        ContainerRequest("main", ContainerKind.REGULAR, GPU, 2),
        ContainerRequest("main", ContainerKind.REGULAR, "nvidia.com/mig-1g.10gb", 3),
        ContainerRequest("main", ContainerKind.REGULAR, "amd.com/gpu", 1),
    )
    watching.tell(event(reported_pod(requests=requests), 5))

    rows = PodAllocation.objects.order_by("resource").values_list("resource", "units", "size")
    assert list(rows) == [
        ("amd.com/gpu", 1, ""),
        (GPU, 4, "large"),
        ("nvidia.com/mig-1g.10gb", 3, "small"),
    ]


def test_bookmarks_only_move_the_version(cluster: Cluster, watching: Watching) -> None:
    bookmark = WatchEvent(Change.BOOKMARK, "555", moment(9))
    done = ledger_events(
        lease=watching.lease, kind=WatchedKind.PODS, events=[bookmark], at=moment(9), actor=ACTOR
    )

    assert (done.states, done.resource_version) == (0, "555")
    assert cursor_of(cluster.id, WatchedKind.PODS) == "555"
    assert ends() == []


def test_no_events_are_no_work(cluster: Cluster, watching: Watching) -> None:
    done = ledger_events(
        lease=watching.lease, kind=WatchedKind.PODS, events=[], at=HOUR, actor=ACTOR
    )

    assert done.resource_version == ""
    assert cursor_of(cluster.id, WatchedKind.PODS) == "100"


def test_a_pod_without_any_device_is_none_of_ours(watching: Watching) -> None:
    done = watching.tell(event(reported_pod(requests=()), 9), event(reported_pod("b", units=0), 9))

    assert done.states == 0
    assert QueuedPod.objects.count() == 0


def test_a_node_among_pods_is_a_mistake(watching: Watching) -> None:
    with pytest.raises(TypeError, match="NodeState among pods"):
        ledger_events(
            lease=watching.lease,
            kind=WatchedKind.PODS,
            events=[event(reported_node(), 5)],
            at=moment(5),
            actor=ACTOR,
        )
