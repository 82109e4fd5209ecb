"""`manage.py issue_token`: issue a person's API token on the host.

The first token of a deployment is issued here; a user with shell access has pepper and database
anyway. Standard output is the token and nothing else: `TOKEN=$(manage.py issue_token me)`.
"""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError, NotFoundError
from tenants.domain.identity.sign_in import LIFETIME_MAX
from tenants.selectors.clock import database_now
from tenants.selectors.people import user_named
from tenants.services.identity.tokens import issue_token

ACTOR: Final = system_actor("manage.issue_token")
DAYS: Final = 30


class Command(BaseCommand):
    """Issue a token to one person and print it once."""

    help = "Print a new API token of a person; it can do what the person's roles allow."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the holder, name, lifetime and scopes."""
        parser.add_argument("username", help="who the token acts as")
        parser.add_argument("--name", default="Command line", help="what the token is for")
        parser.add_argument(
            "--days", type=int, default=DAYS, help=f"how long it lives, at most {LIFETIME_MAX.days}"
        )
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            help="limit it to a capability such as metering:usage:read; may be given again",
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Issue the token.

        Raises:
            CommandError: There is no such person, or the token is refused.
        """
        at = database_now()
        try:
            person = user_named(options["username"])
        except NotFoundError as error:
            raise CommandError(
                f'There is no person "{options["username"]}". Add people under Users in the admin,'
                " or the first one with `manage.py createsuperuser`."
            ) from error
        # A length no calendar has is refused like one that is merely too long.
        days = min(options["days"], LIFETIME_MAX.days + 1)
        try:
            issued = issue_token(
                name=options["name"],
                expires_at=at + timedelta(days=days),
                user=person,
                scopes=options["scope"],
                actor=ACTOR,
                at=at,
            )
        except DomainError as error:
            raise CommandError(_error_text(error)) from error
        self.stdout.write(issued.text)
        self.stderr.write(
            f"Token of {person.get_username()} until {issued.token.expires_at:%Y-%m-%d %H:%M} UTC."
            " It is not shown again."
        )


def _error_text(error: DomainError) -> str:
    """Return a refusal as lines for a terminal: what, why field by field, what to do."""
    problems = [f"  {problem.field}: {problem.message}" for problem in error.problems]
    return "\n".join([error.message, *problems, error.advice]).strip()
