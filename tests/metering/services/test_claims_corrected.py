"""A claim of a sealed hour stays billed once, whoever turns out to have used it."""

import pytest

from metering.models import (
    CapacityRecord,
    PodAllocation,
    UsageCorrection,
    UsageRecord,
)
from metering.services.catalogue import ensure_catalogue
from metering.services.corrections import ask_correction
from tenants.models import Cluster, Project
from tests.metering.rechecking import FIRST, SECOND, corrections, recheck, seal_hour, sums
from tests.metering.seen import ACTOR, HOUR
from tests.metering.watched import ledgered, offered, reserved, watched

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
    return ledgered(cluster, uid, **{"resource": CLAIM, "node": NODE, **fields})


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
