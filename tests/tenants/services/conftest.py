"""Connections to a Valkey of our own: a client, and Celery's."""

from collections.abc import Iterator

import pytest
import redis
from kombu.connection import Connection
from kombu.messaging import Producer

from embedded.valkey import EmbeddedValkey


@pytest.fixture
def client(valkey: EmbeddedValkey) -> Iterator[redis.Redis]:
    """Give a client of an empty server."""
    with redis.Redis.from_url(valkey.url()) as found:
        found.flushall()
        yield found


@pytest.fixture
def producer(valkey: EmbeddedValkey, client: object) -> Iterator[Producer]:  # noqa: ARG001 - Empty.
    """Give a connection for publishing."""
    connection = Connection(valkey.url())  # type: ignore[no-untyped-call]
    with connection, connection.Producer() as found:  # type: ignore[no-untyped-call]
        yield found
