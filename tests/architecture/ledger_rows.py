"""Rows of the lists of the journal, of what happens beside documents, and of customer classes."""

from decimal import Decimal
from hashlib import sha256

from django.db import transaction

from billing.domain.period import Month
from billing.models import (
    AccountingMonth,
    DocumentDelivery,
    Invoice,
    JournalBatch,
    JournalEntry,
    OpeningBalance,
    Payment,
    Posting,
    Reminder,
    ReminderStop,
)
from billing.services.disputes import open_dispute, write_message
from billing.services.ledger.write_offs import propose_write_off
from billing.services.pricing.customer_classes import create_customer_class, set_customer_class
from tests.support.billing.ledger import DORA, Ledger
from tests.support.builders import AT, MONTH_START
from tests.support.flows.ledger_estate import make_export_rows, make_final


@transaction.atomic
def make_ledger_rows(ledger: Ledger, number: int) -> None:
    """Make at least one row of each of these lists."""
    make_export_rows(ledger.organization)
    entry = JournalEntry.objects.create(
        event="payment",
        source_key=f"row:{number}",
        organization=ledger.organization,
        currency="EUR",
        document_on=AT.date(),
        posting_on=AT.date(),
        reason="Row.",
        posted_by="dora",
        posted_at=AT,
    )
    for account, amount in (("bank", 1), ("customer_credit", -1)):
        Posting.objects.create(entry=entry, account_id=account, amount=Decimal(amount))
    AccountingMonth.objects.create(label=f"{1900 + number}-01", closed_at=AT, closed_by="dora")
    OpeningBalance.objects.create(
        organization=ledger.organization,
        reference=f"row {number}",
        amount=Decimal(1),
        currency="EUR",
        dated_on=AT.date(),
        due_on=AT.date(),
        recorded_by="dora",
        recorded_at=AT,
    )
    Payment.objects.create(
        bank_account="row",
        bank_reference=f"row {number}",
        amount=Decimal(1),
        currency="EUR",
        booked_on=AT.date(),
        organization=ledger.organization,
        recorded_by="dora",
        recorded_at=AT,
    )
    set_customer_class(
        organization=ledger.organization,
        customer_class=create_customer_class(slug=f"row-{number}", name="Row", actor=DORA, at=AT),
        valid_from=MONTH_START,
        actor=DORA,
        at=AT,
    )
    _make_reminders(ledger)
    JournalBatch.objects.create(
        number=JournalBatch.objects.count() + 1,
        month="2026-11",
        layout="csv",
        entries=0,
        content_sha256=sha256(b"").hexdigest(),
        created_by="dora",
        created_at=AT,
    )
    _make_beside_invoice(ledger)


def _make_beside_invoice(ledger: Ledger) -> None:
    final = make_final(ledger.organization, ledger.llm, month=Month(2026, 6))
    opened = open_dispute(
        document_id=final.pk,
        amounts={line.pk: Decimal(1) for line in final.lines.all()},
        reason="Not ours.",
        actor=DORA,
        at=AT,
    )
    write_message(dispute_id=opened.pk, text="Which pods?", actor=DORA, at=AT)
    propose_write_off(
        document_id=final.pk, reason="Insolvent.", is_four_eyes=True, actor=DORA, at=AT
    )


def _make_reminders(ledger: Ledger) -> None:
    document = Invoice.objects.filter(organization=ledger.organization).latest("drafted_at")
    DocumentDelivery.objects.create(
        document=document,
        channel="post",
        recipient="Row",
        sent_at=AT,
        recorded_by="dora",
        recorded_at=AT,
    )
    Reminder.objects.create(
        document=document,
        level=1,
        days_overdue=7,
        open_amount=Decimal(1),
        reminded_on=AT.date(),
        created_at=AT,
    )
    ReminderStop.objects.create(document=document, reason="Row.", stopped_by="dora", stopped_at=AT)
