"""`manage.py archive_due`: archive the months that are kept for long enough, and list them.

manage.py archive_due --to /srv/archives --keep usage=24 --keep devices=6
"""

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.management.archive_options import (
    Progress,
    add_archiving_person,
    archiving_actor,
    failure_of,
)
from config.management.archive_writing import due_archives, ensure_archive
from config.management.archives import DETACHED
from config.settings.pairs import months_of
from tenants.domain.actors import Actor
from tenants.domain.archives import (
    ArchiveBusyError,
    ArchiveMonth,
    MonthNotFinishedError,
    MonthTable,
)
from tenants.domain.errors import DomainError
from tenants.selectors.clock import database_now


def kept_months(text: str) -> tuple[str, int]:
    """Return table and number of a text such as "usage=24".

    Raises:
        ArgumentTypeError: It is none.
    """
    try:
        return months_of(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


class Command(BaseCommand):
    """Archive due months."""

    help = (
        "Write each month to Parquet that is in the database for more months than its table keeps,"
        " read it back and compare, and record it in the audit trail; list what may be detached."
    )

    requires_system_checks = []
    """They load every page, which takes as much memory as the work."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take where to, and how long each table is kept."""
        parser.add_argument("--to", required=True, metavar="DIR", help="where archives are")
        parser.add_argument(
            "--keep",
            required=True,
            action="append",
            type=kept_months,
            metavar="TABLE=MONTHS",
            help="how many whole months before this one stay; a table without stays for ever",
        )
        add_archiving_person(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Archive month by month; one that fails stops no other.

        Raises:
            CommandError: An archive could not be written, or was altered.
        """
        try:
            actor = archiving_actor(options["by"])
        except DomainError as error:
            raise CommandError(failure_of(error)) from error
        root, failed = Path(options["to"]).absolute(), []
        for table, month in due_archives(dict(options["keep"]), at=database_now()):
            try:
                self._archive(table, month, root, actor)
            except (ArchiveBusyError, MonthNotFinishedError) as error:
                self.stdout.write(f"{table.name} {month.label}: not yet. {error.message}")
            except (DomainError, OSError) as error:
                failed.append(f"{table.name} {month.label}: {failure_of(error)}")
        if failed:
            raise CommandError("\n".join(failed))

    def _archive(self, table: MonthTable, month: ArchiveMonth, root: Path, actor: Actor) -> None:
        progress = Progress(self.stdout)
        folder, manifest = ensure_archive(table, month, root=root, progress=progress, actor=actor)
        may = (
            f"manage.py detach_month {month.label} --table {table.name} --from {root}"
            if table.name in DETACHED
            else "it stays in the database"
        )
        self.stdout.write(f"{table.name} {month.label}: {manifest.rows:,} rows in {folder}; {may}")
