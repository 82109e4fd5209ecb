"""A list in which most of what is open is missing ends nothing until it was reported twice."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from metering.models import ClusterWatch, NodeRecord, PodAllocation, QueuedPod
from metering.protocols.watch import (
    Change,
    ListPage,
    ObjectState,
    WatchedKind,
    WatchEvent,
    WatchExpiredError,
    WatchTarget,
)
from metering.services.allocations.batches import OPEN_MIN, ImplausibleListError
from tenants.models import Cluster
from tests.support.metering.allocations.stage import Stage, turn_until
from tests.support.metering.allocations.states import (
    Watching,
    ends,
    event,
    reported_claim,
    reported_node,
    reported_pod,
    reported_slice,
    second_of,
)
from tests.support.metering.seen import moment

PODS = tuple(reported_pod(f"uid-{number:02}") for number in range(OPEN_MIN))


def open_rows() -> int:
    return PodAllocation.objects.filter(end_at__isnull=True).count()


@pytest.mark.parametrize("left", [0, 9])
def test_a_list_that_lacks_more_than_half_ends_nothing(watching: Watching, left: int) -> None:
    watching.list(5, *PODS)

    with pytest.raises(ImplausibleListError) as reported:
        watching.list(600, *PODS[:left], version="200")

    assert reported.value.reason == "doubtful_list"
    assert str(reported.value).startswith(f"{20 - left} of 20 open rows are missing in a list;")
    assert open_rows() == 20


def test_a_list_that_lacks_half_is_believed(watching: Watching) -> None:
    watching.list(5, *PODS)
    watching.list(600, *PODS[:10])

    assert open_rows() == 10


def test_pods_of_another_cluster_do_not_outvote_ours(watching: Watching) -> None:
    watching.list(5, *PODS)

    with pytest.raises(ImplausibleListError):
        watching.list(600, *(reported_pod(f"strange-{number}") for number in range(40)))

    assert open_rows() == 20
    assert not PodAllocation.objects.filter(pod_uid__startswith="strange").exists()


def test_few_pods_may_all_end_at_once(watching: Watching) -> None:
    watching.list(5, *PODS[: OPEN_MIN - 1])
    watching.list(600)

    assert open_rows() == 0


def test_a_list_that_is_sure_is_believed(watching: Watching) -> None:
    watching.list(5, *PODS)
    watching.list(600, is_sure=True)

    assert {row[1:] for row in ends()} == {(0, 5, "vanished_in_gap", 595)}


def test_nodes_and_claims_are_doubted_alike(watching: Watching) -> None:
    watching.list(4, reported_slice())
    watching.list(5, *(reported_claim(f"claim-{number}") for number in range(OPEN_MIN)))
    watching.list(6, *(reported_node(f"node-{number}") for number in range(OPEN_MIN)))

    for kind in (WatchedKind.CLAIMS, WatchedKind.NODES):
        with pytest.raises(ImplausibleListError):
            watching.list(600, kind=kind)

    assert open_rows() == 20
    assert NodeRecord.objects.filter(end_at__isnull=True).count() == 20


def test_a_prompt_event_brings_back_whom_a_list_did_not_show(watching: Watching) -> None:
    watching.list(5, reported_pod())
    watching.list(600)
    watching.beat(690)
    assert second_of(QueuedPod.objects.get().gone_at) == 5

    watching.tell(event(reported_pod(), 700))

    assert ends() == [("uid-1", 0, None, "open", 0)]
    assert QueuedPod.objects.get().gone_at is None


def test_an_event_that_piled_up_brings_nobody_back(watching: Watching) -> None:
    watching.list(5, reported_pod())
    watching.list(600)
    watching.tell(event(reported_pod(), 700))

    assert ends() == [("uid-1", 0, 5, "vanished_in_gap", 595)]


@dataclass
class Filtered:
    """A server that shows some pods in a list, and nothing else happens."""

    stage: Stage
    states: tuple[ObjectState, ...]
    version: int = 1
    is_expired: bool = False
    lists: list[int] = field(default_factory=list)

    def serves(self, target: WatchTarget, kind: WatchedKind) -> bool:
        del target
        return kind in {WatchedKind.PODS, WatchedKind.NODES}

    def list(self, target: WatchTarget, kind: WatchedKind) -> Iterator[ListPage]:
        del target
        if kind is WatchedKind.PODS:
            self.lists.append(self.stage.pulse)
        yield ListPage(self.states if kind is WatchedKind.PODS else (), str(self.version))

    def watch(
        self, target: WatchTarget, kind: WatchedKind, *, resource_version: str, timeout_seconds: int
    ) -> Iterator[WatchEvent]:
        del target, timeout_seconds
        if self.is_expired and kind is WatchedKind.PODS and int(resource_version) < self.version:
            raise WatchExpiredError
        yield WatchEvent(Change.BOOKMARK, resource_version, self.stage.at)


@pytest.fixture
def filtered(cluster: Cluster) -> Filtered:
    stage = Stage(cluster, at=moment(600))
    stage.watch = filtered = Filtered(stage, PODS)
    return filtered


def test_while_a_list_is_doubted_the_watch_is_not_well_and_says_why(filtered: Filtered) -> None:
    stage = filtered.stage
    loop = stage.loop()
    turn_until(loop, lambda: ClusterWatch.objects.get().healthy_at == stage.at)
    healthy_at = stage.at

    filtered.states, filtered.version, filtered.is_expired = (), 9, True
    turn_until(loop, lambda: len(filtered.lists) == 3, each=stage.tick)

    watch = ClusterWatch.objects.get()
    assert watch.last_error.startswith("pods: 20 of 20 open rows are missing in a list;")
    assert watch.healthy_at is not None
    assert (watch.healthy_at - healthy_at).total_seconds() <= 10
    assert open_rows() == 20

    filtered.states = PODS
    turn_until(loop, lambda: ClusterWatch.objects.get().last_error == "", each=stage.tick)
    loop.abandon()
    assert open_rows() == 20


def test_a_list_that_says_the_same_a_minute_later_is_believed(filtered: Filtered) -> None:
    stage = filtered.stage
    loop = stage.loop()
    turn_until(loop, lambda: ClusterWatch.objects.get().healthy_at == stage.at)

    filtered.states, filtered.version, filtered.is_expired = (), 9, True
    turn_until(loop, lambda: not open_rows(), each=stage.tick)
    loop.abandon()

    first, last = filtered.lists[1], filtered.lists[-1]
    assert last - first >= stage.pace.suspicion_seconds
    assert {row[3] for row in ends()} == {"vanished_in_gap"}
