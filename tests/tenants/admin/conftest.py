"""Admin pages of tenants alone: the menu spans the apps, so it is left out here."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from tests.support.cast import Cast, make_cast


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    """Leave the menu to unfold."""
    with override_settings(UNFOLD={}):
        yield


@pytest.fixture
def cast(db: None) -> Cast:  # noqa: ARG001 - It is the transaction.
    """Everybody, let into the admin site; what opens there is reported by roles."""
    made = make_cast()
    User.objects.update(is_staff=True)
    return made
