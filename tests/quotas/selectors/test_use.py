"""Used against limit, told at every scope."""

from datetime import datetime, timedelta

import pytest

from metering.domain.gpu_sizes import GPUSize
from quotas.selectors.use import (
    UseKey,
    units_by_namespace,
    use_against_limits,
    used_units,
)
from tenants.models import Cluster
from tests.builders import AT, MONTH_START, bind, make_cluster
from tests.cast import Cast
from tests.quotas.builders import hold, make_limit

LARGE, SMALL = GPUSize.LARGE, GPUSize.SMALL


@pytest.fixture
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    bind(cluster, "llm-serve", cast.llm)
    bind(cluster, "virus", cast.virus)
    return cluster


def test_units_of_open_allocations_add_up_by_namespace_and_size(hopper: Cluster) -> None:
    other = make_cluster("ampere")
    hold(hopper, "llm", units=2, owner="carol")
    hold(hopper, "llm", units=1, owner="bob")
    hold(hopper, "llm", units=5, size="small")
    hold(hopper, "llm", units=9, end_at=AT)
    hold(other, "llm", units=4)

    assert units_by_namespace() == {
        (hopper.pk, "llm"): {LARGE: 3, SMALL: 5},
        (other.pk, "llm"): {LARGE: 4},
    }


def test_use_counts_at_organization_project_and_owner(hopper: Cluster, cast: Cast) -> None:
    hold(hopper, "llm", units=2, owner="carol")
    hold(hopper, "llm-serve", units=3)
    hold(hopper, "virus", units=1)

    used = used_units(at=AT)

    assert used == {
        UseKey(cast.acme.pk, None, None, LARGE): 5,
        UseKey(cast.acme.pk, cast.llm.pk, None, LARGE): 5,
        UseKey(cast.acme.pk, cast.llm.pk, "carol", LARGE): 2,
        UseKey(cast.umbrella.pk, None, None, LARGE): 1,
        UseKey(cast.umbrella.pk, cast.virus.pk, None, LARGE): 1,
    }


def test_use_follows_the_binding_in_force(cast: Cast) -> None:
    cluster = make_cluster()
    bind(cluster, "moved", cast.llm, end_at=AT)
    bind(cluster, "moved", cast.vision, begin_at=AT)
    hold(cluster, "moved", units=2)

    before = used_units(at=AT - timedelta(hours=1))
    after = used_units(at=AT)

    assert before[UseKey(cast.acme.pk, cast.llm.pk, None, LARGE)] == 2
    assert after[UseKey(cast.acme.pk, cast.llm.pk, None, LARGE)] == 0
    assert after[UseKey(cast.acme.pk, cast.vision.pk, None, LARGE)] == 2


def test_what_no_label_claims_is_held_by_the_default_owner_of_the_binding_in_force(
    cast: Cast,
) -> None:
    cluster = make_cluster()
    bind(cluster, "moved", cast.llm, end_at=AT, default_owner=cast.carol)
    bind(cluster, "moved", cast.virus, begin_at=AT, default_owner=cast.frank)
    hold(cluster, "moved", units=2)
    hold(cluster, "moved", units=1, owner="bob")

    def owners(at: datetime) -> dict[str | None, int]:
        return {key.username: units for key, units in used_units(at=at).items() if key.username}

    assert owners(AT - timedelta(hours=1)) == {"carol": 2, "bob": 1}
    assert owners(AT) == {"frank": 2, "bob": 1}


def test_what_nobody_is_bound_to_counts_nowhere(hopper: Cluster) -> None:
    hold(hopper, "nobodys", units=7)

    assert used_units(at=AT) == {}
    assert used_units(at=MONTH_START - timedelta(days=1)) == {}


def test_rows_come_for_limits_without_use_and_use_without_limits(
    hopper: Cluster, cast: Cast
) -> None:
    limit = make_limit(cast.acme, units=4)
    hold(hopper, "llm", units=5, owner="carol")

    rows = use_against_limits(at=AT, organization_ids=[cast.acme.pk])

    told = [
        (row.key.project_id, row.key.username, row.limit_id, row.headroom.over_units)
        for row in rows
    ]
    assert told == [
        (None, None, limit.pk, 1),
        (cast.llm.pk, None, None, 0),
        (cast.llm.pk, "carol", None, 0),
    ]


def test_only_the_organizations_asked_for_are_told(hopper: Cluster, cast: Cast) -> None:
    hold(hopper, "llm")
    hold(hopper, "virus")
    make_limit(cast.acme)
    make_limit(cast.umbrella)

    every = use_against_limits(at=AT)
    own = use_against_limits(at=AT, organization_ids=[cast.umbrella.pk])

    assert {row.key.organization_id for row in every} == {cast.acme.pk, cast.umbrella.pk}
    assert {row.key.organization_id for row in own} == {cast.umbrella.pk}
