"""Rows of the journal and beside final documents, for the estate."""

from typing import Any

from billing.models import AccountingMonth, JournalEntry
from billing.services.ledger.journal import accrue_unbilled
from tenants.domain.actors import system_actor
from tenants.models import Organization
from tests.support.builders import AT

SEED = system_actor("seed")


def ledger_rows(organization: Organization) -> dict[str, Any]:
    """Make what an organization has in the journal, and return its keys."""
    closed, _ = AccountingMonth.objects.get_or_create(
        label="2026-08", defaults={"closed_at": AT, "closed_by": "seed"}
    )
    accrue_unbilled(label="2026-10", actor=SEED, at=AT)
    return {
        "accounting-months": closed.pk,
        "journal-entries": JournalEntry.objects.get(organization=organization, event="accrual").pk,
    }
