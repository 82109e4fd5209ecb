"""Rows that tests share are made once for those that follow one another, and stay as they were."""

from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection, connections, transaction

from embedded.migrated import superuser_url as superuser_url_of
from embedded.postgres import EmbeddedPostgres
from tenants.models import Organization, Project
from tests.support.builders import make_organization, make_project
from tests.support.shared_rows import SHARED, makers_of, shared_rows

MADE: Counter[str] = Counter()
MADE_AT_FIRST: dict[str, int] = {}
"""When the first test of its kind ran in this process."""


@shared_rows
def acme() -> Organization:
    MADE["acme"] += 1
    return make_organization("acme")


@shared_rows
def llm(acme: Organization) -> Project:
    MADE["llm"] += 1
    return make_project(acme, "llm")


@pytest.fixture
def acme_name(acme: Organization) -> str:
    return acme.name


@shared_rows
def named(acme_name: str) -> Organization:
    MADE["named"] += 1
    return make_organization("named", name=acme_name)


@pytest.mark.parametrize("number", range(3))
def test_what_a_test_changes_is_undone_for_the_next(llm: Project, number: int) -> None:
    assert (Project.objects.get(), Organization.objects.get()) == (llm, llm.organization)
    assert (llm.name, Project.objects.get().name) == ("LLM", "LLM")

    llm.name = f"Changed {number}"
    llm.save(update_fields=["name"])
    make_project(llm.organization, "vision")
    llm.organization.name = "Changed"

    assert Project.objects.count() == 2


@pytest.mark.parametrize("number", range(3))
def test_rows_are_made_once_for_tests_in_a_row(acme: Organization, number: int) -> None:
    assert acme.slug == "acme"
    assert MADE["acme"] == MADE_AT_FIRST.setdefault("acme", MADE["acme"]), number


def test_a_row_and_what_refers_to_it_are_copied_together(acme: Organization, llm: Project) -> None:
    assert llm.organization is acme
    acme.name = "Changed"
    assert llm.organization.name == "Changed"
    assert Organization.objects.get().name == "Acme"


def test_what_a_fixture_takes_is_shared_as_well(
    request: pytest.FixtureRequest, llm: Project
) -> None:
    assert list(makers_of(request.node)) == ["acme", "llm"]
    assert (Organization.objects.get(), Project.objects.get()) == (llm.organization, llm)


def test_only_what_a_test_takes_is_there(acme: Organization) -> None:
    assert Organization.objects.get() == acme
    assert not Project.objects.exists()


def test_one_that_takes_what_is_not_shared_is_made_for_its_test(
    request: pytest.FixtureRequest, acme: Organization, named: Organization
) -> None:
    assert list(makers_of(request.node)) == ["acme"]
    assert {acme.name, named.name} == {"Acme"}
    assert Organization.objects.count() == 2


def test_a_durable_block_may_stand_in_a_test(acme: Organization) -> None:
    with transaction.atomic(durable=True):
        Organization.objects.filter(pk=acme.pk).update(name="Changed")

    assert Organization.objects.get().name == "Changed"


@pytest.mark.parametrize("number", range(2))
def test_rows_are_made_anew_after_a_lost_connection(llm: Project, number: int) -> None:
    assert Project.objects.get() == llm

    if number == 0:
        raw = connection.connection
        assert raw is not None
        raw.close()
        assert SHARED.is_lost()


@pytest.fixture
def ended_when_idle(
    request: pytest.FixtureRequest, postgres: EmbeddedPostgres, number: int
) -> Iterator[None]:
    """End the connection after the first test's transaction, as a timeout of the server does."""
    yield
    if number == 0:
        process = request.node.user_properties.pop()[1]
        with psycopg.connect(superuser_url_of(postgres), autocommit=True) as server:
            server.execute("SELECT pg_terminate_backend(%s, 10000)", [process])


@pytest.mark.usefixtures("ended_when_idle")
@pytest.mark.parametrize("number", range(2))
def test_rows_are_made_anew_after_the_server_ended_an_idle_connection(
    request: pytest.FixtureRequest, llm: Project, number: int
) -> None:
    assert Project.objects.get() == llm, number

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        request.node.user_properties.append(("process", cursor.fetchone()[0]))


def test_a_test_that_commits_has_rows_of_its_own(committed_db: str, llm: Project) -> None:
    assert not connection.in_atomic_block
    connections["default"].close()

    assert connection.settings_dict["NAME"] == committed_db
    assert Project.objects.get() == llm


@pytest.mark.django_db
def test_without_them_there_are_none() -> None:
    assert not Organization.objects.exists()
