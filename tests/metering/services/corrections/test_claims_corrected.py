"""A claim of a sealed hour stays billed once, anyone who turns out to have used it."""

from typing import Any

import pytest

from metering.models import (
    CapacityRecord,
    MeteringException,
    PodAllocation,
    UsageCorrection,
    UsageRecord,
)
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.sweeping import meter_due
from metering.services.corrections.exceptions import resolve_exception
from metering.services.corrections.review import ask_correction
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import (
    LARGE_H100,
    UNSIZED,
    ledgered,
    offered,
    reserved,
    watched,
)
from tests.support.metering.rechecking import (
    FIRST,
    SEALED_AT,
    SECOND,
    corrections,
    recheck,
    seal_hour,
    sums,
)
from tests.support.metering.seen import ACTOR, HOUR, observation, worker

CLAIM = "claim/gpu.nvidia.com"
NODE = "node-2"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The open window.
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster, until=10 * 3600)
    offered(cluster)
    offered(cluster, NODE, {CLAIM: 1})


def claimed(cluster: Cluster, uid: str = "c1", **fields: object) -> PodAllocation:
    given: dict[str, Any] = {"resource": CLAIM, "node": NODE, **fields}
    return ledgered(cluster, uid, **given)


def balance() -> list[tuple[object, ...]]:
    """Return what the claims' node offered, was billed, held and had idle."""
    return list(
        CapacityRecord.objects.filter(node=NODE)
        .order_by("resource")
        .values_list(
            "resource",
            "capacity_unit_seconds",
            "billed_unit_seconds",
            "held_unit_seconds",
            "idle_unit_seconds",
        )
    )


def test_a_pod_that_is_known_late_takes_its_part_from_the_others(cluster: Cluster) -> None:
    claimed(cluster)
    reserved(cluster, "c1", "p1", -600)
    metering = seal_hour()
    assert sums() == {"p1": 3600}

    reserved(cluster, "c1", "p2", -600)
    recheck(metering)

    assert sums() == {"p1": 1800, "p2": 1800}
    assert corrections() == [("late_data", "posted", 2, 0)]
    assert UsageCorrection.objects.get().reason == (
        "What a device claim used is split otherwise among its pods. It was looked at again at a "
        "set time after it."
    )
    recheck(metering, SECOND)
    assert len(corrections()) == 1


def test_the_only_pod_that_is_known_late_takes_what_was_the_claims(cluster: Cluster) -> None:
    claimed(cluster)
    metering = seal_hour()
    assert sums() == {"c1": 3600}

    reserved(cluster, "c1", "p1", -600)
    recheck(metering)

    assert sums() == {"c1": 0, "p1": 3600}
    assert corrections() == [("late_data", "posted", 2, 0)]
    moved = UsageRecord.objects.get(pod_uid="p1")
    assert (moved.resource, moved.price_group, moved.node) == (
        "claim/c1/gpu.nvidia.com",
        "H100/whole",
        NODE,
    )


def test_another_class_of_a_claim_renames_nothing(cluster: Cluster) -> None:
    claimed(cluster, end_at=HOUR.replace(minute=30), end_kind="vanished")
    reserved(cluster, "c1", "p1", -600)
    metering = seal_hour()

    claimed(cluster, resource="claim/a.example")
    recheck(metering)

    assert sums() == {"p1": 1800 + 3600}
    assert set(UsageRecord.objects.values_list("resource", "revision", "unit_seconds")) == {
        ("claim/c1/gpu.nvidia.com", 0, 1800),
        ("claim/c1/a.example", 1, 3600),
    }


def test_what_a_person_took_from_a_part_is_not_moved_by_a_recheck(cluster: Cluster) -> None:
    claimed(cluster)
    reserved(cluster, "c1", "p1", -600)
    metering = seal_hour()
    ask_correction(
        record=UsageRecord.objects.get(),
        unit_seconds=None,
        reason="The node was broken.",
        is_four_eyes=False,
        actor=ACTOR,
        at=FIRST,
    )

    reserved(cluster, "c1", "p2", -600)
    assert recheck(metering).failed == 0

    assert sums() == {"p1": 0}
    assert [row[:2] for row in corrections()] == [("retraction", "posted")]


def test_a_correction_of_a_claim_moves_what_its_node_offers(cluster: Cluster) -> None:
    claimed(cluster)
    reserved(cluster, "c1", "p1", -600)
    metering = seal_hour()
    assert balance() == [(CLAIM, 3600, 3600, 0, 0)]

    ask_correction(
        record=UsageRecord.objects.get(),
        unit_seconds=-600,
        reason="The node was broken.",
        is_four_eyes=False,
        actor=ACTOR,
        at=FIRST,
    )
    assert balance() == [(CLAIM, 3600, 3000, 0, 600)]

    claimed(cluster, "c2", resource=f"{CLAIM}#2")
    assert recheck(metering).failed == 0
    assert {row[0] for row in balance()} == {CLAIM}


def test_a_retracted_claim_leaves_what_its_node_offers_idle(cluster: Cluster) -> None:
    claimed(cluster)
    reserved(cluster, "c1", "p1", -600)
    seal_hour()

    ask_correction(
        record=UsageRecord.objects.get(),
        unit_seconds=None,
        reason="The node was broken.",
        is_four_eyes=False,
        actor=ACTOR,
        at=FIRST,
    )

    assert balance() == [(CLAIM, 3600, 0, 0, 3600)]


def test_a_claim_beyond_what_its_node_offers_waits_for_a_person(cluster: Cluster) -> None:
    claimed(cluster)
    reserved(cluster, "c1", "p1", -600)
    metering = seal_hour()

    claimed(cluster, "c2")
    reserved(cluster, "c2", "p2", -600)
    recheck(metering)

    assert corrections() == [("late_data", "proposed", 1, 3600)]
    assert sums() == {"p1": 3600}
    assert balance() == [(CLAIM, 3600, 3600, 0, 0)]


def test_parts_of_a_claim_may_move_on_a_node_that_is_full(cluster: Cluster) -> None:
    claimed(cluster)
    claimed(cluster, "c2")
    reserved(cluster, "c1", "p1", -600)
    reserved(cluster, "c2", "p2", -600)
    metering = worker(observation())
    meter_due(worker=metering, at=SEALED_AT)
    [cause] = MeteringException.objects.filter(kind="over_capacity")
    resolve_exception(exception_id=cause.pk, note="It is so.", actor=ACTOR, at=SEALED_AT)
    meter_due(worker=metering, at=SEALED_AT)

    reserved(cluster, "c2", "p3", -600)
    recheck(metering)

    assert sums() == {"p1": 3600, "p2": 1800, "p3": 1800}
    assert corrections() == [("late_data", "posted", 2, 0)]


def test_what_an_exception_held_of_a_claim_is_released_by_its_correction(
    cluster: Cluster,
) -> None:
    row = claimed(cluster, node_labels={}, price_group="", sharing_mode="", product="", **UNSIZED)
    reserved(cluster, "c1", "p1", -600)
    reserved(cluster, "c1", "p2", 0)
    metering = seal_hour()
    assert (sums(), balance()) == ({}, [(CLAIM, 3600, 0, 3600, 0)])

    PodAllocation.objects.filter(pk=row.pk).update(**LARGE_H100)
    recheck(metering)

    assert sums() == {"p1": 1800, "p2": 1800}
    assert corrections() == [("released", "posted", 2, 3600)]
    assert balance() == [(CLAIM, 3600, 3600, 0, 0)]
    held = MeteringException.objects.get(held_unit_seconds=3600)
    assert (held.state, held.resolution) == (
        "resolved",
        f"Billed by usage correction {UsageCorrection.objects.get().pk}.",
    )
