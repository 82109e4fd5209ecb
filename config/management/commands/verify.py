"""`manage.py verify`: recompute what is frozen, and name what differs."""

import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from config.management.archives import archives_check
from config.verification import ARCHIVED, checks
from tenants.domain.actors import system_actor
from tenants.domain.verification import Check
from tenants.models import Verification
from tenants.selectors.clock import database_now
from tenants.selectors.verification import first_audit_cursor, is_end_of_run
from tenants.services.verification import accept_earlier_ends, begin_verification, verify_batch

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
            help="count and digest of an earlier line of the log, tenants.verification.finished",
        )
        parser.add_argument(
            "--accept-through",
            type=_entry_id,
            metavar="ENTRY",
            help=(
                "for the owner of the tables: from now on ignore ends of runs up to this audit"
                " entry, after their author was found; needs --reason"
            ),
        )
        parser.add_argument(
            "--archive",
            metavar="DIR",
            help="where the archives of detached months are, to read their files too",
        )
        parser.add_argument("--reason", default="", help="why, for the audit trail")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Run every check, print how far it is, and each difference.

        Raises:
            CommandError: Something differs.
        """
        known = dict(checks())
        if options["archive"]:
            known[ARCHIVED] = archives_check(Path(options["archive"]))
        run = _begin(known, options)
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


def _begin(known: Mapping[str, Check], options: dict[str, Any]) -> Verification:
    """Return a new run.

    Raises:
        CommandError: Ends of earlier runs are not accepted by this role, without a reason, up to
            an entry that is no end, or beside a digest that would not be compared.
    """
    at, entry_id = database_now(), options["accept_through"]
    if entry_id is None:
        cursor = first_audit_cursor(expected=options["expect_audit"])
        return begin_verification(checks=known, cursor=cursor, at=at)
    reason = options["reason"].strip()
    if not reason:
        raise CommandError("--reason is missing: say what was found out about these entries.")
    if options["expect_audit"] is not None:
        raise CommandError(
            "--expect-audit is not compared here: accept first, then verify with it."
        )
    if not is_end_of_run(entry_id):
        raise CommandError(
            f"Audit entry {entry_id} is no end of a verification: none is set aside."
        )
    try:
        return accept_earlier_ends(
            checks=known, entry_id=entry_id, reason=reason, actor=ACTOR, at=at
        )
    except IntegrityError as error:
        raise CommandError(
            "--accept-through is refused: this database role does not own the tables. Run it with"
            " DATABASE_URL of the owner."
        ) from error


def _entry_id(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**63:
        raise ArgumentTypeError("Use the id of an audit entry.")
    return int(text)


def _expected(text: str) -> tuple[int, str]:
    count, _, digest = text.partition(":")
    if not count.isdigit() or len(digest) != 64:  # noqa: PLR2004 - Of SHA-256, in hexadecimal.
        raise ArgumentTypeError("Use COUNT:DIGEST, as the log has them.")
    return int(count), digest
