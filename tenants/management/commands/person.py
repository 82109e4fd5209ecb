"""`manage.py person`: what takes two people over the web, done on the host by its operator.

For deployments with fewer than two platform admins or without a mail server, and for the first
people of every deployment. Everything leaves the same audit entries, by `manage.person`.
"""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.domain.identity.account_changes import PLATFORM_ROLES
from tenants.domain.identity.roles import Role
from tenants.selectors.clock import database_now
from tenants.selectors.people import user_named
from tenants.services.identity.memberships import grant_role
from tenants.services.identity.people import activate_user, change_person, create_person

ACTOR: Final = system_actor("manage.person")


class Command(BaseCommand):
    """Make a person, or change what one person alone does not change in the admin."""

    help = "Make or activate a person, give a role or staff status, change an address or name."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the action and the person."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, about in (
            ("add", "make a person without a password; set one with changepassword"),
            ("role", "give a role of the platform"),
            ("staff", "open the admin to a person"),
            ("email", "change a person's mail address"),
            ("rename", "change a person's user name"),
            ("activate", "let a deactivated person in again"),
        ):
            one = verbs.add_parser(verb, help=about)
            one.add_argument("username")
            if verb in {"add", "email"}:
                one.add_argument("email")
            if verb == "rename":
                one.add_argument("new_username")
            if verb == "role":
                one.add_argument("role", choices=sorted(role.value for role in PLATFORM_ROLES))

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Do it.

        Raises:
            CommandError: It is refused.
        """
        try:
            _do(options, at=database_now())
        except DomainError as error:
            problems = [f"{one.field}: {one.message}" for one in error.problems]
            raise CommandError("\n".join([error.message, *problems, error.advice])) from error
        self.stdout.write(f"{options['username']}: done.")


def _do(options: dict[str, Any], *, at: datetime) -> None:
    name, verb = options["username"], options["verb"]
    if verb == "add":
        create_person(
            username=name, email=options["email"], is_mail_set_up=False, actor=ACTOR, at=at
        )
        return
    person = user_named(name, field="username")
    if verb == "role":
        grant_role(role=Role(options["role"]), user=person, actor=ACTOR, at=at)
    elif verb == "activate":
        activate_user(user=person, actor=ACTOR, at=at)
    else:
        change_person(user=person, changes=_changes(options), actor=ACTOR, at=at)


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    if options["verb"] == "staff":
        return {"is_staff": True}
    if options["verb"] == "rename":
        return {"username": options["new_username"]}
    return {"email": options["email"]}
