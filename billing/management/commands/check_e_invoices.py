"""`manage.py check_e_invoices`: hold e-invoices against schema and rules of EN 16931.

manage.py check_e_invoices --month 2026-10
manage.py check_e_invoices GL-2026-000001.xml
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.adapters.e_invoice_rules import EInvoiceRules
from billing.domain.period import Month
from billing.selectors.documents.e_invoices import e_invoices_of_month
from tenants.domain.errors import DomainError


class Command(BaseCommand):
    """Check e-invoices."""

    help = "Hold e-invoices against schema and rules of EN 16931; exits with 1 on a difference."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take files, or a month."""
        parser.add_argument("files", nargs="*", metavar="FILE", help="XML in CII or UBL")
        parser.add_argument("--month", default="", metavar="YYYY-MM", help="the stored ones of it")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Print what each breaks.

        Raises:
            CommandError: One breaks something, there is none, or a file cannot be read.
        """
        rules, checked, broken = EInvoiceRules(), 0, 0
        try:
            for name, content in _named(options["files"], options["month"]):
                findings = rules.check(content)
                checked, broken = checked + 1, broken + bool(findings)
                for finding in findings:
                    self.stdout.write(f"{name}: {finding}")
        except DomainError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        except OSError as error:
            raise CommandError(f"A file cannot be read: {error}.") from error
        if not checked:
            raise CommandError("There is no e-invoice. Name files, or a month that has some.")
        if broken:
            raise CommandError(f"{broken} of {checked} e-invoices break a rule.")
        self.stdout.write(f"{checked} e-invoices: no findings.")


def _named(paths: list[str], month: str) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files, and of the e-invoices of a month."""
    yield from ((path, Path(path).read_bytes()) for path in paths)
    if month:
        stored = e_invoices_of_month(Month.parse(month, field="month"))
        yield from ((f"{number} ({syntax})", content) for number, syntax, content in stored)
