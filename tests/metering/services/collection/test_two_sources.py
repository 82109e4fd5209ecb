"""An hour with two sources: what both tell is billed, the rest is reported or held."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from metering.domain.collection.windows import DEFAULT_POLICY, WindowState
from metering.models import (
    CapacityRecord,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    UsageRecord,
)
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.collecting import collect_window
from metering.services.collection.composition import compose_window
from metering.services.collection.observing import basis_of, given_of, observe_hour
from metering.services.collection.windows import hour_of
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import UNSIZED, ledgered, offered, queued, watched
from tests.support.metering.collecting import DUE, claim, collect, exceptions, usage
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    SCRAPE,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    ticks,
    worker,
)

OPEN_END = moment(3600 + LATER - SCRAPE + 7)


@pytest.fixture(autouse=True)
def healthy(project: Project, cluster: Cluster) -> Cluster:  # noqa: ARG001 - The open window.
    """A cluster whose watch was healthy all the time, on a node that both sources saw."""
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster)
    offered(cluster)
    return cluster


def reconciliation() -> dict[str, object]:
    return dict(MeteringWindow.objects.get().reconciliation)


# ---------------------------------------------------------------- both saw it


def test_what_both_sources_tell_alike_is_billed_by_the_apis_seconds(cluster: Cluster) -> None:
    ledgered(cluster, "a", -600)
    ledgered(cluster, "b", 600, 1500)
    seen = observation(pod("a"), ended_pod("b", 600, 1530))

    assert collect(seen).state is WindowState.RECONCILED

    assert [(row[0], row[5]) for row in usage()] == [("a", 3600), ("b", 900)]
    assert exceptions() == []
    window = MeteringWindow.objects.get()
    assert window.sources == ["kubernetes", "stub"]
    assert str(window.watch_coverage) == "1.00000"
    assert window.reconciliation == {
        "pods": {"agreed": 2},
        "unit_seconds": {"billed": 4500, "disputed": 0, "kubernetes": 4500, "prometheus": 4530},
    }


def test_what_they_tell_differently_is_held_with_the_evidence_of_both(cluster: Cluster) -> None:
    ledgered(cluster, "a", 0, 1000, units=2)

    assert collect(observation(ended_pod("a", 0, 2000, units=2))).state is WindowState.RECONCILED

    assert usage() == [("a", "large", "H100/whole", "whole", 2, 1000, 2000)]
    assert exceptions() == [("differs", "a nvidia_com_gpu", 2000)]
    details = MeteringException.objects.get().details
    digest = details.pop("query_digest")
    assert len(digest) == 64
    assert details == {
        "pod": "pod-a",
        "node": "node-1",
        "resource": "nvidia.com/gpu",
        "kubernetes_known_as": "exact",
        "kubernetes_begin_at": "2026-10-05T13:00:00Z",
        "kubernetes_end_at": "2026-10-05T13:16:40Z",
        "kubernetes_slack_seconds": 0,
        "kubernetes_units": 2,
        "prometheus_known_as": "exact",
        "prometheus_begin_at": "2026-10-05T13:00:00Z",
        "prometheus_end_at": "2026-10-05T13:33:20Z",
        "prometheus_slack_seconds": 0,
        "prometheus_units": 2,
    }
    capacity = CapacityRecord.objects.get()
    assert (capacity.billed_unit_seconds, capacity.held_unit_seconds) == (2000, 2000)
    assert capacity.idle_unit_seconds == 28_800 - 4000
    assert reconciliation()["pods"] == {"differs": 1}


def test_what_is_disputed_cannot_have_been_used_twice(cluster: Cluster) -> None:
    ledgered(cluster, "a", 0, 1000, units=8)
    ledgered(cluster, "b", 1000, units=8)
    seen = observation(
        ended_pod("a", 0, 2000, units=8), pod("b", units=8, scheduled_at=moment(1000))
    )

    assert collect(seen).state is WindowState.RECONCILED

    assert exceptions() == [("differs", "a nvidia_com_gpu", 8000)]
    capacity = CapacityRecord.objects.get()
    assert (capacity.billed_unit_seconds, capacity.held_unit_seconds) == (28_800, 0)
    assert capacity.idle_unit_seconds == 0


def test_a_request_reported_differently_is_billed_as_the_api_shows_it(cluster: Cluster) -> None:
    ledgered(cluster, "a", units=2)

    collect(observation(pod("a", units=4)))

    assert usage() == [("a", "large", "H100/whole", "whole", 2, 3600, 7200)]
    assert exceptions() == [("request_differs", "a nvidia_com_gpu", 0)]
    found = MeteringException.objects.get()
    assert (found.details["kubernetes_units"], found.details["prometheus_units"]) == (2, 4)


def test_the_name_and_the_hardware_are_those_of_the_bind(cluster: Cluster) -> None:
    ledgered(cluster, "a", pod_name="first", owner="alice", node="node-1")

    collect(observation(pod("a", name="second", owner="bob", node="node-2")))

    record = UsageRecord.objects.get()
    assert (record.pod_name, record.owner, record.node) == ("first", "alice", "node-1")


# ---------------------------------------------------------------- only one saw it


def test_what_scrapes_should_have_seen_is_billed_and_reported(cluster: Cluster) -> None:
    ledgered(cluster, "a", 0, 1000)
    ledgered(cluster, "b", 2000, 2059)

    assert collect(observation()).state is WindowState.RECONCILED

    assert [(row[0], row[5]) for row in usage()] == [("a", 1000), ("b", 59)]
    assert exceptions() == [("kubernetes_only", "a nvidia_com_gpu", 0)]
    assert reconciliation()["pods"] == {"kubernetes_only": 1, "kubernetes_only_explained": 1}


def test_what_the_healthy_watch_never_saw_is_held() -> None:
    collect(observation(ended_pod("ghost", 0, 1000)))

    assert usage() == []
    assert exceptions() == [("prometheus_only", "ghost nvidia_com_gpu", 1000)]
    assert MeteringException.objects.get().details["kubernetes_known_as"] == "unseen"
    assert not PodAllocation.objects.exists()
    capacity = CapacityRecord.objects.get()
    assert (capacity.billed_unit_seconds, capacity.held_unit_seconds) == (0, 1000)


def test_what_came_and_went_while_the_watch_was_away_is_recovered(cluster: Cluster) -> None:
    span = watched(cluster, 600, 7200)
    type(span).objects.exclude(pk=span.pk).update(until_at=moment(560))

    collect(observation(ended_pod("a", 570, 595)))

    assert [(row[0], row[5]) for row in usage()] == [("a", 25)]
    assert exceptions() == [("recovered", "a nvidia_com_gpu", 0)]
    row = PodAllocation.objects.get()
    assert (row.source, row.end_kind, row.end_at) == ("prometheus", "exact", moment(595))
    assert MeteringWindow.objects.get().state == "reconciled"


def test_a_refusal_the_api_knows_is_billed_to_nobody(cluster: Cluster) -> None:
    ledgered(cluster, "a", 100, 100)

    collect(observation(pod("a", scheduled_at=moment(100), terminal_seen_at=moment(130))))

    assert usage() == []
    assert exceptions() == []


def test_a_request_that_cannot_be_is_reported_of_a_pod_only_prometheus_saw() -> None:
    gone: dict[str, Any] = {"last_seen_at": moment(-113), "scheduled_at": moment(-600)}
    collect(
        observation(pod("a", units=-1), pod("b", units=20_000), pod("before", units=-1, **gone))
    )

    assert usage() == []
    assert [(kind, subject) for kind, subject, _ in exceptions()] == [
        ("invalid_request", "a nvidia_com_gpu"),
        ("invalid_request", "b nvidia_com_gpu"),
    ]


# ---------------------------------------------------------------- the ledger is the API's


def test_prometheus_never_overwrites_what_the_api_reported(cluster: Cluster) -> None:
    reported = ledgered(cluster, "a", 0, 1000)
    still = ledgered(cluster, "b", 0)

    collect(observation(pod("a", scheduled_at=moment(0)), ended_pod("b", 0, 2000)))

    for row in (reported, still):
        before = (row.end_at, row.end_kind, row.last_seen_at)
        row.refresh_from_db()
        assert (row.end_at, row.end_kind, row.last_seen_at) == before


def test_a_watched_row_is_never_closed_for_not_having_been_scraped(cluster: Cluster) -> None:
    ledgered(cluster, "a", -600)
    ledgered(cluster, "b", -600, source="prometheus", last_seen_at=moment(-300))

    collect(observation())

    assert PodAllocation.objects.filter(end_at__isnull=True).count() == 2


def test_what_prometheus_saw_first_is_the_apis_word_once_the_watch_knows_the_pod(
    cluster: Cluster,
) -> None:
    ledgered(cluster, "a", 0, 1000, source="prometheus")
    queued(cluster, "a")

    collect(observation(ended_pod("a", 0, 1030)))

    assert [(row[0], row[5]) for row in usage()] == [("a", 1000)]
    assert reconciliation()["pods"] == {"agreed": 1}


def test_the_bind_the_api_shows_is_billed_of_what_prometheus_saw_first(cluster: Cluster) -> None:
    ledgered(cluster, "a", 30, 1000, source="prometheus")
    queued(cluster, "a", bound_at=moment(10))

    collect(observation(ended_pod("a", 30, 1000)))

    assert [(row[0], row[5]) for row in usage()] == [("a", 990)]


def test_what_the_api_shows_and_cannot_be_is_reported_to_a_person(cluster: Cluster) -> None:
    row = queued(cluster, "a")
    row.requests = {"nvidia.com/gpu": "-1"}
    row.defects = ["It was bound in the year 9999."]
    row.save()

    assert collect(observation()).state is WindowState.RECONCILED

    assert exceptions() == [("invalid_request", "a ", 0)]
    found = MeteringException.objects.get()
    assert found.summary == (
        "By the Kubernetes API pod-a asks for nvidia.com/gpu x -1, which cannot be. "
        "It was bound in the year 9999."
    )
    assert found.details == {"pod": "pod-a", "nvidia.com/gpu": "-1"}


def test_a_size_nobody_knew_at_the_bind_is_settled_with_the_hour(cluster: Cluster) -> None:
    row = ledgered(cluster, "a", **UNSIZED, price_group="", sharing_mode="", product="")

    collect(observation(pod("a")))

    row.refresh_from_db()
    assert (row.size, row.price_group, row.catalogue_version) == ("large", "H100/whole", 1)
    assert usage() == [("a", "large", "H100/whole", "whole", 1, 3600, 3600)]


def test_a_size_that_was_not_settled_yet_is_composed_with_the_catalogue_given(
    cluster: Cluster,
) -> None:
    ledgered(cluster, "a", **UNSIZED, price_group="", sharing_mode="", product="")
    hour = hour_of(cluster, start_at=HOUR, is_watched=True)
    source = worker(observation(pod("a"))).source
    observed = observe_hour(hour=hour, source=source, as_of=DUE, actor=ACTOR, at=DUE)
    basis = basis_of(observed, policy=DEFAULT_POLICY)
    catalogue = ensure_catalogue(actor=ACTOR, at=DUE)

    composed = compose_window(given_of(observed, basis=basis, catalogue=catalogue))

    [row] = composed.usage
    assert (row.fact.size, row.fact.price_group, row.unit_seconds) == ("large", "H100/whole", 3600)
    assert PodAllocation.objects.get().size == ""


def test_a_node_that_offers_none_of_a_resource_is_no_place_for_it(cluster: Cluster) -> None:
    offered(cluster, "node-2", {"nvidia.com/gpu": 0})
    offered(cluster, "node-3", begin=3600)

    collect(observation())

    assert [row.node for row in CapacityRecord.objects.all()] == ["node-1"]


def test_a_device_nobody_knows_is_held_by_what_the_api_reported(cluster: Cluster) -> None:
    ledgered(cluster, "a", **UNSIZED, node_labels={}, node="node-9")

    collect(observation())

    assert usage() == []
    assert ("unknown_node", "a nvidia_com_gpu", 3600) in exceptions()


# ---------------------------------------------------------------- nodes of both sources


def test_an_offer_that_only_the_api_saw_counts(cluster: Cluster) -> None:
    ledgered(cluster, "a", node="node-2")
    offered(cluster, "node-2", {"nvidia.com/gpu": 4}, begin=600, end=1800)
    offered(cluster, "node-2", {"nvidia.com/gpu": 2}, begin=1800)

    collect(observation(pod("a", node="node-2")))

    capacity = CapacityRecord.objects.get(node="node-2")
    assert (capacity.allocatable_units, capacity.size) == (4, "large")
    assert capacity.capacity_unit_seconds == 4 * 1200 + 2 * 1800
    assert capacity.idle_unit_seconds == 4 * 1200 + 2 * 1800 - 3600


def test_more_than_both_sources_saw_offered_stops_the_window(cluster: Cluster) -> None:
    ledgered(cluster, "a", units=6)
    ledgered(cluster, "b", units=6)

    state = collect(observation(pod("a", units=6), pod("b", units=6))).state

    assert state is WindowState.COLLECTED
    assert exceptions() == [("over_capacity", "node-1 nvidia.com/gpu", 0)]


# ---------------------------------------------------------------- pure and constant


def test_composing_again_writes_nothing_and_shows_the_same(cluster: Cluster) -> None:
    ledgered(cluster, "a", 0, 1000)
    seen = observation(ended_pod("a", 0, 1030), ended_pod("c", 0, 900))
    collect(seen)
    hour = hour_of(cluster, start_at=HOUR, is_watched=True)
    catalogue, source = ensure_catalogue(actor=ACTOR, at=DUE), worker(seen).source

    with CaptureQueriesContext(connection) as queries:
        observed = observe_hour(hour=hour, source=source, as_of=DUE, actor=ACTOR, at=DUE)
        basis = basis_of(observed, policy=DEFAULT_POLICY)
        composed = compose_window(given_of(observed, basis=basis, catalogue=catalogue))

    assert [(row.key, row.unit_seconds) for row in composed.usage] == [
        (("a", "nvidia.com/gpu"), 1000)
    ]
    assert [finding.kind.value for finding in composed.findings] == ["prometheus_only"]
    assert all(query["sql"].lstrip().startswith("SELECT") for query in queries)


def test_the_number_of_statements_grows_with_no_source(cluster: Cluster) -> None:
    counts = []
    for pods in (5, 200):
        with transaction.atomic():
            for index in range(pods):
                ledgered(cluster, f"{pods}-{index}")
            seen = observation(
                *(pod(f"{pods}-{index}") for index in range(pods)),
                *(ended_pod(f"ghost-{index}", 0, 100) for index in range(pods)),
                nodes=(node(allocatable={"nvidia_com_gpu": 2000}),),
            )
            claimed = claim()
            with CaptureQueriesContext(connection) as queries:
                collect_window(claimed=claimed, source=worker(seen).source, actor=ACTOR, at=DUE)
            counts.append(len(queries))
            assert UsageRecord.objects.count() == pods
            transaction.set_rollback(True)

    assert counts[0] == counts[1]
    assert counts[0] <= 28


def test_the_order_in_which_sources_tell_changes_nothing(cluster: Cluster) -> None:
    for uid in ("c", "a", "b"):
        ledgered(cluster, uid, 0, 1000)
    pods = [ended_pod(uid, 0, 1000) for uid in ("b", "c", "a")]
    collect(observation(*pods))
    first = usage()

    collect(observation(*reversed(pods)))

    assert usage() == first
    assert [row[0] for row in first] == ["a", "b", "c"]


def test_ticks_of_a_hole_explain_what_was_not_scraped(cluster: Cluster) -> None:
    ledgered(cluster, "a", 1000, 1100)
    holed = tuple(tick for tick in ticks() if not moment(990) < tick < moment(1120))

    collect(observation(ticks=holed))

    assert [(row[0], row[5]) for row in usage()] == [("a", 100)]
    assert exceptions() == []
