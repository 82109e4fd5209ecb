"""Fixtures of the REST tests: the cast, and rows of every table."""

from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.world import World, make_world


@shared_rows
def cast() -> Cast:
    """Everybody, in a transaction that is rolled back."""
    return make_cast()


@shared_rows
def world(cast: Cast) -> World:
    """Rows of Acme's LLM (own), of Acme (sibling), and of Umbrella (other)."""
    return make_world(cast)
