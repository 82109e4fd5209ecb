"""`manage.py archive_month`: write a closed month of a table to Parquet.

manage.py archive_month 2025-09 --table usage --to /srv/archives
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.management.archive_options import (
    Progress,
    add_archiving_person,
    archiving_actor,
    failure_of,
)
from config.management.archive_writing import write_archive
from config.management.archives import TABLES
from tenants.domain.archives import ArchiveMonth
from tenants.domain.errors import DomainError


class Command(BaseCommand):
    """Archive a month."""

    help = (
        "Write the rows of a closed month to Parquet with a manifest, read them back and compare,"
        " and record the archive in the audit trail."
    )

    requires_system_checks = []
    """They load every page, which takes as much memory as the work."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the month, the table and where to."""
        parser.add_argument("month", metavar="YYYY-MM", help="a month in UTC")
        parser.add_argument("--table", required=True, choices=sorted(TABLES))
        parser.add_argument("--to", required=True, metavar="DIR", help="where archives are")
        add_archiving_person(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Write the archive.

        Raises:
            CommandError: The month can still change, or the archive cannot be written.
        """
        table = TABLES[options["table"]]
        try:
            folder, manifest = write_archive(
                table,
                ArchiveMonth.parse(options["month"]),
                root=Path(options["to"]).absolute(),
                progress=Progress(self.stdout),
                actor=archiving_actor(options["by"]),
            )
        except (DomainError, OSError) as error:
            raise CommandError(failure_of(error)) from error
        sums = ", ".join(f"{name} {total}" for name, total in sorted(manifest.sums.items()))
        self.stdout.write(
            f"{folder}: {manifest.rows:,} rows, {sums}; read back, and the same as the database."
        )
