"""Rows of the journal and beside final documents, for the estate."""

from dataclasses import replace
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing.adapters.journal_layouts import GenericCsvLayout
from billing.domain.documents.invoicing import ChargeSum, compose_lines
from billing.domain.period import Month, month_hours
from billing.models import (
    AccountingMonth,
    BillingPeriod,
    DueDate,
    ExportFile,
    ExportRun,
    ExportSchedule,
    Invoice,
    JournalBatch,
    JournalEntry,
    Reminder,
)
from billing.selectors.documents.payers import payer_facts_of
from billing.services import finalizing
from billing.services.composing import compose_run
from billing.services.disputes import open_dispute
from billing.services.invoicing import fill_draft
from billing.services.ledger.batches import export_batch
from billing.services.ledger.deliveries import record_delivery
from billing.services.ledger.documents import post_document
from billing.services.ledger.journal import accrue_unbilled
from billing.services.ledger.opening_balances import record_opening_balance
from billing.services.ledger.payments import record_payment
from billing.services.ledger.reminders import stop_reminders
from billing.services.ledger.write_offs import propose_write_off
from tenants.domain.actors import system_actor
from tenants.models import Organization, Project
from tests.support.billing.payments import bank_row
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT

SEED = system_actor("seed")


def ledger_rows(organization: Organization, project: Project) -> dict[str, Any]:
    """Make what an organization has in the journal, and return its keys."""
    closed, _ = AccountingMonth.objects.get_or_create(
        label="2026-08", defaults={"closed_at": AT, "closed_by": "seed"}
    )
    accrue_unbilled(label="2026-10", actor=SEED, at=AT)
    accrual = JournalEntry.objects.get(organization=organization, event="accrual")
    batch = JournalBatch.objects.first() or export_batch(
        month="2026-10", layout=GenericCsvLayout(), actor=SEED, at=AT
    )
    final = make_final(organization, project, month=Month(2026, 7))
    stopped = make_final(organization, project, month=Month(2026, 4))
    return {
        "document-deliveries": record_delivery(
            document_id=final.pk,
            channel="post",
            recipient="Main Street 1",
            sent_at=AT,
            actor=SEED,
            at=AT,
        ).pk,
        **make_export_rows(organization),
        "reminders": Reminder.objects.create(
            document=final,
            level=1,
            days_overdue=7,
            open_amount=final.payable,
            reminded_on=AT.date() - timedelta(days=1),
            created_at=AT,
        ).pk,
        "reminder-stops": stop_reminders(
            document_id=stopped.pk, reason="They pay later.", actor=SEED, at=AT
        ).pk,
        "journal-batches": batch.pk,
        "accounting-months": closed.pk,
        "journal-entries": accrual.pk,
        "final": final.pk,
        "opening-balances": record_opening_balance(
            organization=organization,
            reference="OLD-1",
            amount=Decimal(4),
            currency="EUR",
            dated_on=AT.date(),
            due_on=AT.date(),
            actor=SEED,
            at=AT,
        ).pk,
        **_decided_rows(organization, project),
        "payments": record_payment(
            row=bank_row(organization.slug, "9.00"),
            organization_id=organization.pk,
            actor=SEED,
            at=AT,
        ).pk,
    }


def make_export_rows(organization: Organization) -> dict[str, Any]:
    """Make a schedule with a failed run and its file, and return their keys."""
    schedule = ExportSchedule.objects.create(
        slug=f"{organization.slug}-erp",
        organization=organization,
        contents=["month"],
        target="mail",
        address="erp@example.test",
        created_at=AT,
    )
    run = ExportRun.objects.create(
        schedule=schedule,
        month="2026-09",
        state="failed",
        next_at=AT,
        requested_by="seed",
        created_at=AT,
    )
    file = ExportFile.objects.create(
        run=run,
        position=1,
        content="month",
        name="gpu-ledger-2026-09.zip",
        content_type="application/zip",
        size=1,
        sha256="0" * 64,
    )
    return {
        "export-schedules": schedule.pk,
        "export-runs": run.pk,
        "export-files": file.pk,
    }


def _decided_rows(organization: Organization, project: Project) -> dict[str, Any]:
    """Make what waits for a decision about final documents, and return its keys."""
    return {
        "write-offs": propose_write_off(
            document_id=make_final(organization, project, month=Month(2026, 5)).pk,
            reason="Insolvent.",
            is_four_eyes=True,
            actor=SEED,
            at=AT,
        ).pk,
        "disputes": open_dispute(
            document_id=make_final(organization, project, month=Month(2026, 6)).pk,
            amounts={},
            reason="Not ours.",
            actor=SEED,
            at=AT,
        ).pk,
    }


def make_final(organization: Organization, project: Project, *, month: Month) -> Invoice:
    """Return a final invoice of 2.00 for a month, of which there are no charges."""
    hours = month_hours(month, UTC)
    period = BillingPeriod.objects.create(
        organization=organization,
        label=month.label,
        hours=DateTimeTZRange(hours.begin_at, hours.end_at),
        created_at=AT,
    )
    BillingPeriod.objects.filter(pk=period.pk).update(state="closed", closed_at=AT)
    used = ChargeSum(
        project_id=str(project.pk),
        project=project.slug,
        project_name=project.name,
        cost_center="",
        size="small",
        price_group="H100/1g.10gb",
        unit_price=Decimal(2),
        unit_seconds=3600,
    )
    lines = compose_lines([used], currency=organization.billing_currency)
    invoice = Invoice(organization=organization, period=period, version=0)
    terms = replace(SITE_TERMS, is_four_eyes=False)
    currencies = {organization.pk: organization.billing_currency}
    payer = payer_facts_of(currencies, label=period.label)[organization.pk]
    (composed,) = compose_run(period, organization, lines, payer=payer, terms=terms, at=AT)
    due_on = AT.date() - timedelta(days=30)
    with transaction.atomic():
        fill_draft(invoice, composed, actor=SEED, at=AT)
        finalizing._freeze(invoice, actor=SEED, terms=terms)  # noqa: SLF001 - It has no charges.
        DueDate.objects.create(document=invoice, due_on=due_on, payment_days=30)
        post_document(invoice, payment_days=30, actor=SEED, at=AT)
    return invoice
