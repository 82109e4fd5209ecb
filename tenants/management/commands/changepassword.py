"""`manage.py changepassword`: Django's command, audited, ending the person's tokens."""

from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.management.passwords import ask_password
from tenants.selectors.clock import database_now
from tenants.selectors.people import user_named
from tenants.services.identity.people import set_password

ACTOR: Final = system_actor("manage.changepassword")


class Command(BaseCommand):
    """Set a person's password on the host."""

    help = "Set a person's password; sessions and API tokens of the person end."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the user name."""
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Ask for the password and set it.

        Raises:
            CommandError: There is no such person, or no password was set.
        """
        try:
            person = user_named(options["username"])
            password = ask_password(person, stderr=self.stderr)
            set_password(user=person, password=password, by="host", actor=ACTOR, at=database_now())
        except DomainError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        self.stdout.write(f"The password of {person.get_username()} is set.")
