"""Collection: one observation becomes records, held exceptions and a balanced capacity."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.errors import ClaimLostError
from metering.domain.window_state import WindowState
from metering.models import (
    CapacityRecord,
    ExceptionKind,
    ExceptionState,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    UsageRecord,
)
from metering.protocols import Observation
from metering.services.collection import Collection, collect_window
from metering.services.sweeping import Worker
from metering.services.windows import ClaimedWindow, claim_windows, open_due_windows
from tenants.models import Cluster, Project
from tests.builders import bind, make_cluster, make_organization, make_project, make_user
from tests.metering.ledger import everything
from tests.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    MIXED_H100,
    SINGLE_H100,
    SLICED_A100,
    WHOLE_H100,
    device,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    source_down,
    ticks,
    worker,
)

pytestmark = pytest.mark.django_db

DUE = moment(3600 + LATER)


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster(metered_from=HOUR)


@pytest.fixture(autouse=True)
def project(cluster: Cluster) -> Project:
    project = make_project(make_organization())
    bind(cluster, "team-nlp", project)
    open_due_windows(at=DUE)
    return project


def claim() -> ClaimedWindow:
    MeteringWindow.objects.exclude(state="collecting").update(state="open", not_before=DUE)
    [claimed] = claim_windows(worker="worker-1", limit=1, at=DUE)
    return claimed


def collect(seen: Observation) -> Collection:
    return collect_window(claimed=claim(), source=worker(seen).source, actor=ACTOR, at=DUE)


def usage() -> list[tuple[object, ...]]:
    return list(
        UsageRecord.objects.order_by("pod_uid", "resource").values_list(
            "pod_uid", "size", "price_group", "sharing_mode", "units", "seconds", "unit_seconds"
        )
    )


def exceptions(state: str = ExceptionState.OPEN) -> list[tuple[str, str, int]]:
    return list(
        MeteringException.objects.filter(state=state)
        .order_by("kind", "subject")
        .values_list("kind", "subject", "held_unit_seconds")
    )


# ---------------------------------------------------------------- golden, one per sharing mode


@pytest.mark.parametrize(
    ("resource", "labels", "size", "price_group", "mode", "share"),
    [
        ("nvidia_com_gpu", WHOLE_H100, "large", "H100/whole", "whole", (1, 1)),
        ("nvidia_com_mig_1g_10gb", MIXED_H100, "small", "H100/1g.10gb", "mig", (1, 7)),
        ("nvidia_com_gpu", SINGLE_H100, "small", "H100/1g.10gb", "mig", (1, 7)),
        ("nvidia_com_gpu", SLICED_A100, "small", "A100/1of4", "time-slicing", (1, 4)),
        (
            "nvidia_com_gpu_shared",
            {**SLICED_A100, "nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"},
            "small",
            "A100/1of4",
            "time-slicing",
            (1, 4),
        ),
        (
            "nvidia_com_gpu",
            {**SLICED_A100, "nvidia_com_gpu_sharing_strategy": "mps"},
            "small",
            "A100/1of4",
            "mps",
            (1, 4),
        ),
        (
            "nvidia_com_mig_1g_10gb_shared",
            {**MIXED_H100, "nvidia_com_mig_1g_10gb_replicas": "2"},
            "small",
            "H100/1g.10gb/1of2",
            "time-slicing",
            (1, 14),
        ),
    ],
)
def test_each_sharing_mode_is_sized_by_its_labels(
    resource: str,
    labels: dict[str, str],
    size: str,
    price_group: str,
    mode: str,
    share: tuple[int, int],
) -> None:
    seen = observation(
        pod("a", resource, 2, labels), nodes=(node(allocatable={resource: 4}, labels=labels),)
    )

    collected = collect(seen)

    assert collected.state is WindowState.RECONCILED
    assert usage() == [("a", size, price_group, mode, 2, 3600, 7200)]
    allocation = PodAllocation.objects.get()
    assert (allocation.share_numerator, allocation.share_denominator) == share
    assert exceptions() == []


def test_four_quarter_shares_and_idle_are_one_gpu_hour() -> None:
    seen = observation(
        *(ended_pod(str(index), 0, 900 * (index + 1), labels=SLICED_A100) for index in range(4)),
        nodes=(node(allocatable={"nvidia_com_gpu": 4}, labels=SLICED_A100),),
    )

    collect(seen)

    capacity = CapacityRecord.objects.get()
    billed = 900 + 1800 + 2700 + 3600
    assert (capacity.billed_unit_seconds, capacity.idle_unit_seconds) == (billed, 14400 - billed)
    share = Decimal(capacity.share_numerator) / capacity.share_denominator
    total = capacity.billed_unit_seconds + capacity.idle_unit_seconds
    assert total * share == 3600


# ---------------------------------------------------------------- times


def test_a_pod_is_billed_from_its_bind_to_its_last_containers_end() -> None:
    collect(observation(ended_pod("a", 600, 1500)))

    record = UsageRecord.objects.get()
    assert (record.begin_at, record.end_at, record.seconds) == (moment(600), moment(1500), 900)
    assert (record.end_kind, record.slack_seconds) == ("exact", 0)
    allocation = PodAllocation.objects.get()
    assert (allocation.end_at, allocation.end_kind) == (moment(1500), "exact")


def test_a_reused_name_is_two_pods() -> None:
    collect(observation(ended_pod("a", 0, 600, name="job"), ended_pod("b", 900, 1000, name="job")))

    assert [(row[0], row[5]) for row in usage()] == [("a", 600), ("b", 100)]


def test_a_pending_pod_and_one_refused_by_the_kubelet_hold_nothing() -> None:
    pending = pod("a", scheduled_at=None, node="")
    refused = pod("b", scheduled_at=moment(100), terminal_seen_at=moment(130))

    collect(observation(pending, refused))

    assert usage() == []
    assert exceptions() == []
    assert not PodAllocation.objects.exists()


def test_a_pod_that_vanished_in_a_hole_is_billed_to_its_last_sight_and_told() -> None:
    holed = tuple(tick for tick in ticks() if not moment(1780) < tick < moment(1900))
    gone = pod("a", last_seen_at=moment(1777))
    # Four missing scrapes are too many to pass unattended; a person accepted the hour.
    MeteringWindow.objects.update(accepts_low_coverage=True)

    collect(observation(gone, ticks=holed))

    record = UsageRecord.objects.get()
    assert (record.end_at, record.end_kind) == (moment(1777), "vanished_in_gap")
    assert record.slack_seconds == 150
    assert exceptions() == [("uncertain_end", "a nvidia_com_gpu", 0)]
    assert MeteringWindow.objects.get().observed_ticks == 116


# ---------------------------------------------------------------- what is held


def test_an_unknown_device_is_held_and_not_billed() -> None:
    seen = observation(
        pod("a", "nvidia_com_mig_9g_10gb", 2),
        nodes=(node(allocatable={"nvidia_com_mig_9g_10gb": 3}),),
    )

    assert collect(seen).state is WindowState.RECONCILED

    assert usage() == []
    assert exceptions() == [("unknown_device", "a nvidia_com_mig_9g_10gb", 7200)]
    capacity = CapacityRecord.objects.get()
    assert capacity.size == ""
    assert (capacity.held_unit_seconds, capacity.idle_unit_seconds) == (7200, 3600)


def test_a_node_without_labels_is_an_exception_of_its_own() -> None:
    collect(observation(pod("a", labels={})))

    assert exceptions() == [("unknown_node", "a nvidia_com_gpu", 3600)]


def test_a_node_with_two_models_is_refused() -> None:
    seen = observation(
        pod("a"), devices=(device(), device("GPU-2", model="NVIDIA L40S", pod="", namespace=""))
    )

    collect(seen)

    [found] = MeteringException.objects.all()
    assert (found.kind, found.details["cause"]) == ("unknown_device", "mixed_models")


def test_an_unbound_namespace_is_held_until_it_is_bound_and_metered_again(
    cluster: Cluster, project: Project
) -> None:
    seen = observation(pod("a", namespace="stray"))
    collect(seen)
    assert exceptions() == [("unbound_namespace", "a nvidia_com_gpu", 3600)]
    assert not PodAllocation.objects.exists()

    bind(cluster, "stray", project)
    collect(seen)

    assert usage() == [("a", "large", "H100/whole", "whole", 1, 3600, 3600)]
    assert exceptions() == []
    assert exceptions(ExceptionState.RESOLVED) == [("unbound_namespace", "a nvidia_com_gpu", 3600)]


def test_an_impossible_request_is_an_exception() -> None:
    collect(observation(pod("a", units=10_001), pod("b", units=-1)))

    assert usage() == []
    assert exceptions() == [
        ("invalid_request", "a nvidia_com_gpu", 0),
        ("invalid_request", "b nvidia_com_gpu", 0),
    ]


def test_a_request_for_nothing_is_nothing() -> None:
    collect(observation(pod("a", units=0)))

    assert (usage(), exceptions()) == ([], [])


# ---------------------------------------------------------------- owners


def test_the_label_owns_before_the_bindings_default_and_nobody_is_not_dropped(
    cluster: Cluster, project: Project
) -> None:
    bind(cluster, "team-cv", project, default_owner=make_user("bob"))

    collect(
        observation(
            pod("a", namespace="team-cv", owner="carol"),
            pod("b", namespace="team-cv"),
            pod("c"),
        )
    )

    owners = dict(UsageRecord.objects.values_list("pod_uid", "owner"))
    assert owners == {"a": "carol", "b": "bob", "c": ""}


# ---------------------------------------------------------------- snapshots


def test_what_a_pod_holds_is_never_derived_again() -> None:
    collect(observation(pod("a", labels=SLICED_A100)))

    collect(observation(pod("a", labels={}, node="renamed", owner="mallory")))

    assert usage() == [("a", "small", "A100/1of4", "time-slicing", 1, 3600, 3600)]
    assert UsageRecord.objects.get().node == "node-1"


def test_a_request_that_changed_is_billed_as_it_was_and_told() -> None:
    collect(observation(pod("a", units=1)))

    collect(observation(pod("a", units=2)))

    assert usage()[0][4:] == (1, 3600, 3600)
    assert exceptions() == [("invalid_request", "a nvidia_com_gpu", 0)]


def test_an_open_allocation_that_is_gone_an_hour_later_is_closed() -> None:
    collect(observation(pod("a", last_seen_at=moment(3600 + 7))))
    PodAllocation.objects.update(end_at=None, end_kind="open")
    next_hour = HOUR + timedelta(hours=1)
    open_due_windows(at=DUE + timedelta(hours=1))
    [claimed] = claim_windows(worker="w", limit=1, at=DUE + timedelta(hours=1))
    assert claimed.start_at == next_hour
    late = PodAllocation.objects.get()
    assert late.last_seen_at == moment(3607)

    PodAllocation.objects.update(last_seen_at=moment(3590))
    collect_window(
        claimed=claimed, source=worker().source, actor=ACTOR, at=DUE + timedelta(hours=1)
    )

    allocation = PodAllocation.objects.get()
    assert (allocation.end_at, allocation.end_kind) == (moment(3590), "vanished_in_gap")


# ---------------------------------------------------------------- devices


def test_busy_ratio_and_energy_stand_beside_a_whole_gpus_usage() -> None:
    collect(observation(pod("uid-1"), devices=(device(),)))

    record = UsageRecord.objects.get()
    assert (record.busy_ratio, record.busy_coverage) == (Decimal("0.500000"), Decimal("1.00000"))
    assert record.energy_millijoules == 1_000_000


def test_shared_devices_tell_nothing_about_a_pod() -> None:
    collect(observation(pod("uid-1", labels=SLICED_A100), devices=(device(),)))

    record = UsageRecord.objects.get()
    assert (record.busy_ratio, record.busy_coverage, record.energy_millijoules) == (None,) * 3


# ---------------------------------------------------------------- capacity


def test_more_than_a_node_offers_keeps_the_window_from_being_reconciled() -> None:
    seen = observation(
        pod("a", units=6), pod("b", units=6), nodes=(node(allocatable={"nvidia_com_gpu": 8}),)
    )

    assert collect(seen).state is WindowState.COLLECTED

    assert exceptions() == [("over_capacity", "node-1 nvidia.com/gpu", 0)]
    assert CapacityRecord.objects.get().idle_unit_seconds == -14400


def test_use_of_a_node_that_offered_nothing_is_told_but_stops_nobody() -> None:
    assert collect(observation(pod("a"), nodes=())).state is WindowState.RECONCILED

    assert exceptions() == [("unknown_node", "node-1 nvidia.com/gpu", 0)]
    capacity = CapacityRecord.objects.get()
    assert (capacity.capacity_unit_seconds, capacity.idle_unit_seconds) == (3600, 0)


# ---------------------------------------------------------------- answers that cannot be used


def test_a_source_that_does_not_answer_makes_the_window_due_later_and_tells_so() -> None:
    metering = worker(observation(pod("a")))
    with source_down(metering):
        failed = collect_window(claimed=claim(), source=metering.source, actor=ACTOR, at=DUE)

    assert failed.state is WindowState.OPEN
    window = MeteringWindow.objects.get()
    assert (window.failures, window.attempt) == (1, 0)
    assert window.last_error == "Prometheus did not answer."
    assert timedelta(seconds=15) <= window.not_before - DUE <= timedelta(seconds=19)
    assert exceptions() == [("source_unavailable", "", 0)]
    assert usage() == []

    collect(observation(pod("a")))

    assert exceptions() == []
    assert len(usage()) == 1
    assert MeteringWindow.objects.get().failures == 0


@pytest.mark.parametrize(
    "broken",
    [
        observation(expected_ticks=0),
        observation(ticks=tuple(reversed(ticks()))),
        observation(pod("a"), pod("a")),
        observation(pod("")),
        observation(pod("a", name="n" * 254)),
        observation(nodes=(node(covered_seconds=-1),)),
        observation(nodes=(node(allocatable={"nvidia_com_gpu": -1}),)),
        observation(devices=(device(busy_ratio=Decimal("NaN")),)),
        observation(devices=(device(busy_ratio=Decimal("1.1")),)),
        observation(devices=(device(energy_millijoules=-1),)),
        observation(devices=(device(samples=-1),)),
    ],
)
def test_an_answer_that_cannot_be_believed_is_a_failed_attempt(broken: Observation) -> None:
    assert collect(broken).state is WindowState.OPEN

    [found] = MeteringException.objects.all()
    assert (found.kind, found.details) == ("source_unavailable", {"reason": "bad_sample"})
    assert usage() == []


def test_an_answer_about_another_hour_is_a_mistake_of_the_source() -> None:
    seen = replace(observation(), start_at=moment(-3600), end_at=HOUR)
    source = worker().source
    source.seen[HOUR] = seen  # type: ignore[attr-defined]

    with pytest.raises(ValueError, match="another window"):
        collect_window(claimed=claim(), source=source, actor=ACTOR, at=DUE)


def test_low_coverage_is_retried_then_becomes_a_gap() -> None:
    half = observation(pod("a"), ticks=ticks(begin=1800))
    states = [collect(half).state for _ in range(6)]

    assert states == [WindowState.OPEN] * 5 + [WindowState.GAP]
    assert usage() == []
    [found] = MeteringException.objects.all()
    assert (found.kind, found.state) == (ExceptionKind.LOW_COVERAGE, ExceptionState.OPEN)
    assert found.details == {"expected": 120, "observed": 60, "coverage": "0.50000"}


def test_an_old_window_with_low_coverage_is_a_gap_at_once() -> None:
    half = observation(pod("a"), ticks=ticks(begin=1800))

    collected = collect_window(
        claimed=claim(), source=worker(half).source, actor=ACTOR, at=DUE + timedelta(days=2)
    )

    assert collected.state is WindowState.GAP


def test_a_window_whose_end_nobody_saw_is_never_posted() -> None:
    MeteringWindow.objects.update(accepts_low_coverage=True)

    assert collect(observation(pod("a"), ticks=ticks(end=3590))).state is WindowState.OPEN

    assert "none after it" in MeteringException.objects.get().summary
    assert usage() == []


def test_a_later_attempt_looks_further_ahead() -> None:
    metering = worker()
    claimed = replace(claim(), failures=2)
    at = DUE + timedelta(days=1)

    collect_window(claimed=claimed, source=metering.source, actor=ACTOR, at=at)

    assert metering.source.asked == [(HOUR, moment(3600 + 4 * LATER))]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- again, and by others


def test_metering_a_window_twice_changes_nothing() -> None:
    seen = observation(
        pod("uid-1", units=2),
        ended_pod("b", 10, 20),
        pod("c", namespace="stray"),
        devices=(device(),),
    )
    collect(seen)
    before = everything()

    collect(seen)

    assert everything() == before
    assert UsageRecord.objects.count() == 2


def test_an_overtaken_worker_writes_nothing() -> None:
    claimed = claim()
    MeteringWindow.objects.update(fence=claimed.fence + 1)

    with pytest.raises(ClaimLostError) as refusal:
        collect_window(
            claimed=claimed, source=worker(observation(pod("a"))).source, actor=ACTOR, at=DUE
        )

    assert refusal.value.code == "metering_claim_lost"
    assert not UsageRecord.objects.exists()
    assert not PodAllocation.objects.exists()
    assert MeteringWindow.objects.get().state == "collecting"


def test_an_overtaken_worker_cannot_report_a_failure_either() -> None:
    metering: Worker = worker()
    claimed = claim()
    MeteringWindow.objects.update(fence=claimed.fence + 1)

    with source_down(metering), pytest.raises(ClaimLostError):
        collect_window(claimed=claimed, source=metering.source, actor=ACTOR, at=DUE)

    assert not MeteringException.objects.exists()


def test_the_number_of_statements_does_not_grow_with_the_pods() -> None:
    def seen(pods: int) -> Observation:
        return observation(
            *(pod(f"{pods}-{index}") for index in range(pods)),
            pod("stray", namespace="stray"),
            nodes=(node(allocatable={"nvidia_com_gpu": 2000}),),
        )

    counts = []
    collect(seen(1))
    for pods in (10, 1000):
        claimed = claim()
        source = worker(seen(pods)).source
        with CaptureQueriesContext(connection) as queries:
            collect_window(claimed=claimed, source=source, actor=ACTOR, at=DUE)
        counts.append(len(queries))

    assert counts[0] == counts[1] == 16
    assert UsageRecord.objects.count() == 1000
