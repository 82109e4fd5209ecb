"""What the database knows of an hour: rows, consumers, nodes, decisions and when the watch saw."""

from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.allocations.timeline import EndKind, Life, OpenInterval
from metering.domain.collection.reconciliation import Accepted, Side
from metering.models import ReconciliationDecision
from metering.selectors.allocations.ledger import WindowLedger, window_ledger
from metering.selectors.allocations.rows import ledger_rows
from metering.selectors.allocations.watch import WatchCoverage, watch_coverage
from tenants.models import Cluster
from tests.support.builders import make_cluster
from tests.support.metering.allocations.watched import (
    UNSIZED,
    ledgered,
    offered,
    queued,
    reserved,
    watched,
)
from tests.support.metering.seen import HOUR, moment
from tests.support.shared_rows import shared_rows

END = moment(3600)
LOOKED = moment(4500)


@shared_rows
def cluster() -> Cluster:
    return make_cluster()


def read(cluster: Cluster, *uids: str, is_watched: bool = True) -> WindowLedger:
    return window_ledger(
        cluster.pk,
        start_at=HOUR,
        end_at=END,
        until_at=LOOKED,
        pod_uids=uids,
        is_watched=is_watched,
    )


def coverage(cluster: Cluster) -> WatchCoverage:
    return watch_coverage(cluster.pk, start_at=HOUR, end_at=END, until_at=LOOKED)


# ---------------------------------------------------------------- allocations


def test_rows_that_may_have_held_something_in_the_hour_are_reported(cluster: Cluster) -> None:
    ledgered(cluster, "open", -600)
    ledgered(cluster, "inside", 600, 900)
    ledgered(cluster, "ends-in-it", -600, 1)
    ledgered(cluster, "bounded", -600, -300, end_kind="vanished_in_gap", end_slack_seconds=301)
    ledgered(cluster, "before", -600, 0)
    ledgered(cluster, "bounded-before", -600, -300, end_kind="vanished_in_gap")
    ledgered(cluster, "after", 3600)
    ledgered(make_cluster("ampere"), "elsewhere", -600)

    found = read(cluster)

    assert sorted(uid for uid, _ in found.rows) == ["bounded", "ends-in-it", "inside", "open"]


def test_a_pod_that_was_seen_is_reported_whenever_it_lived(cluster: Cluster) -> None:
    ledgered(cluster, "before", -600, -300)

    [row] = read(cluster, "before").rows.values()

    assert (row.key, row.is_from_api) == (("before", "nvidia_com_gpu"), True)
    assert row.fact.size != ""
    assert (row.life.begin_at, row.life.end_at) == (moment(-600), moment(-300))
    assert (row.life.end_kind, row.life.slack_seconds) == (EndKind.EXACT, 0)
    assert row.node_labels == {}


def test_labels_come_along_only_where_they_settle_a_size_and_are_shared(cluster: Cluster) -> None:
    ledgered(cluster, "a", **UNSIZED)
    ledgered(cluster, "b", **UNSIZED)
    ledgered(cluster, "c")

    rows = {row.fact.pod_uid: row for row in read(cluster).rows.values()}

    assert rows["a"].node_labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert rows["a"].node_labels is rows["b"].node_labels
    assert rows["c"].node_labels == {}
    assert (rows["a"].fact.size, rows["a"].fact.catalogue_version) == ("", 0)


def test_what_prometheus_saw_first_is_the_apis_once_the_watch_saw_it_bound(
    cluster: Cluster,
) -> None:
    for uid in ("unknown", "waiting", "bound"):
        ledgered(cluster, uid, source="prometheus")
    queued(cluster, "waiting", bound_at=None)
    queued(cluster, "bound")

    rows = ledger_rows(cluster.pk, start_at=HOUR, end_at=END, pod_uids=[])

    reported = {row.fact.pod_uid: row.is_from_api for row in rows.values()}
    assert reported == {"unknown": False, "waiting": False, "bound": True}


# ---------------------------------------------------------------- the rest of the watch's tables


def test_consumers_nodes_and_decisions_of_the_hour_are_reported(cluster: Cluster) -> None:
    ledgered(cluster, "c1", resource="claim/gpu.nvidia.com")
    reserved(cluster, "c1", "p2", 600)
    reserved(cluster, "c1", "p1", -600, 1)
    reserved(cluster, "c2", "p3", 3600)
    offered(cluster, end=600)
    offered(cluster, allocatable={"nvidia.com/gpu": 4}, begin=600)
    offered(cluster, "gone", end=0)
    for side in ("prometheus", "kubernetes"):
        ReconciliationDecision.objects.create(
            cluster=cluster,
            window_start=HOUR,
            pod_uid="a",
            resource="nvidia_com_gpu",
            side=side,
            namespace="team-nlp",
            known_as="exact",
            begin_at=HOUR,
            end_at=END,
            units=2,
            note="x",
            decided_at=END,
        )

    found = read(cluster)

    assert {uid: [one.pod_uid for one in uses] for uid, uses in found.consumers.items()} == {
        "c1": ["p1", "p2"]
    }
    assert [(one.node, one.allocatable["nvidia.com/gpu"]) for one in found.nodes] == [
        ("node-1", 8),
        ("node-1", 4),
    ]
    life = Life(HOUR, END, EndKind.EXACT)
    key = ("a", "nvidia_com_gpu")
    assert found.decisions == {key: Accepted(Side.KUBERNETES, life, 2)}
    assert found.decided_namespaces == {key: "team-nlp"}


def test_without_a_watch_only_allocations_are_read(cluster: Cluster) -> None:
    ledgered(cluster, "a")
    offered(cluster)

    with CaptureQueriesContext(connection) as queries:
        found = read(cluster, is_watched=False)

    assert (len(queries), len(found.rows), found.nodes) == (1, 1, ())


def test_the_number_of_statements_is_always_the_same(cluster: Cluster) -> None:
    counts = []
    for pods in (1, 50):
        for index in range(pods):
            ledgered(cluster, f"{pods}-{index}")
            reserved(cluster, f"claim-{pods}-{index}", "p", 0)
            offered(cluster, f"node-{pods}-{index}")
        with CaptureQueriesContext(connection) as queries:
            read(cluster, *(f"{pods}-{index}" for index in range(pods)))
        counts.append(len(queries))

    assert counts == [6, 6]


# ---------------------------------------------------------------- coverage


def test_a_watch_that_never_was_saw_nothing(cluster: Cluster) -> None:
    assert coverage(cluster) == WatchCoverage(
        spans=(), until_at=None, ratio=Decimal("0.00000"), is_blind_at_end=True
    )


def test_a_healthy_watch_saw_everything(cluster: Cluster) -> None:
    watched(cluster)

    assert coverage(cluster) == WatchCoverage(
        spans=(OpenInterval(HOUR, LOOKED),),
        until_at=moment(7200),
        ratio=Decimal("1.00000"),
        is_blind_at_end=False,
    )


@pytest.mark.parametrize(
    ("is_resumed", "spans", "ratio"),
    [
        (True, (OpenInterval(HOUR, LOOKED),), "1.00000"),
        (False, (OpenInterval(HOUR, moment(600)), OpenInterval(moment(1200), LOOKED)), "0.83333"),
    ],
)
def test_a_hole_counts_unless_the_watch_went_on_where_it_was(
    cluster: Cluster, *, is_resumed: bool, spans: tuple[OpenInterval, ...], ratio: str
) -> None:
    watched(cluster, until=600)
    watched(cluster, 1200, is_resumed=is_resumed)

    found = coverage(cluster)

    assert (found.spans, str(found.ratio)) == (spans, ratio)


def test_a_watch_that_fell_silent_in_the_hour_is_blind_at_its_end(cluster: Cluster) -> None:
    watched(cluster, until=3599)

    found = coverage(cluster)

    assert (found.is_blind_at_end, found.until_at) == (True, moment(3599))
    assert found.spans == (OpenInterval(HOUR, moment(3599)),)
    watched(cluster, 3700, is_resumed=True)
    assert coverage(cluster).is_blind_at_end is False
