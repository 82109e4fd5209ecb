"""The loop over HTTPS: what is reported as it happens, and what piled up while nobody listened."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.models import ClusterWatch, PodAllocation, WatchCursor, WatchSpan
from metering.protocols.watch import WatchedKind, WatchEvent, WatchTarget
from metering.services.allocations.heartbeats import WatchPace
from metering.services.allocations.readings import WITHOUT_TIMES
from simulator.cluster.scenario import USER_LABEL, Pod
from simulator.kubernetes_api import KubernetesAPI
from tenants.models import Cluster
from tests.support.metering.allocations.stage import START, Stage, scenario, turn_until
from tests.support.references import reference_to

CLUSTER = scenario().cluster("hopper")
KILLED: Pod = min(
    (
        pod
        for pod in CLUSTER.pods
        if pod.truth and pod.finished_at is None and pod.deleted_at and pod.deleted_at > START
    ),
    key=lambda pod: pod.deleted_at or START,
)
"""The first pod that is deleted while it runs: nothing but the deletion shows when."""
assert KILLED.deleted_at is not None
KILLED_AT = KILLED.deleted_at
SECOND = timedelta(seconds=1)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesAPI]:
    with KubernetesAPI(tmp_path, tokens={"watcher": "watcher"}, bookmark_seconds=0.1) as made:
        yield made


@pytest.fixture
def stage(cluster: Cluster, api: KubernetesAPI, tmp_path: Path) -> Stage:
    """A stage over HTTPS, some seconds before the pod is deleted."""
    kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
    made = Stage(
        cluster,
        at=KILLED_AT - 5 * SECOND,
        target=WatchTarget(
            "hopper", credential_reference=reference_to(kubeconfig), user_label=USER_LABEL
        ),
        pace=WatchPace(batch_seconds=0, quiet_seconds=0, drain_seconds=1),
        is_live=True,
    )
    made.watch = KubernetesClusterWatch(clock=lambda: made.at)
    api.load(CLUSTER, made.at)
    return made


class PodStreamWatch(KubernetesClusterWatch):
    """A watch that notes when its stream of pods has delivered something the server sent."""

    has_delivered = False

    def watch(
        self, target: WatchTarget, kind: WatchedKind, *, resource_version: str, timeout_seconds: int
    ) -> Iterator[WatchEvent]:
        """Yield what the stream delivers; its first event only shows that it was opened."""
        events = super().watch(
            target, kind, resource_version=resource_version, timeout_seconds=timeout_seconds
        )
        for number, event in enumerate(events):
            if kind is WatchedKind.PODS and number:
                self.has_delivered = True
            yield event


def killed() -> PodAllocation:
    return PodAllocation.objects.get(pod_uid=KILLED.uid)


def test_a_deletion_seen_as_it_happens_is_the_end(stage: Stage, api: KubernetesAPI) -> None:
    stage.watch = watch = PodStreamWatch(clock=lambda: stage.at)
    loop = stage.loop()
    turn_until(loop, lambda: ClusterWatch.objects.get().healthy_at == stage.at)
    # Before its first bookmark a stream may still be delivering what accumulated.
    turn_until(loop, lambda: watch.has_delivered)
    assert killed().end_at is None

    stage.forward(5)
    api.load(CLUSTER, stage.at)
    turn_until(loop, lambda: killed().end_at is not None)
    loop.abandon()

    row = killed()
    assert (row.end_at, row.end_kind, row.end_slack_seconds) == (KILLED_AT, "vanished", 0)
    assert row.begin_at == KILLED.scheduled_at


def test_a_deletion_that_is_heard_of_later_is_only_bounded(
    stage: Stage, api: KubernetesAPI
) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: ClusterWatch.objects.get().healthy_at == stage.at)
    last_known = stage.at
    loop.abandon()
    stage.forward(5)
    api.load(CLUSTER, stage.at)
    stage.forward(10)
    # As in a real process, an open stream counts as caught up only after it was quiet for a while.
    stage.pace = replace(stage.pace, quiet_seconds=2)

    again = stage.loop()
    turn_until(again, lambda: killed().end_at is not None)
    again.abandon()

    row = killed()
    assert (row.end_at, row.end_kind) == (last_known, "vanished_in_gap")
    assert row.end_at is not None
    assert row.end_at + row.end_slack_seconds * SECOND >= KILLED_AT
    assert set(WatchCursor.objects.values_list("listed_at", flat=True)) == {last_known}


def test_a_version_the_server_forgot_is_listed_anew(stage: Stage, api: KubernetesAPI) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: ClusterWatch.objects.get().healthy_at == stage.at)
    listed_at = stage.at
    loop.abandon()
    stage.forward(600)
    api.load(CLUSTER, stage.at)
    api.store.compact()

    again = stage.loop()
    turn_until(again, lambda: killed().end_at is not None, each=stage.tick)
    turn_until(again, lambda: WatchSpan.objects.count() == 2, each=stage.tick)
    again.abandon()

    row = killed()
    assert (row.end_at, row.end_kind) == (listed_at, "vanished_in_gap")
    first, second = WatchSpan.objects.all()
    assert (first.until_at, second.is_resumed) == (listed_at, False)


def test_a_server_that_is_silent_because_nothing_happens_is_asked_again_and_well(
    stage: Stage, tmp_path: Path
) -> None:
    with KubernetesAPI(tmp_path / "silent", tokens={"w": "w"}, bookmark_seconds=60) as silent:
        kubeconfig = silent.kubeconfig(tmp_path / "silent" / "kubeconfig")
        stage.target = WatchTarget("hopper", credential_reference=reference_to(kubeconfig))
        stage.watch = KubernetesClusterWatch(stall_seconds=1, clock=lambda: stage.at)
        loop = stage.loop()
        turn_until(loop, WatchSpan.objects.exists, each=stage.tick)
        begun_at = stage.at
        for _ in range(20):
            stage.forward(1)
            loop.turn()
        loop.abandon()

    watch = ClusterWatch.objects.get()
    assert watch.healthy_at is not None
    assert (watch.last_error, watch.healthy_at > begun_at) == ("", True)
    assert WatchSpan.objects.count() == 1


def test_a_server_that_is_gone_ends_the_heartbeats(stage: Stage, api: KubernetesAPI) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: ClusterWatch.objects.get().healthy_at == stage.at)
    last_known = stage.at

    api.stop()
    # Time stands still until the end of a stream that counts has been taken from its thread.
    with capture_logs() as logs:
        turn_until(loop, lambda: any(log["kind"] not in WITHOUT_TIMES for log in logs))
    for _ in range(3):
        stage.forward(10)
        loop.turn()
    loop.abandon()

    watch = ClusterWatch.objects.get()
    assert watch.healthy_at is not None
    assert watch.healthy_at <= last_known + 10 * SECOND
    assert watch.last_error.endswith("The API of cluster hopper cannot be reached.")
