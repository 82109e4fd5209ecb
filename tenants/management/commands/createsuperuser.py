"""`manage.py createsuperuser`: the first platform admin of a deployment, audited.

Like Django's command of this name, with its variables `DJANGO_SUPERUSER_*` for `--noinput`.
"""

import os
from argparse import ArgumentParser
from typing import Any, Final

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.management.passwords import ask_password
from tenants.selectors.clock import database_now
from tenants.services.identity.people import create_superuser

ACTOR: Final = system_actor("manage.createsuperuser")


class Command(BaseCommand):
    """Make a superuser on the host."""

    help = "Make a person who is platform admin and may enter the admin."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add user name and mail address; prompt for missing ones."""
        parser.add_argument("--username", default=os.environ.get("DJANGO_SUPERUSER_USERNAME"))
        parser.add_argument("--email", default=os.environ.get("DJANGO_SUPERUSER_EMAIL"))
        parser.add_argument(
            "--noinput", "--no-input", action="store_false", dest="interactive", help="ask nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Make the person.

        Raises:
            CommandError: Something is missing, or is refused.
        """
        username, email = options["username"], options["email"]
        password = os.environ.get("DJANGO_SUPERUSER_PASSWORD")
        if options["interactive"]:
            username = username or input("Username: ")
            email = email or input("Email address: ")
            password = ask_password(User(username=username, email=email), stderr=self.stderr)
        elif password:
            _require_good(password, User(username=username or "", email=email or ""))
        if not username or not email:
            raise CommandError("Name --username and --email.")
        try:
            create_superuser(
                username=username,
                email=email,
                password=password,
                actor=ACTOR,
                at=database_now(),
            )
        except DomainError as error:
            problems = [f"{one.field}: {one.message}" for one in error.problems]
            raise CommandError("\n".join([error.message, *problems, error.advice])) from error
        self.stdout.write(f"{username} is made.")


def _require_good(password: str, person: User) -> None:
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise CommandError("\n".join(["DJANGO_SUPERUSER_PASSWORD:", *error.messages])) from error
