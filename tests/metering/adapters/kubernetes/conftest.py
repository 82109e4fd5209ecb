from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.metering.allocations.kubernetes import Reported, canned_api


@pytest.fixture(scope="session")
def canned_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reported]:
    """Run one server for all tests of this folder."""
    folder: Path = tmp_path_factory.mktemp("canned-api")
    with canned_api(folder) as reported:
        yield reported


@pytest.fixture
def reported(canned_server: Reported) -> Reported:
    """Return the server with nothing asked yet."""
    canned_server.answers = []
    canned_server.asked.clear()
    return canned_server
