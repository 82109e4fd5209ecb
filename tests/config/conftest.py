"""A socket that listens, and a database that is verified, with its owner."""

import socket
from collections.abc import Iterator

import psycopg
import pytest

from embedded.postgres import OWNER, EmbeddedPostgres
from tests.support.config.planted import make_world


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def world(committed_db: str) -> None:  # noqa: ARG001 - What is made here commits.
    make_world()


@pytest.fixture
def owner(postgres: EmbeddedPostgres, committed_db: str) -> Iterator[psycopg.Connection]:
    """The owner of the tables."""
    url = postgres.url(role=OWNER, database=committed_db)
    with psycopg.connect(url, autocommit=True) as made:
        yield made
