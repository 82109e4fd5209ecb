"""`manage.py rebuild_daily_costs`: add every day up anew from its charges.

The sweep does so by itself wherever charges change. This is for what `manage.py verify` names.
"""

from argparse import ArgumentParser
from typing import Any, Final
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from billing.services.showback import add_up_changed_days, note_all_days
from tenants.access import organizations_visible_to
from tenants.domain.actors import system_actor

ACTOR: Final = system_actor("manage.rebuild_daily_costs")


class Command(BaseCommand):
    """Rebuild the daily costs."""

    help = "Add the charges of every day up anew. Pages show each day's costs as before until then."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take an organization."""
        parser.add_argument("--organization", default="", metavar="SLUG", help="only its days")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Note all days, add them up batch by batch, and print how far it is.

        Raises:
            CommandError: There is no such organization.
        """
        only = _organizations(options["organization"])
        days, done = note_all_days(organization_ids=only), 0
        while batch := add_up_changed_days(organization_ids=only):
            done += batch
            self.stdout.write(f"{done} of {max(days, done)} days")
        if done < days:
            self.stdout.write("A worker is adding up the other days.")


def _organizations(slug: str) -> list[UUID] | None:
    if not slug:
        return None
    found = list(organizations_visible_to(ACTOR).filter(slug=slug).values_list("pk", flat=True))
    if not found:
        raise CommandError(f"There is no organization {slug}: use its slug.")
    return found
