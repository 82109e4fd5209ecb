"""A REST client for each of the cast."""

from collections.abc import Callable
from typing import Any, Protocol

import pytest
from rest_framework.test import APIClient

from tests.support.cast import Cast


class Answer(Protocol):
    """What the test client answers."""

    status_code: int

    def json(self) -> Any: ...  # noqa: ANN401 - A JSON document.

    def __getitem__(self, header: str) -> str: ...  # noqa: D105 - A header's text.


Caller = Callable[[str], APIClient]


@pytest.fixture
def caller(cast: Cast) -> Caller:
    """Return a client signed in as a member of the cast, with a fresh Idempotency-Key."""

    def sign_in(name: str) -> APIClient:
        client = APIClient()
        client.force_login(getattr(cast, name))
        return client

    return sign_in
