"""A world with a row in nearly every table, for tests of every page."""

from django.contrib.auth.models import User

from tenants.domain.identity.roles import Role
from tests.support.builders import audited, grant, make_user
from tests.support.flows.estate import add_second_project, make_estate

TENANTS = ("alice", "bob", "carol", "mallory")


def make_whole_world() -> None:
    """Make two organizations with everything, and root with every role of the platform."""
    estate = make_estate()
    add_second_project(estate)
    grant(make_user("root", is_staff=True, is_superuser=True), Role.FINANCE_ADMIN)
    with audited():
        User.objects.exclude(username__in=TENANTS).update(is_staff=True)
