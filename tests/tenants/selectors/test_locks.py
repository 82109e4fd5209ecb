"""Tests of row locks: one order, one place."""

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from tenants.models import Organization, Project
from tenants.selectors.locks import lock_in_order, lock_rows, try_advisory_lock
from tests.support.builders import make_organization, make_project
from tests.support.threads import in_thread


@pytest.mark.usefixtures("committed_db")
def test_rows_are_locked_inside_a_transaction_only() -> None:
    with pytest.raises(RuntimeError, match="inside a transaction"):
        lock_rows(Organization.objects.all())
    with pytest.raises(RuntimeError, match="inside a transaction"):
        try_advisory_lock(key=1)


@pytest.mark.django_db
def test_rows_are_locked_by_primary_key_and_joined_tables_stay_free() -> None:
    acme = make_organization()
    projects = [make_project(acme, slug) for slug in ("b", "a", "c")]

    with CaptureQueriesContext(
        connection,
    ) as queries:
        locked = lock_rows(Project.objects.select_related("organization").order_by("slug"))

    assert locked == sorted(projects, key=lambda project: project.pk)
    (query,) = queries
    assert 'FOR NO KEY UPDATE OF "tenants_project"' in query["sql"]
    assert 'ORDER BY "tenants_project"."id" ASC' in query["sql"]


@pytest.mark.django_db
def test_tables_are_locked_in_the_one_order() -> None:
    make_project(make_organization())

    organizations, projects = lock_in_order(Organization.objects.all(), Project.objects.all())

    assert (len(organizations), len(projects)) == (1, 1)
    with pytest.raises(ValueError, match=r"tenants\.organization, tenants\.project"):
        lock_in_order(Project.objects.all(), Organization.objects.all())


@pytest.mark.usefixtures("committed_db")
def test_a_locked_row_is_waited_for_no_longer_than_the_timeout() -> None:
    make_organization()

    def other() -> str:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '50ms'")
            try:
                lock_rows(Organization.objects.all())
            except OperationalError as error:
                return type(error.__cause__).__name__
        return "locked"

    with transaction.atomic():
        lock_rows(Organization.objects.all())
        answer = in_thread(other)

    assert answer == "LockNotAvailable"


@pytest.mark.usefixtures("committed_db")
def test_an_advisory_lock_is_held_by_one_and_freed_with_the_transaction() -> None:
    def other() -> bool:
        with transaction.atomic():
            return try_advisory_lock(key=-7)

    with transaction.atomic():
        first = try_advisory_lock(key=-7)
        during = in_thread(other)
    after = in_thread(other)

    assert (first, during, after) == (True, False, True)
