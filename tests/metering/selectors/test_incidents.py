"""Exceptions that are alike are one incident, counted by the database in one statement."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.corrections.exceptions import ExceptionKind
from metering.models import ExceptionState, MeteringException
from metering.protocols.held_costs import HeldUse
from metering.selectors.corrections.incidents import (
    HeldPart,
    Incident,
    incidents_of,
    one_of_each_incident,
    open_among,
)
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.metering.alike import PERCENTAGE, allocated, excepted, hour_of, percented, stray
from tests.support.metering.seen import HOUR
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


def open_incidents(*, limit: int = 200) -> tuple[Incident, ...]:
    return incidents_of(open_among(MeteringException.objects.all()), limit=limit)


def held_by(cluster: Cluster, size: str, hours: int, seconds: int) -> HeldUse:
    return HeldUse(
        cluster_id=cluster.pk,
        organization_id=None,
        size=size,
        price_group="",
        last_start=HOUR + timedelta(hours=hours),
        unit_seconds=seconds,
        pod_seconds=seconds,
    )


@shared_rows
def cluster() -> Cluster:
    return make_cluster(name="Hopper", metered_from=HOUR)


def test_hours_of_one_cause_are_one_row_with_what_is_held_of_each_size(cluster: Cluster) -> None:
    allocated(cluster, "a", "large")
    allocated(cluster, "b", "small")
    oldest = stray(hour_of(cluster, 0), "a")
    oldest.refresh_from_db()
    for number in (1, 2):
        stray(hour_of(cluster, number), "a")
    stray(hour_of(cluster, 2), "b", held=90)
    stray(hour_of(cluster, 2), "c", held=7)

    assert open_incidents() == (
        Incident(
            id=oldest.incident,
            kind=ExceptionKind.UNBOUND_NAMESPACE,
            cause="unbound_namespace",
            cluster_id=cluster.pk,
            cluster="Hopper",
            namespace="stray",
            resource="",
            node="",
            exceptions=5,
            hours=3,
            pods=3,
            first_start=HOUR,
            last_start=HOUR + timedelta(hours=2),
            oldest_id=oldest.pk,
            uses=(
                held_by(cluster, "", 2, 7),
                held_by(cluster, "large", 2, 10_800),
                held_by(cluster, "small", 2, 90),
            ),
        ),
    )
    assert open_incidents()[0].held == (
        HeldPart("small", 90, 90),
        HeldPart("large", 10_800, 10_800),
        HeldPart("", 7, 7),
    )


def test_a_resource_that_nobody_knows_is_not_counted_in_gpus(cluster: Cluster) -> None:
    percented(hour_of(cluster, 0), "a", 50)
    percented(hour_of(cluster, 1), "b", 25)

    [group] = open_incidents()

    assert (group.resource, group.namespace, group.is_counted_in_units) == (
        PERCENTAGE,
        "labeling",
        False,
    )
    assert group.held == (HeldPart("", 75 * 3600, 2 * 3600),)


def test_what_is_resolved_waits_for_nobody(cluster: Cluster) -> None:
    excepted(hour_of(cluster, 0), "single_source", state=ExceptionState.RESOLVED)

    assert open_incidents() == ()


def test_what_stops_an_hour_comes_first_then_what_there_is_most_of(cluster: Cluster) -> None:
    other = make_cluster("ampere", name="Ampere", metered_from=HOUR)
    for number in range(3):
        stray(hour_of(cluster, number), "a", namespace="many")
    stray(hour_of(cluster, 0), "b", namespace="few")
    stray(hour_of(other, 0), "b", namespace="few")
    excepted(hour_of(cluster, 0), "low_coverage")
    excepted(hour_of(cluster, 0), "over_capacity", subject="node-1 nvidia_com_gpu")
    excepted(hour_of(cluster, 0), "unknown_node", subject="u r", namespace="few", node="node-2")

    found = open_incidents()

    assert [(g.kind.value, g.cluster, g.namespace, g.node, g.exceptions) for g in found] == [
        ("low_coverage", "Hopper", "", "", 1),
        ("over_capacity", "Hopper", "", "node-1 nvidia_com_gpu", 1),
        ("unbound_namespace", "Hopper", "many", "", 3),
        ("unbound_namespace", "Ampere", "few", "", 1),
        ("unbound_namespace", "Hopper", "few", "", 1),
        ("unknown_node", "Hopper", "few", "node-2", 1),
    ]
    assert [g.is_blocking for g in found] == [True, True, False, False, False, False]
    assert [g.pods for g in found] == [0, 0, 1, 1, 1, 1]
    assert [g.held for g in found[:2]] == [(), ()]
    assert open_incidents(limit=2) == found[:2]


def test_ever_more_causes_are_one_statement(cluster: Cluster) -> None:
    for number in range(30):
        stray(hour_of(cluster, number), "a", namespace=f"n-{number}")

    with CaptureQueriesContext(connection) as queries:
        found = open_incidents()

    assert (len(found), len(queries)) == (30, 1)


def test_use_of_a_bound_namespace_is_that_of_its_organization(cluster: Cluster) -> None:
    cast = make_cast()
    bind(cluster, "llm", cast.llm)
    for number in range(2):
        stray(hour_of(cluster, number), "a", namespace="llm")
    stray(hour_of(cluster, 0), "b")

    found = {one.namespace: one.uses for one in open_incidents()}

    assert {name: [use.organization_id for use in uses] for name, uses in found.items()} == {
        "llm": [cast.acme.pk],
        "stray": [None],
    }


def test_an_incident_keeps_its_key_when_some_of_it_is_resolved(cluster: Cluster) -> None:
    first = stray(hour_of(cluster, 0), "a")
    for number in (1, 2):
        stray(hour_of(cluster, number), "b")
    [before] = open_incidents()
    MeteringException.objects.filter(pk=first.pk).update(state=ExceptionState.RESOLVED)

    [after] = open_incidents()

    assert (after.id, after.exceptions, after.oldest_id) == (before.id, 2, first.pk + 1)
    assert [one.pk for one in one_of_each_incident(MeteringException.objects.all())] == [first.pk]
