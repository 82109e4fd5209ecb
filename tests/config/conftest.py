"""A socket that listens, and a database that is verified, with its owner."""

import socket
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connections

from embedded.migrated import TEMPLATE
from embedded.postgres import OWNER, EmbeddedPostgres
from embedded.postgres_data import SUPERUSER
from tests.conftest import TEST_DATABASE, use_database
from tests.support.config.planted import make_world, verify

WORLD_TEMPLATE = "world_template"
VERIFIED_TEMPLATE = "verified_template"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture(scope="session")
def world_template(
    postgres: EmbeddedPostgres,
    django_db_setup: None,  # noqa: ARG001 - The server's own template comes first.
    django_db_blocker: pytest.FixtureRequest,
) -> str:
    """Make the world once in a database that tests copy."""
    superuser = postgres.url(role=SUPERUSER, database="postgres")
    with psycopg.connect(superuser, autocommit=True) as connection:
        postgres.create_database(connection, WORLD_TEMPLATE, template=TEMPLATE)
    use_database(postgres, WORLD_TEMPLATE)
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        make_world()
        connections.close_all()
    use_database(postgres, TEST_DATABASE)
    return WORLD_TEMPLATE


@pytest.fixture(scope="session")
def verified_template(
    postgres: EmbeddedPostgres, world_template: str, django_db_blocker: pytest.FixtureRequest
) -> str:
    """Verify the world once, in a copy that tests copy again."""
    superuser = postgres.url(role=SUPERUSER, database="postgres")
    with psycopg.connect(superuser, autocommit=True) as connection:
        postgres.create_database(connection, VERIFIED_TEMPLATE, template=world_template)
    use_database(postgres, VERIFIED_TEMPLATE)
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        assert verify() == ""
        connections.close_all()
    use_database(postgres, TEST_DATABASE)
    return VERIFIED_TEMPLATE


@pytest.fixture
def database_template(request: pytest.FixtureRequest) -> str:
    """Return what a test's database is a copy of: the world for tests that ask for it."""
    if "verified_world" in request.fixturenames:
        return str(request.getfixturevalue("verified_template"))
    if "world" in request.fixturenames:
        return str(request.getfixturevalue("world_template"))
    return TEMPLATE


@pytest.fixture
def world(committed_db: str) -> None:
    """Two sealed hours and an invoice, committed in a database of the test's own."""


@pytest.fixture
def verified_world(committed_db: str) -> None:
    """The world in which a first verification has found nothing."""


@pytest.fixture
def owner(postgres: EmbeddedPostgres, committed_db: str) -> Iterator[psycopg.Connection]:
    """The owner of the tables."""
    url = postgres.url(role=OWNER, database=committed_db)
    with psycopg.connect(url, autocommit=True) as made:
        yield made
