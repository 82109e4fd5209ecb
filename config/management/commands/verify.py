"""`manage.py verify`: recompute what is frozen, and name what differs."""

import time
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from config.verification import checks
from tenants.domain.actors import system_actor
from tenants.selectors.clock import database_now
from tenants.selectors.verification import SETTLED_AFTER, first_audit_cursor
from tenants.services.verification import begin_verification, verify_batch

ACTOR: Final = system_actor("manage.verify")
PROGRESS_SECONDS: Final = 2


class Command(BaseCommand):
    """Verify the database."""

    help = (
        "Recompute digests of sealed hours, corrections, invoices and audit entries, and compare"
        " the objects of the database with a list; exit with 1 where something differs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what the log says of the audit entries."""
        parser.add_argument(
            "--expect-audit",
            type=_expected,
            metavar="COUNT:DIGEST",
            help="count and digest of an earlier line of the log, tenants.verification.ended",
        )
        parser.add_argument(
            "--settled-seconds",
            type=int,
            default=int(SETTLED_AFTER.total_seconds()),
            help="age from which audit entries count for the digest",
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Run every check, print how far it is, and each difference.

        Raises:
            CommandError: Something differs.
        """
        known = checks()
        begin = first_audit_cursor(
            settled_after=timedelta(seconds=options["settled_seconds"]),
            expected=options["expect_audit"],
        )
        run = begin_verification(checks=known, cursor=begin, at=database_now())
        shown_at = time.monotonic()
        while name := run.check_name:
            batch = verify_batch(run=run, checks=known, actor=ACTOR, at=database_now())
            for sentence in batch.differences:
                self.stderr.write(f"{name}: {sentence}")
            if batch.is_last or time.monotonic() - shown_at > PROGRESS_SECONDS:
                shown_at = time.monotonic()
                self.stdout.write(f"{name}: {run.counts[name]:,}{'' if batch.is_last else ' ...'}")
        self.stdout.write(f"audit trail: {run.audit_count}:{run.audit_digest}")
        if run.difference_count:
            raise CommandError(f"{run.difference_count} differences.")


def _expected(text: str) -> tuple[int, str]:
    count, _, digest = text.partition(":")
    if not count.isdigit() or len(digest) != 64:  # noqa: PLR2004 - Of SHA-256, in hexadecimal.
        raise ArgumentTypeError("Use COUNT:DIGEST, as the log has them.")
    return int(count), digest
