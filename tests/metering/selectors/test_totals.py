"""Totals are added up by the database, in one statement each."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.models import MeteringWindow
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.collection.usage import (
    UsageGroup,
    UsageTotal,
    capacity_totals,
    usage_totals,
)
from metering.selectors.collection.windows import cluster_progress, sealable_window_ids
from metering.selectors.corrections.exceptions import ExceptionTotal, open_exception_totals
from metering.services.collection.sweeping import meter_due
from metering.services.collection.windows import open_due_windows
from metering.services.devices.collection import collect_due_devices
from tenants.models import Cluster, Organization, Project
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import (
    HOUR,
    LATER,
    MIXED_H100,
    device,
    moment,
    node,
    observation,
    pod,
    ticks,
    worker,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

NEXT_DAY = HOUR + timedelta(days=1)
AT = moment(2 * 3600 + LATER)
ENDED_WITH_THE_HOUR: dict[str, Any] = {
    "finished_at": moment(3600),
    "terminal_seen_at": moment(3600),
    "last_seen_at": moment(3600),
}


@shared_rows
def cluster() -> Cluster:
    return make_cluster(metered_from=HOUR)


@pytest.fixture
def llm(cluster: Cluster) -> Project:
    """A project that used two hours of GPUs, beside one that used a slice."""
    organization = make_organization()
    llm, vision = make_project(organization, "llm"), make_project(organization, "vision")
    bind(cluster, "team-nlp", llm)
    bind(cluster, "team-cv", vision)
    second = HOUR + timedelta(hours=1)
    offered = {"nvidia_com_gpu": 4, "nvidia_com_mig_1g_10gb": 2}
    metering = worker(
        observation(
            pod("uid-1", units=2, owner="carol"),
            pod(
                "uid-2",
                "nvidia_com_mig_1g_10gb",
                labels=MIXED_H100,
                namespace="team-cv",
                **ENDED_WITH_THE_HOUR,
            ),
            pod("uid-3", namespace="stray", **ENDED_WITH_THE_HOUR),
            devices=(device(), device("GPU-2", busy_ratio=Decimal("0.2"))),
            nodes=(node(allocatable=offered),),
        ),
        observation(
            pod("uid-1", units=2, last_seen_at=moment(3600 + 607, start_at=second)),
            start_at=second,
            end_at=second + timedelta(hours=1),
            ticks=ticks(start_at=second),
            nodes=(node(allocatable=offered),),
        ),
    )
    meter_due(worker=metering, at=AT)
    collect_due_devices(worker=metering, at=AT)
    return llm


def reported(*groups: UsageGroup, **narrowed: object) -> list[tuple[object, ...]]:
    """Return the groups' values with the unit-seconds."""
    names = {
        UsageGroup.ORGANIZATION: "organization_id",
        UsageGroup.PROJECT: "project_id",
        UsageGroup.OWNER: "owner",
        UsageGroup.CLUSTER: "cluster_id",
        UsageGroup.SIZE: "size",
        UsageGroup.PRICE_GROUP: "price_group",
        UsageGroup.DAY: "bucket_at",
        UsageGroup.HOUR: "bucket_at",
    }
    found = usage_totals(begin_at=HOUR, end_at=NEXT_DAY, group_by=groups, **narrowed)  # type: ignore[arg-type]
    return [(*(getattr(t, names[g]) for g in groups), t.unit_seconds) for t in found]


def test_usage_is_added_up_by_any_groups(llm: Project, cluster: Cluster) -> None:
    organization = Organization.objects.get()

    assert reported() == [(18_000,)]
    assert reported(UsageGroup.ORGANIZATION) == [(organization.pk, 18_000)]
    assert reported(UsageGroup.CLUSTER) == [(cluster.pk, 18_000)]
    assert reported(UsageGroup.SIZE) == [("large", 14_400), ("small", 3_600)]
    assert reported(UsageGroup.PRICE_GROUP, UsageGroup.OWNER) == [
        ("H100/1g.10gb", "", 3_600),
        ("H100/whole", "carol", 14_400),
    ]
    assert reported(UsageGroup.HOUR) == [(HOUR, 10_800), (HOUR + timedelta(hours=1), 7_200)]
    assert reported(UsageGroup.DAY, UsageGroup.SIZE) == [
        (HOUR.replace(hour=0), "large", 14_400),
        (HOUR.replace(hour=0), "small", 3_600),
    ]
    assert reported(UsageGroup.SIZE, project_id=llm.pk) == [("large", 14_400)]
    assert reported(UsageGroup.SIZE, organization_id=llm.pk) == []
    assert reported(projects=Project.objects.filter(slug="vision")) == [(3_600,)]


def test_a_range_without_usage_has_no_totals() -> None:
    assert usage_totals(begin_at=HOUR, end_at=NEXT_DAY, group_by=()) == ()
    assert usage_totals(begin_at=HOUR, end_at=NEXT_DAY, group_by=(UsageGroup.SIZE,)) == ()


def test_busy_time_is_weighted_by_what_was_billed(llm: Project) -> None:
    [first, second] = usage_totals(
        begin_at=HOUR, end_at=NEXT_DAY, group_by=(UsageGroup.HOUR,), project_id=llm.pk
    )

    assert first == UsageTotal(
        organization_id=None,
        project_id=None,
        owner=None,
        cluster_id=None,
        size=None,
        price_group=None,
        bucket_at=HOUR,
        records=1,
        unit_seconds=7_200,
        busy_ratio=Decimal("0.350000"),
        busy_unit_seconds=7_200,
        energy_millijoules=2_000_000,
    )
    assert (second.busy_ratio, second.busy_unit_seconds, second.energy_millijoules) == (
        None,
        0,
        None,
    )


@pytest.mark.usefixtures("llm")
def test_capacity_adds_up_by_cluster_size_and_group() -> None:
    large, small = capacity_totals(begin_at=HOUR, end_at=NEXT_DAY)

    assert (large.size, large.price_group, small.size) == ("large", "H100/whole", "small")
    assert (large.capacity_unit_seconds, large.held_unit_seconds) == (28_800, 3_600)
    assert (large.billed_unit_seconds, large.idle_unit_seconds) == (14_400, 10_800)
    assert (small.billed_unit_seconds, small.idle_unit_seconds) == (3_600, 10_800)


@pytest.mark.usefixtures("llm")
def test_exceptions_tell_how_much_they_hold() -> None:
    assert open_exception_totals(begin_at=HOUR, end_at=NEXT_DAY) == (
        ExceptionTotal("unbound_namespace", 1, 3_600),
    )
    assert open_exception_totals(begin_at=NEXT_DAY, end_at=AT + timedelta(days=9)) == ()


@pytest.mark.usefixtures("llm")
def test_progress_shows_what_is_sealed_and_what_waits(cluster: Cluster) -> None:
    MeteringWindow.objects.create(
        cluster=cluster, start_at=HOUR + timedelta(hours=2), not_before=AT, state="gap"
    )

    [progress] = cluster_progress(begin_at=HOUR, end_at=NEXT_DAY)

    assert (progress.cluster_id, progress.windows, progress.sealed) == (cluster.pk, 3, 2)
    assert (progress.waiting, progress.records) == (1, 3)
    assert progress.first_unsealed_at == HOUR + timedelta(hours=2)
    assert progress.mean_coverage == Decimal(1)


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    "ask",
    [
        lambda: usage_totals(begin_at=HOUR, end_at=NEXT_DAY, group_by=tuple(UsageGroup)),
        lambda: capacity_totals(begin_at=HOUR, end_at=NEXT_DAY),
        lambda: open_exception_totals(begin_at=HOUR, end_at=NEXT_DAY),
        lambda: cluster_progress(begin_at=HOUR, end_at=NEXT_DAY),
    ],
    ids=["usage", "capacity", "exceptions", "progress"],
)
def test_each_total_is_one_statement(ask: Callable[[], tuple[object, ...]]) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert ask()

    assert len(queries) == 1


@pytest.mark.usefixtures("cluster")
def test_sealable_are_the_collected_and_the_reconciled() -> None:
    open_due_windows(at=AT + timedelta(hours=5))
    states = ["open", "collecting", "collected", "reconciled", "gap", "quarantined", "open"]
    rows = list(MeteringWindow.objects.order_by("start_at"))
    for window, state in zip(rows, states, strict=True):
        lease = AT - timedelta(days=9999) if state == "collecting" else None
        MeteringWindow.objects.filter(pk=window.pk).update(
            state=state, lease_until=lease, not_before=AT
        )
    MeteringWindow.objects.filter(pk=rows[-1].pk).update(not_before=AT + timedelta(seconds=1))

    assert sealable_window_ids() == [rows[2].pk, rows[3].pk]


def test_without_a_stored_catalogue_there_is_none() -> None:
    assert catalogue_in_force() is None
