"""`manage.py restore_month`: write a detached month back from its archive.

manage.py restore_month 2025-09 --table usage --from /srv/archives --by frank --reason "A dispute."
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
from config.management.archives import restore_archived
from tenants.domain.errors import DomainError


class Command(BaseCommand):
    """Restore a month."""

    help = (
        "For the owner of the tables: write a detached month into a new partition from its archive,"
        " compared row by row."
    )

    requires_system_checks = []
    """They load every page, which takes as much memory as the work."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the month, the table, its archive, the person and the reason."""
        add_archive_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Restore the month.

        Raises:
            CommandError: The archive was altered, or the month is not detached.
        """
        try:
            row = restore_archived(
                options["table"],
                options["month"],
                root=Path(options["root"]).absolute(),
                progress=Progress(self.stdout),
                reason=options["reason"],
                actor=person_named(options["by"]),
            )
        except (DomainError, OSError) as error:
            raise CommandError(failure_of(error)) from error
        self.stdout.write(f"{row}: {row.row_count:,} rows are in the database again.")
