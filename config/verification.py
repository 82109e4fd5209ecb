"""What `manage.py verify` and the nightly run check: the checks of every app, in their order."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Final

from celery import shared_task

from billing.selectors.assignment_verification import check_assignments
from billing.selectors.daily_costs import check_daily_costs
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.terms_verification import check_terms
from billing.selectors.verification import (
    check_charges,
    check_finalizations,
    check_invoices,
    check_lines,
    check_numbers,
    check_prices,
)
from config.management.archives import archives_check
from metering.selectors.collection.verification import (
    check_corrections,
    check_credits,
    check_device_windows,
    check_postings,
    check_sealed_windows,
    check_seals,
)
from tenants.domain.actors import Actor, system_actor
from tenants.domain.verification import Check
from tenants.models import Verification
from tenants.selectors.clock import database_now
from tenants.selectors.database_objects import check_sequences, objects_check
from tenants.selectors.verification import (
    check_audit_entries,
    last_verification,
    unfinished_verification,
)
from tenants.services.verification import AUDIT, begin_verification, verify_batch
from tenants.services.wakeups import WakeUp

ARCHIVED: Final = "archived months"
EVERY: Final = timedelta(hours=24)
ABANDONED_AFTER: Final = timedelta(hours=12)
"""A nightly run that has not ended by then is begun anew."""
OBJECTS: Final = Path(__file__).with_name("database_objects.txt")
ACTOR: Final = system_actor("verification")


@cache
def checks() -> Mapping[str, Check]:
    """Return every check by its name, in order."""
    return {
        AUDIT: check_audit_entries,
        "objects of the database": object_check(),
        "sequences": check_sequences,
        ARCHIVED: archives_check(),
        "seals": check_seals,
        "sealed windows": check_sealed_windows,
        "device figures": check_device_windows,
        "postings": check_postings,
        "corrections": check_corrections,
        "credits": check_credits,
        "finalizations": check_finalizations,
        "invoices": check_invoices,
        "invoice numbers": check_numbers,
        "invoice lines": check_lines,
        "charges": check_charges,
        "daily costs": check_daily_costs,
        "journal": check_journal,
        "prices": check_prices,
        "assignments": check_assignments,
        "taxes and tiers": check_terms,
    }


def object_check() -> Check:
    """Return the check of the database's objects, which `manage.py doctor` runs by itself."""
    return objects_check(OBJECTS.read_text(encoding="utf-8").splitlines())


@shared_task(base=WakeUp, name="config.tick_verification")  # type: ignore[untyped-decorator]
def tick_verification() -> Iterator[int]:
    """Go on with the run of this night, or begin it once a day has passed; batch by batch."""
    known = checks()
    run = due_run(known, at=database_now())
    while run is not None and run.check_name:
        yield verify_batch(run=run, checks=known, actor=ACTOR, at=database_now()).count


def due_run(known: Mapping[str, Check], *, at: datetime) -> Verification | None:
    """Return the run to go on with, a new one where none began for a day, or None."""
    run = unfinished_verification(checks=list(known), since=at - ABANDONED_AFTER)
    if run is not None:
        return run
    last = last_verification(checks=list(known))
    if last is not None and last.started_at > at - EVERY:
        return None
    return begin_verification(checks=known, is_nightly=True, at=at)


def tick(at: datetime, actor: Actor = ACTOR) -> int:
    """Make the run of a day, where it is due, and return how many rows it read."""
    known = checks()
    run, count = due_run(known, at=at), 0
    while run is not None and run.check_name:
        count += verify_batch(run=run, checks=known, actor=actor, at=at).count
    return count
