"""`manage.py detach_month`: remove a month from the database that is in an archive.

manage.py detach_month 2025-09 --table usage --from /srv/archives --by frank --reason "Kept 1 year."
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.management.archive_options import (
    Progress,
    add_archive_options,
    failure_of,
    person_named,
)
from config.management.archives import detach_archived
from tenants.domain.errors import DomainError


class Command(BaseCommand):
    """Detach a month."""

    help = (
        "For the owner of the tables: compare a month with its archive, row by row, and drop its"
        " partition."
    )

    requires_system_checks = []
    """They load every page, which takes as much memory as the work."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the month, the table, its archive, the person and the reason."""
        add_archive_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Detach the month.

        Raises:
            CommandError: The archive is not complete, or this role may not do it.
        """
        try:
            row = detach_archived(
                options["table"],
                options["month"],
                root=Path(options["root"]).absolute(),
                progress=Progress(self.stdout),
                reason=options["reason"],
                actor=person_named(options["by"]),
            )
        except (DomainError, OSError) as error:
            raise CommandError(failure_of(error)) from error
        self.stdout.write(f"{row}: {row.row_count:,} rows are in {row.location} only.")
