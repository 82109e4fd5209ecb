"""The loop: lists, streams, batches, heartbeats and relists, against a simulated cluster."""

from datetime import datetime, timedelta

import pytest
from django.db.models import F

from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.domain.errors import LeaseLostError
from metering.models import ClusterWatch, PodAllocation, WatchCursor, WatchSpan
from metering.protocols.watch import WatchedKind, WatchTarget
from metering.services.allocations.loop import WatchLoop
from tenants.models import AuditEntry, Cluster
from tests.support.metering.allocations.stage import START, Stage, scenario, turn_until

CLUSTER = scenario().cluster("hopper")


@pytest.fixture
def stage(cluster: Cluster) -> Stage:
    return Stage(cluster)


def healthy_at(stage: Stage) -> object:
    return ClusterWatch.objects.get(cluster=stage.cluster).healthy_at


def is_read_up_to_now(stage: Stage) -> bool:
    return healthy_at(stage) == stage.at


def go_on(stage: Stage, loop: WatchLoop, *, seconds: int) -> None:
    """Put the clock forward in steps of a heartbeat, each read to its end."""
    for _ in range(seconds // 10):
        stage.forward(10)
        turn_until(loop, lambda: is_read_up_to_now(stage))


def ledger() -> dict[str, tuple[datetime, datetime | None, str]]:
    return {
        row.pod_uid: (row.begin_at, row.end_at, row.end_kind) for row in PodAllocation.objects.all()
    }


def test_what_is_there_is_listed_and_what_comes_is_written_to_the_second(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))
    held = {pod.uid for pod in CLUSTER.pods_alive(START)}
    assert {uid for uid, (_, end_at, _) in ledger().items() if end_at is None} == held

    go_on(stage, loop, seconds=1200)
    loop.abandon()

    rows = ledger()
    lived = [
        pod
        for pod in CLUSTER.pods
        if pod.truth and pod.truth[0] <= stage.at and (pod.truth[1] or stage.at) > START
    ]
    assert len(lived) > len(held)
    for pod in lived:
        assert pod.truth is not None
        begin_at, end_at = pod.truth
        found = rows[pod.uid]
        assert found[:2] == (begin_at, end_at if end_at and end_at <= stage.at else None), pod.name
    ended = [row for uid, row in rows.items() if row[1] is not None and row[1] > START]
    assert ended
    assert {kind for _, _, kind in ended} <= {"exact", "vanished"}


def test_every_served_kind_keeps_a_version_and_the_others_none(stage: Stage) -> None:
    loop = stage.loop()

    turn_until(loop, lambda: is_read_up_to_now(stage))
    loop.abandon()

    assert set(WatchCursor.objects.values_list("kind", flat=True)) == {"pods", "nodes"}


def test_a_healthy_watch_is_one_span_that_began_with_a_list(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))

    go_on(stage, loop, seconds=60)
    loop.abandon()

    (span,) = WatchSpan.objects.all()
    assert (span.begin_at, span.until_at) == (START, stage.at)
    assert not span.is_resumed


def test_a_heartbeat_comes_no_more_often_than_it_is_due(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))

    stage.forward(5)
    for _ in range(5):
        loop.turn()
    loop.abandon()

    assert healthy_at(stage) == START


def test_a_process_that_comes_back_goes_on_from_the_kept_versions(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))
    loop.abandon()
    stage.forward(3600)

    came_and_went = {
        pod.uid
        for pod in CLUSTER.pods
        if pod.truth and pod.truth[0] > START and pod.deleted_at and pod.deleted_at < stage.at
    }
    assert came_and_went

    again = stage.loop()
    # Without a quiet time the loop may take itself for read before its reader had a turn.
    turn_until(again, lambda: is_read_up_to_now(stage) and came_and_went <= set(ledger()))
    again.abandon()

    assert set(WatchCursor.objects.values_list("listed_at", flat=True)) == {START}
    first, second = WatchSpan.objects.all()
    assert (first.is_resumed, second.is_resumed) == (False, True)
    assert (second.begin_at, second.until_at) == (stage.at, stage.at)


def test_a_version_that_is_too_old_is_listed_anew_and_the_hole_is_no_secret(stage: Stage) -> None:
    stage.history_seconds = 60
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))
    loop.abandon()
    stage.forward(3600)
    gone = {
        pod.uid
        for pod in CLUSTER.pods_alive(START)
        if pod.deleted_at is not None and pod.deleted_at <= stage.at
    }

    again = stage.loop()
    again.turn()
    turn_until(again, lambda: healthy_at(stage) != START, each=stage.tick)
    again.abandon()

    first, second = WatchSpan.objects.all()
    assert (first.until_at, second.is_resumed) == (START, False)
    assert gone
    assert all(ledger()[uid][2] == "vanished_in_gap" for uid in gone)


def test_a_full_list_in_between_loses_nothing_and_breaks_no_span(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))
    go_on(stage, loop, seconds=590)

    go_on(stage, loop, seconds=30)
    loop.abandon()

    listed = set(WatchCursor.objects.values_list("listed_at", flat=True))
    assert all(at >= START + timedelta(seconds=600) for at in listed)
    (span,) = WatchSpan.objects.all()
    assert (span.begin_at, span.until_at) == (START, stage.at)
    assert not PodAllocation.objects.filter(end_kind="vanished_in_gap").exists()


def test_a_cluster_that_cannot_be_asked_is_no_heartbeat_but_a_trouble(stage: Stage) -> None:
    stage.target = WatchTarget("nowhere")
    loop = stage.loop()

    for _ in range(3):
        loop.turn()

    watch = ClusterWatch.objects.get(cluster=stage.cluster)
    assert watch.healthy_at is None
    assert watch.last_error == "resourceclaims: The simulated scenario has no cluster of this name."
    assert not WatchSpan.objects.exists()
    assert not WatchCursor.objects.exists()


def test_trouble_is_purged_with_the_next_heartbeat(stage: Stage) -> None:
    loop = stage.loop()
    ClusterWatch.objects.filter(cluster=stage.cluster).update(last_error="pods: away")

    turn_until(loop, lambda: is_read_up_to_now(stage))
    loop.abandon()

    assert ClusterWatch.objects.get(cluster=stage.cluster).last_error == ""


def test_anyone_who_lost_the_lease_writes_nothing_more(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))
    ClusterWatch.objects.filter(cluster=stage.cluster).update(
        fence=F("fence") + 1, lease_owner="other"
    )
    before = ledger()
    stage.forward(1800)

    with pytest.raises(LeaseLostError):
        loop.turn()
    loop.abandon()

    assert ledger() == before
    assert healthy_at(stage) == START


def test_a_lease_is_renewed_when_a_third_of_it_is_over(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))
    before = ClusterWatch.objects.get(cluster=stage.cluster).lease_until
    stage.forward(9)
    loop.turn()
    same = ClusterWatch.objects.get(cluster=stage.cluster).lease_until

    stage.forward(1)
    loop.turn()
    loop.abandon()

    renewed = ClusterWatch.objects.get(cluster=stage.cluster).lease_until
    assert before is not None
    assert renewed is not None
    assert same == before
    assert renewed > before


def test_what_has_come_is_written_when_the_process_ends(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: is_read_up_to_now(stage))
    stage.forward(5)
    loop.turn()

    loop.finish()
    loop.abandon()

    versions = dict(WatchCursor.objects.values_list("kind", "resource_version"))
    assert set(versions) == {WatchedKind.PODS, WatchedKind.NODES}


def test_a_reference_that_leads_outside_is_audited_when_the_watch_meets_it(stage: Stage) -> None:
    stage.target = WatchTarget("hopper", credential_reference="kubeconfig:../../etc/passwd")
    stage.watch = KubernetesClusterWatch(clock=lambda: stage.at)
    loop = stage.loop()

    for _ in range(5):
        loop.turn()
        stage.forward(60)
    loop.abandon()

    (entry,) = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert entry.facts == {"code": "credentials_forbidden", "cluster": "hopper"}
