"""`manage.py export_month`: a month as one zip.

manage.py export_month --month 2026-10 --output 2026-10.zip
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from billing.access import access_billed
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.adapters.terms import invoice_terms
from billing.domain.period import Month
from billing.selectors.exports.focus import FocusScope
from billing.services.exports.month import stream_month
from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.selectors.report_database import report_database

ACTOR: Final = system_actor("manage.export_month")


class Command(BaseCommand):
    """Write a month's bundle."""

    help = "Write a month as one zip: documents, charges, journal, FOCUS, and a manifest."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the month and where to."""
        parser.add_argument("--month", required=True, metavar="YYYY-MM", help="the billing month")
        parser.add_argument("--organization", default="", metavar="SLUG", help="only its documents")
        parser.add_argument("--output", required=True, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Write the file.

        Raises:
            CommandError: There is no such month or organization, or it cannot be written.
        """
        at = timezone.now()
        try:
            ids = access_billed(ACTOR, options["organization"])
            blocks = stream_month(
                month=Month.parse(options["month"], field="month"),
                scope=FocusScope(ids, issuer=invoice_terms().issuer.name),
                annexed=ids if settings.USAGE_ANNEX else (),
                with_journal=True,
                makers=BUNDLE_MAKERS,
                database=report_database(at=at),
                at=at,
            )
            with Path(options["output"]).open("wb") as output:
                output.writelines(blocks)
        except DomainError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        except OSError as error:
            raise CommandError(f"{options['output']} cannot be written: {error}.") from error
