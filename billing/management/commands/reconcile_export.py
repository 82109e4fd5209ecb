"""`manage.py reconcile_export PATH`: prove a month's bundle against documents and journal.

manage.py reconcile_export 2026-10.zip
manage.py reconcile_export --run 01890000-0000-7000-8000-000000000001
"""

import hashlib
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from billing.access.exports import READ_EXPORT, access_run
from billing.adapters.focus_files import read_focus
from billing.adapters.month_bundle import read_bundle
from billing.domain.exports.bundle import cost_differences, differences
from billing.domain.exports.schedules import BUNDLE, content_of
from billing.domain.period import Month
from billing.models import ExportFile, ExportRun
from billing.selectors.exports.months import snapshot
from billing.selectors.exports.runs import chunks_of
from billing.selectors.exports.tables import all_ids, ids_of, ledger_facts
from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError

ACTOR = system_actor("manage.reconcile_export")


class Command(BaseCommand):
    """Reconcile a bundle, or the files of a run."""

    help = "Compare a month's bundle, or the files of a run, with documents, charges and journal."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a file or a run."""
        parser.add_argument("path", metavar="PATH", nargs="?", help="what export_month made")
        parser.add_argument("--run", metavar="ID", default="", help="of a scheduled export")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Print each difference.

        Raises:
            CommandError: There is one, or what is asked for cannot be read.
        """
        if bool(options["path"]) == bool(options["run"]):
            raise CommandError("Give a file, or --run with the id of a run.")
        try:
            if options["path"]:
                found = self._of_bundle(Path(options["path"]), name="")
            else:
                found = self._of_run(options["run"])
        except DomainError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        if found:
            raise CommandError(f"{found} difference{pluralize(found)}.")

    def _of_run(self, run_id: str) -> int:
        try:
            run = access_run(ACTOR, UUID(run_id), READ_EXPORT)
        except ValueError as error:
            raise CommandError("That is no id of a run.") from error
        return sum(
            self._of_file(run, file)
            for file in run.files.select_related("run").order_by("position")
        )

    def _of_file(self, run: ExportRun, file: ExportFile) -> int:
        """Compare a file of a run with its digest, and its documents with the ledger."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / file.name
            digest = hashlib.sha256()
            with path.open("wb") as target:
                for chunk in chunks_of(file):
                    digest.update(chunk)
                    target.write(chunk)
            if digest.hexdigest() != file.sha256:
                changed = f"{file.name}: sha256 is {digest.hexdigest()}, not {file.sha256}."
                return self._print(file.name, [changed])
            if file.content == BUNDLE:
                return self._of_bundle(path, name=file.name)
            return self._of_costs(run, file, path)

    def _of_bundle(self, path: Path, *, name: str) -> int:
        bundle = read_bundle(path)
        with snapshot():
            ledger = ledger_facts(Month.parse(bundle.month), ids_of(bundle.organizations))
        found = [*bundle.problems, *differences(bundle.facts, ledger)]
        return self._print(name or bundle.month, found, documents=len(ledger.documents))

    def _of_costs(self, run: ExportRun, file: ExportFile, path: Path) -> int:
        """Compare the costs of a FOCUS file with the documents; other files have their digest."""
        month = Month.parse(run.month)
        content = content_of(file.content, month=month, organization="", number=run.number)
        columns, rows = ((), iter(())) if content.focus is None else read_focus(path)
        if not {"InvoiceId", "BilledCost"} <= set(columns):
            return 0
        organization = run.schedule.organization_id
        with snapshot():
            ledger = ledger_facts(month, all_ids() if organization is None else [organization])
        costs = ((row["InvoiceId"], row["BilledCost"] or "0") for row in rows)
        found = list(cost_differences(costs, ledger))
        return self._print(file.name, found, documents=len(ledger.documents))

    def _print(self, name: str, found: list[str], *, documents: int = 0) -> int:
        for sentence in found:
            self.stdout.write(f"{sentence}")
        if not found:
            self.stdout.write(f"{name}: {documents} documents, no differences.")
        return len(found)
