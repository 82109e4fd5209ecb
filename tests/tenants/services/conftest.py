"""A Valkey of our own, and Celery's connections to it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from kombu.connection import Connection
from kombu.messaging import Producer

from embedded.valkey import EmbeddedValkey


@pytest.fixture(scope="module")
def valkey() -> Iterator[EmbeddedValkey]:
    """Give a server of our own."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = EmbeddedValkey(folder / "valkey")
        server.start()
        yield server
        server.stop()


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
