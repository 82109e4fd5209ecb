"""`manage.py check_focus FILE`: hold a FOCUS file, CSV or Parquet, against its rules."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from billing.adapters.focus_files import read_focus
from billing.domain.exports.focus import VERSIONS
from billing.domain.exports.focus_check import check_focus, dataset_of, version_of
from tenants.domain.errors import DomainError

FINDINGS_MAX: Final = 100
"""Printed; the others are counted."""


class Command(BaseCommand):
    """Check a FOCUS file."""

    help = "Hold a FOCUS file against its rules; exits with 1 and names each difference."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a file."""
        parser.add_argument("file", metavar="FILE", help="CSV or Parquet")
        parser.add_argument(
            "--focus-version", default="", choices=VERSIONS, help="by its columns without"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Print what is wrong.

        Raises:
            CommandError: Something is, or the file cannot be read.
        """
        found = 0
        try:
            header, rows = read_focus(Path(options["file"]))
            version = options["focus_version"] or version_of(header)
            for finding in check_focus(header, rows, version=version):
                found += 1
                if found <= FINDINGS_MAX:
                    self.stdout.write(str(finding))
        except DomainError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        if found:
            raise CommandError(f"{found} findings; the first {min(found, FINDINGS_MAX)} are above.")
        self.stdout.write(f"{dataset_of(header)} of FOCUS {version}: no findings.")
