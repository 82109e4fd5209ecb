"""Collection: one observation becomes records and a balanced capacity."""

from decimal import Decimal

import pytest

from metering.domain.collection.windows import WindowState
from metering.models import (
    CapacityRecord,
    MeteringWindow,
    PodAllocation,
    UsageRecord,
)
from tests.support.metering.collecting import collect, exceptions, usage
from tests.support.metering.seen import (
    MIXED_H100,
    SINGLE_H100,
    SLICED_A100,
    WHOLE_H100,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    ticks,
)

pytestmark = pytest.mark.usefixtures("project")


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


def test_what_a_preemptible_pod_holds_is_distinguished_and_its_node_still_balances() -> None:
    seen = observation(
        pod("a", priority_class="gpu-ledger-burst"),
        pod("b", priority_class="gpu-standard"),
        nodes=(node(allocatable={"nvidia_com_gpu": 4}),),
    )

    collect(seen)

    assert [row[:3] for row in usage()] == [
        ("a", "large", "H100/whole/burst"),
        ("b", "large", "H100/whole"),
    ]
    capacity = CapacityRecord.objects.get()
    assert capacity.price_group == "H100/whole"
    assert (capacity.billed_unit_seconds, capacity.idle_unit_seconds) == (7200, 7200)


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


def test_a_pod_that_vanished_in_a_hole_is_billed_to_its_last_observation_and_reported() -> None:
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


# ---------------------------------------------------------------- capacity


def test_more_than_a_node_offers_keeps_the_window_from_being_reconciled() -> None:
    seen = observation(
        pod("a", units=6), pod("b", units=6), nodes=(node(allocatable={"nvidia_com_gpu": 8}),)
    )

    assert collect(seen).state is WindowState.COLLECTED

    assert exceptions() == [("over_capacity", "node-1 nvidia.com/gpu", 0)]
    assert CapacityRecord.objects.get().idle_unit_seconds == -14400


def test_use_of_a_node_that_offered_nothing_is_reported_but_stops_nobody() -> None:
    assert collect(observation(pod("a"), nodes=())).state is WindowState.RECONCILED

    assert exceptions() == [("unknown_node", "node-1 nvidia.com/gpu", 0)]
    capacity = CapacityRecord.objects.get()
    assert (capacity.capacity_unit_seconds, capacity.idle_unit_seconds) == (3600, 0)


@pytest.mark.parametrize("name", ["a\tb", "a\nb\rc", "\\N", "\\.", "a\\", "\x01\x0b", "ä\u2028€"])
def test_every_text_is_stored_as_it_is(name: str) -> None:
    collect(observation(pod("a", name=name, owner=name), pod("b", name="plain")))

    records = UsageRecord.objects.order_by("pod_uid").values_list("pod_name", "owner")
    assert list(records) == [(name, name), ("plain", "")]
