"""`manage.py export_focus`: a month as a FOCUS dataset, CSV or Parquet.

manage.py export_focus --month 2026-10 --format parquet --output costs.parquet
"""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from billing.access import access_billed
from billing.adapters.focus_files import ENCODERS
from billing.adapters.terms import invoice_terms
from billing.domain.exports.focus import NEWEST, VERSIONS, FocusDataset, FocusFile, FocusFormat
from billing.selectors.exports.focus import FocusScope, stream_focus
from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.selectors.report_database import report_database

ACTOR: Final = system_actor("manage.export_focus")


class Command(BaseCommand):
    """Write a FOCUS dataset."""

    help = "Write the costs of a month as a FOCUS dataset."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what to write and where to."""
        parser.add_argument("--month", required=True, metavar="YYYY-MM", help="the billing month")
        parser.add_argument("--focus-version", default=NEWEST, choices=VERSIONS)
        parser.add_argument(
            "--dataset", default=FocusDataset.COST_AND_USAGE.value, choices=list(FocusDataset)
        )
        parser.add_argument("--format", default=FocusFormat.CSV.value, choices=list(FocusFormat))
        parser.add_argument("--organization", default="", metavar="SLUG", help="only its rows")
        parser.add_argument("--output", default="", metavar="FILE", help="standard output without")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Write the file.

        Raises:
            CommandError: There is no such month, dataset or organization, or it cannot be written.
        """
        try:
            file = FocusFile.of(
                month=options["month"],
                dataset=options["dataset"],
                version=options["focus_version"],
                format_name=options["format"],
            )
            scope = FocusScope(
                access_billed(ACTOR, options["organization"]), issuer=invoice_terms().issuer.name
            )
        except DomainError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        database = report_database(at=timezone.now())
        blocks = database.stream(stream_focus(file, scope, encode=ENCODERS[file.format]))
        if database.is_replica:
            self.stderr.write(f"Read from the replica, as of {database.as_of.isoformat()}.")
        if not options["output"]:
            for block in blocks:
                sys.stdout.buffer.write(block)
            return
        try:
            with Path(options["output"]).open("wb") as output:
                output.writelines(blocks)
        except OSError as error:
            raise CommandError(f"{options['output']} cannot be written: {error}.") from error
