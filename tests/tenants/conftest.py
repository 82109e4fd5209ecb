"""A Valkey of our own."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
