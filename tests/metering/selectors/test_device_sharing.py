"""Who was on one device with whom: when, how surely, and named only to anyone who may know."""

from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from metering.domain.devices.attribution import CoTenancyEvidence, Peer
from metering.selectors.devices.sharing import (
    CoTenancyInterval,
    ReadableIntervals,
    device_sharing,
    reach_of,
)
from tenants.models import Cluster, Project
from tests.support.builders import make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.shared_devices import instance, moment, offer, share
from tests.support.shared_rows import shared_rows

EVERYBODY = ReadableIntervals(None)
Found = tuple[CoTenancyInterval, ...]


@shared_rows
def cast() -> Cast:
    return make_cast()


@shared_rows
def hopper(cast: Cast) -> Cluster:  # noqa: ARG001 - As above.
    return make_cluster()


def find(
    reach: ReadableIntervals = EVERYBODY,
    *,
    begin: int = 0,
    end: int = 60,
    organization_id: UUID | None = None,
    cluster_id: UUID | None = None,
    after: str = "",
    limit: int = 100,
) -> Found:
    return device_sharing(
        begin_at=moment(begin),
        end_at=moment(end),
        reach=reach,
        limit=limit,
        organization_id=organization_id,
        cluster_id=cluster_id,
        after=after,
    )


def pairs(found: Found) -> set[tuple[str, str]]:
    return {(one.project, one.other_project) for one in found}


def minutes(found: Found, project: str = "llm") -> list[tuple[int, int]]:
    start = moment(0)
    return [
        ((one.begin_at - start).seconds // 60, (one.end_at - start).seconds // 60)
        for one in found
        if one.project == project
    ]


def test_pods_of_two_tenants_on_a_nodes_only_shared_device_were_on_it_together(
    cast: Cast, hopper: Cluster
) -> None:
    offer(hopper, 4)
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.virus, 20, 50)

    found = find()

    assert pairs(found) == {("llm", "virus"), ("virus", "llm")}
    one = found[0]
    assert (one.begin_at, one.end_at) == (moment(20), moment(30))
    assert (one.cluster, one.node, one.place) == ("hopper", "node-1", "nvidia.com/gpu")
    assert (one.sharing_mode, one.evidence) == ("time-slicing", CoTenancyEvidence.SAME_DEVICE)
    assert {(row.organization, row.other_organization) for row in found} == {
        ("acme", "umbrella"),
        ("umbrella", "acme"),
    }


@pytest.mark.parametrize("units", [8, None])
def test_where_a_node_has_several_or_unknown_devices_only_the_node_is_certain(
    cast: Cast, hopper: Cluster, units: int | None
) -> None:
    if units:
        offer(hopper, units)
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.virus, 20, 50)

    assert {one.evidence for one in find()} == {CoTenancyEvidence.SAME_NODE}


@pytest.mark.parametrize(
    "changed",
    [
        {"node": "node-2"},
        {"resource": "nvidia.com/mig-1g.10gb.shared"},
        {"sharing_mode": "whole", "price_group": "A100/whole"},
        {"begin_at": moment(30)},
        {"project": None},
    ],
)
def test_pods_that_could_not_have_met_are_not_reported(
    cast: Cast, hopper: Cluster, changed: dict[str, object]
) -> None:
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.virus, 0, 60, **changed)

    assert find() == ()


def test_another_clusters_node_of_the_same_name_is_another_node(
    cast: Cast, hopper: Cluster
) -> None:
    share(hopper, cast.llm, 0, 30)
    share(make_cluster("other"), cast.virus, 0, 30)

    assert find() == ()


def test_pods_of_one_project_are_one_peer_as_long_as_one_of_them_is_there(
    cast: Cast, hopper: Cluster
) -> None:
    share(hopper, cast.llm, 0, 10)
    share(hopper, cast.llm, 5, 20)
    share(hopper, cast.llm, 40, 50)
    share(hopper, cast.virus, 0, 60)

    assert minutes(find()) == [(0, 20), (40, 50)]


def test_what_still_runs_lasts_to_the_end_that_was_asked_for(cast: Cast, hopper: Cluster) -> None:
    share(hopper, cast.llm, -120, None)
    share(hopper, cast.virus, 10, None)

    assert minutes(find(begin=0, end=45)) == [(10, 45)]
    assert find(begin=0, end=10) == ()


def test_instances_of_one_gpu_are_reported_as_hardware_apart(cast: Cast, hopper: Cluster) -> None:
    instance(hopper, cast.llm, 1, begin=0, end=30)
    instance(hopper, cast.virus, 2, begin=20, end=60)
    instance(hopper, cast.vision, 3, uuid="GPU-2")

    found = find()

    assert pairs(found) == {("llm", "virus"), ("virus", "llm")}
    one = found[0]
    assert (one.evidence, one.sharing_mode) == (CoTenancyEvidence.SAME_GPU_INSTANCES, "mig")
    assert (one.place, one.begin_at, one.end_at) == ("GPU-1", moment(20), moment(30))


def test_devices_that_served_nobody_alone_are_no_evidence(cast: Cast, hopper: Cluster) -> None:
    instance(hopper, cast.llm, 1)
    instance(
        hopper, cast.virus, 2, attribution="shared", project=None, organization=None, pod_uid=""
    )
    instance(hopper, cast.virus, 0, instance_id="", instance_profile="", sharing_mode="whole")

    assert find() == ()


def test_a_tenant_reads_that_it_shared_and_not_with_whom(cast: Cast, hopper: Cluster) -> None:
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.vision, 0, 30)
    share(hopper, cast.virus, 0, 30)

    found = find(ReadableIntervals({cast.llm.pk}))

    reported = {(one.project, one.peer, one.other_organization, one.other_project) for one in found}
    assert reported == {
        ("llm", Peer.OTHER_TENANT, "", ""),
        ("llm", Peer.OTHER_PROJECT, "acme", ""),
    }
    assert str(cast.virus.pk) not in repr(found)


def test_what_a_tenant_reaches_itself_is_named(cast: Cast, hopper: Cluster) -> None:
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.vision, 0, 30)

    found = find(reach_of(Project.objects.filter(organization=cast.acme)))

    assert pairs(found) == {("llm", "vision"), ("vision", "llm")}


def test_who_reaches_nothing_reads_nothing(cast: Cast, hopper: Cluster) -> None:
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.virus, 0, 30)

    assert find(reach_of(Project.objects.none())) == ()


def test_one_organizations_side_can_be_asked_for(cast: Cast, hopper: Cluster) -> None:
    share(hopper, cast.llm, 0, 30)
    share(hopper, cast.virus, 0, 30)

    assert pairs(find(organization_id=cast.umbrella.pk)) == {("virus", "llm")}


def test_pages_follow_each_other_without_loss_and_tell_no_id(cast: Cast, hopper: Cluster) -> None:
    for begin in range(0, 60, 20):
        share(hopper, cast.llm, begin, begin + 10)
    share(hopper, cast.virus, 0, 60)
    share(hopper, cast.vision, 0, 60)
    whole = find()

    paged: list[CoTenancyInterval] = []
    while page := find(limit=3, after=paged[-1].mark if paged else ""):
        paged.extend(page)

    assert tuple(paged) == whole
    assert len(whole) == 3 * 4 + 2


@pytest.mark.parametrize(
    "cursor", ["x", "!!", "W10=", "eyJhIjoxfQ==", "WyIxIiwiMiIsIjMiLCI0IiwiNSJd"]
)
def test_a_cursor_of_somebody_else_is_refused(cast: Cast, cursor: str) -> None:  # noqa: ARG001
    with pytest.raises(ValueError, match=r"ursor|isoformat|UUID|Expecting"):
        find(after=cursor)


@pytest.mark.parametrize("pods", [2, 40])
def test_it_is_two_statements_whatever_there_is(
    cast: Cast, hopper: Cluster, pods: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    offer(hopper, 4)
    for number in range(pods):
        share(hopper, (cast.llm, cast.virus)[number % 2], number, 60)

    with django_assert_num_queries(2):
        found = find()

    assert len(found) == 2


stretches = st.lists(
    st.tuples(st.sampled_from(["llm", "vision", "virus"]), st.integers(0, 20), st.integers(1, 10)),
    max_size=8,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(held=stretches)
def test_it_shows_exactly_the_minutes_in_which_both_held_something(
    cast: Cast, hopper: Cluster, held: list[tuple[str, int, int]]
) -> None:
    there: dict[str, set[int]] = {"llm": set(), "vision": set(), "virus": set()}
    with transaction.atomic():
        for name, begin, length in held:
            share(hopper, getattr(cast, name), begin, begin + length)
            there[name] |= set(range(begin, begin + length))
        found = find()
        transaction.set_rollback(True)

    for name, own in there.items():
        for other, others in there.items():
            reported = [one for one in found if (one.project, one.other_project) == (name, other)]
            spans = minutes(tuple(reported), project=name)
            seen = [minute for begin, end in spans for minute in range(begin, end)]
            assert seen == sorted(own & others if name != other else set())


def test_one_cluster_is_reported_alone(cast: Cast, hopper: Cluster) -> None:
    ampere = make_cluster("ampere")
    for cluster in (hopper, ampere):
        offer(cluster, 4)
        share(cluster, cast.llm, 0, 30)
        share(cluster, cast.virus, 20, 60)
    instance(ampere, cast.llm, 1)
    instance(ampere, cast.virus, 2)

    reported = {
        name: sorted((one.cluster, one.evidence.value) for one in find(cluster_id=cluster_id))
        for name, cluster_id in (("hopper", hopper.pk), ("ampere", ampere.pk), ("no", UUID(int=1)))
    }

    assert reported == {
        "hopper": [("hopper", "same_device")] * 2,
        "ampere": [("ampere", "same_device")] * 2 + [("ampere", "same_gpu_instances")] * 2,
        "no": [],
    }
    assert len(find()) == 6
