"""What pods hold and were let in for, each pod counted once."""

from datetime import timedelta

from pytest_django import DjangoAssertNumQueries

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.tally import UnitsNow
from quotas.selectors.limits.units_now import pods_now, units_now
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold
from tests.support.quotas.fair_use import HOUR, reserve, run
from tests.support.shared_rows import shared_rows

BURST = ["gpu-ledger-burst"]


@shared_rows
def admitting(cast: Cast) -> Cluster:
    """A cluster that admits, with an open allocation its reservations know about."""
    cluster = make_cluster("admitting", admission_mode="warn", is_watched=True)
    bind(cluster, "llm", cast.llm)
    hold(cluster, "llm", units=2)
    return cluster


@shared_rows
def plain(cast: Cast) -> Cluster:
    cluster = make_cluster("plain")
    bind(cluster, "llm", cast.llm, default_owner=cast.bob)
    return cluster


def now(cast: Cast) -> list[UnitsNow]:
    found = units_now(at=AT, organization_ids=[cast.acme.pk], burst_classes=BURST)
    return sorted(found, key=lambda use: (use.units, use.username))


def test_a_pod_is_counted_once_by_its_reservation_where_admission_is_on(
    admitting: Cluster, cast: Cast
) -> None:
    reserve(admitting, cast.llm, units=2, username="carol")

    assert now(cast) == [
        UnitsNow(
            organization_id=cast.acme.pk,
            project_id=cast.llm.pk,
            username="carol",
            size=GPUSize.LARGE,
            cluster_id=admitting.pk,
            units=2,
            model_groups=("H100",),
        )
    ]


def test_a_pod_is_counted_once_by_its_allocation_where_admission_is_off(
    plain: Cluster, cast: Cast
) -> None:
    hold(plain, "llm", units=3, owner="carol")
    reserve(plain, cast.llm, units=3, username="carol")

    (use,) = now(cast)

    assert (use.username, use.units, use.model_groups, use.is_held) == ("carol", 3, ("H100",), True)


def test_what_has_expired_or_was_released_counts_no_more(admitting: Cluster, cast: Cast) -> None:
    reserve(admitting, cast.llm, units=1, state="reserved", expires_at=AT)
    reserve(admitting, cast.llm, units=2, state="reserved", expires_at=AT + timedelta(seconds=1))
    reserve(admitting, cast.llm, units=3, state="reserved")
    reserve(admitting, cast.llm, units=4, state="released")

    assert [(use.units, use.is_held) for use in now(cast)] == [(5, False)]


def test_pods_alike_are_added_up_by_the_database(admitting: Cluster, cast: Cast) -> None:
    for _ in range(3):
        reserve(admitting, cast.llm, units=2)

    assert [use.units for use in now(cast)] == [6]


def test_preemptible_pods_are_distinguished(plain: Cluster, admitting: Cluster, cast: Cast) -> None:
    run(plain, cast.llm, priority_class=BURST[0])
    hold(plain, "llm", units=2)
    reserve(admitting, cast.llm, units=3, is_burst=True)

    assert [(use.units, use.is_burst) for use in now(cast)] == [(1, True), (2, False), (3, True)]


def test_what_no_label_claims_is_its_namespaces_default_owners(plain: Cluster, cast: Cast) -> None:
    hold(plain, "llm", units=2)
    hold(plain, "nobodys", units=9)

    assert [(use.username, use.units) for use in now(cast)] == [("bob", 2)]


def test_another_organization_is_not_reported(
    admitting: Cluster, plain: Cluster, cast: Cast
) -> None:
    reserve(admitting, cast.virus, units=1)
    bind(plain, "virus", cast.virus)
    hold(plain, "virus", units=1)

    assert now(cast) == []


def test_each_pod_is_reported_with_its_begin_and_its_kind(
    admitting: Cluster, plain: Cluster, cast: Cast
) -> None:
    reserve(admitting, cast.llm, controller="Job/train", held_at=AT - 2 * HOUR)
    reserve(admitting, cast.llm, units=2, state="reserved", admitted_at=AT - HOUR)
    held = run(plain, cast.llm, units=3, controller="Notebook/carol")
    hold(plain, "llm", units=4, size="small")

    pods = pods_now(at=AT, organization_id=cast.acme.pk, size=GPUSize.LARGE, burst_classes=BURST)

    assert sorted((pod.use.units, pod.begin_at, pod.kind) for pod in pods) == [
        (1, AT - 2 * HOUR, "Job"),
        (2, AT - HOUR, ""),
        (3, held.begin_at, "Notebook"),
    ]


def test_both_ways_cost_two_statements(
    admitting: Cluster,
    plain: Cluster,
    cast: Cast,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(5):
        reserve(admitting, cast.llm)
        hold(plain, "llm")

    with django_assert_num_queries(2):
        now(cast)
    with django_assert_num_queries(2):
        pods_now(at=AT, organization_id=cast.acme.pk, size=GPUSize.LARGE, burst_classes=BURST)
