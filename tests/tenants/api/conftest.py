"""Fixtures of the REST tests: the cast, and rows of every table."""

import pytest

from tests.support.cast import Cast, make_cast
from tests.support.tenants.world import World, make_world


@pytest.fixture
def cast(db: None) -> Cast:  # noqa: ARG001 - It is the transaction.
    """Everybody, in a transaction that is rolled back."""
    return make_cast()


@pytest.fixture
def world(cast: Cast) -> World:
    """Rows of Acme's LLM (own), of Acme (sibling), and of Umbrella (other)."""
    return make_world(cast)
