"""`manage.py reconcile_export PATH`: prove a month's bundle against documents and journal."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from billing.adapters.month_bundle import read_bundle
from billing.domain.exports.bundle import differences
from billing.domain.period import Month
from billing.selectors.export_months import snapshot
from billing.selectors.month_files import ids_of, ledger_facts
from tenants.domain.errors import DomainError


class Command(BaseCommand):
    """Reconcile a bundle."""

    help = "Compare a month's bundle with its manifest, with documents, charges and journal."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a file."""
        parser.add_argument("path", metavar="PATH", help="what export_month made")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Print each difference.

        Raises:
            CommandError: There is one, or the file cannot be read.
        """
        try:
            bundle = read_bundle(Path(options["path"]))
            with snapshot():
                ledger = ledger_facts(Month.parse(bundle.month), ids_of(bundle.organizations))
        except DomainError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        found = [*bundle.problems, *differences(bundle.facts, ledger)]
        for sentence in found:
            self.stdout.write(sentence)
        if found:
            raise CommandError(f"{len(found)} difference{pluralize(len(found))}.")
        documents = len(ledger.documents)
        self.stdout.write(f"{bundle.month}: {documents} documents, no differences.")
