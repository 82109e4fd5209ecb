"""Admin pages of tenants alone: the menu spans the apps, so it is left out here."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    """Leave the menu to unfold."""
    with override_settings(UNFOLD={}):
        yield


@shared_rows
def cast() -> Cast:
    """Everybody, let into the admin site; what opens there is reported by roles."""
    made = make_cast()
    User.objects.update(is_staff=True)
    return made
