"""Limits read as a tree, and rows locked in the one order."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.selectors import LimitSelector
from quotas.domain.limits.tree import GrantSpan, LimitKey, TreeLimit
from quotas.selectors.limits.limits import limit_tree, project_limit_units
from quotas.selectors.locks import lock_limit_path, lock_request
from tenants.domain.identifiers import new_id
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_grant, make_limit

HOUR = timedelta(hours=1)


def test_the_tree_holds_one_organization_and_the_sizes_asked_for(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    hopper = make_cluster()
    top = make_limit(cast.acme, units=10, overcommit_percent=150)
    make_limit(cast.acme, cast.llm, units=None, model_group="H100", cluster=hopper)
    make_limit(cast.acme, cast.llm, cast.carol, units=2)
    make_limit(cast.acme, cast.llm, size="small", units=1)
    make_limit(cast.umbrella, cast.virus, units=3)
    make_grant(top, 4, AT - HOUR, AT)
    make_grant(top, 3, AT - HOUR, AT + HOUR)
    make_grant(top, -2, AT + HOUR)
    make_grant(top, 9, valid=DateTimeTZRange(empty=True))

    with django_assert_num_queries(2):
        tree = limit_tree(organization_id=cast.acme.pk, sizes=[GPUSize.LARGE], at=AT)

    wide = LimitSelector(GPUSize.LARGE)
    narrow = LimitSelector(GPUSize.LARGE, "H100", "hopper")
    spans = (GrantSpan(3, AT - HOUR, AT + HOUR), GrantSpan(-2, AT + HOUR))
    limits = [
        TreeLimit(LimitKey("", "", wide), 10, 150, spans),
        TreeLimit(LimitKey("llm", "", narrow), None),
        TreeLimit(LimitKey("llm", "carol", wide), 2),
    ]
    assert tree == {limit.key: limit for limit in limits}


def test_a_projects_own_limit_is_distinguished_from_its_users(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, cast.carol, units=2)

    make_limit(cast.acme, cast.llm, units=3, model_group="H100")

    assert project_limit_units(project_id=cast.llm.pk, size="large") is None
    make_limit(cast.acme, cast.llm, units=0)
    assert project_limit_units(project_id=cast.llm.pk, size="large") == 0
    assert project_limit_units(project_id=cast.llm.pk, size="small") is None


def test_the_path_is_locked_organization_project_user(cast: Cast) -> None:
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        lock_limit_path(organization_id=cast.acme.pk, project_id=cast.llm.pk, user_id=cast.carol.pk)

    locked = [q["sql"].split('FROM "')[1].split('"')[0] for q in captured if "UPDATE" in q["sql"]]
    assert locked == ["tenants_organization", "tenants_project", "auth_user"]


def test_nothing_is_locked_outside_a_transaction(cast: Cast) -> None:
    connection.in_atomic_block, before = False, connection.in_atomic_block
    try:
        with pytest.raises(RuntimeError, match="inside a transaction"):
            lock_limit_path(organization_id=cast.acme.pk, project_id=None, user_id=None)
    finally:
        connection.in_atomic_block = before


@pytest.mark.django_db
def test_a_request_that_is_not_there_locks_nothing() -> None:
    with transaction.atomic():
        assert lock_request(new_id()) is None
