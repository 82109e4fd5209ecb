"""Deliveries of documents: recorded by people, and from the outbox for reminders it has sent."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction

from billing.domain.ledger.errors import DocumentDeliveryInvalidError
from billing.models import DocumentDelivery, Invoice
from billing.services.ledger.deliveries import record_delivery, record_sent_mails
from tenants.models import AuditEntry, Membership, NotificationDelivery, NotificationEndpoint
from tests.billing.services.ledger.test_reminders import overdue, remind
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, TICK, month_of_use
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@shared_rows
def invoice() -> Invoice:
    """October, a draft."""
    return draft(month_of_use([("llm", 3600)]).organization, "2026-10")


def deliver(invoice: Invoice, at: datetime, **fields: Any) -> DocumentDelivery:  # noqa: ANN401 - Any field.
    return record_delivery(
        **{
            "document_id": invoice.pk,
            "channel": "post",
            "recipient": "Acme, Main Street 1",
            "sent_at": at,
            "actor": DORA,
            "at": at,
            **fields,
        }
    )


def test_a_person_records_how_a_final_document_was_sent(invoice: Invoice) -> None:
    final = finalize(invoice)

    made = deliver(final, overdue(final, 0))

    assert (made.channel, made.recipient, made.recorded_by) == (
        "post",
        "Acme, Main Street 1",
        "dora",
    )
    entry = AuditEntry.objects.get(action="billing:document_delivery:record")
    assert entry.facts["document"] == final.reference
    with pytest.raises(DatabaseError), transaction.atomic():
        DocumentDelivery.objects.update(recipient="Another")


def test_what_cannot_be_kept_is_refused(invoice: Invoice) -> None:
    with pytest.raises(DocumentDeliveryInvalidError, match="draft"):
        deliver(invoice, invoice.drafted_at)
    final = finalize(invoice)
    at = overdue(final, 0)
    for fields in (
        {"recipient": " "},
        {"sent_at": at + HOUR},
    ):
        with pytest.raises(DocumentDeliveryInvalidError):
            deliver(final, at, **fields)
    assert not DocumentDelivery.objects.exists()


def test_a_reminder_is_recorded_once_it_was_sent_and_one_bad_mailbox_holds_up_no_other(
    invoice: Invoice,
) -> None:
    final = finalize(invoice)
    for name in ("ann", "bea"):
        Membership.objects.create(
            user=User.objects.create_user(name, f"{name}@example.test"),
            role="organization_admin",
            organization=final.organization,
            created_at=AT,
        )
    at = overdue(final, 7)
    remind(at)
    assert record_sent_mails(actor=TICK, at=at) == 0
    addresses = NotificationDelivery.objects
    addresses.filter(address="ann@example.test").update(state="sent", sent_at=at)
    addresses.filter(address="bea@example.test").update(state="given_up")

    recorded = [record_sent_mails(actor=TICK, at=at + HOUR) for _ in range(2)]

    assert recorded == [1, 0]
    row = DocumentDelivery.objects.get()
    assert (row.channel, row.recipient, row.sent_at) == ("mail", "ann@example.test", at)
    assert row.reminder is not None
    assert (row.document_id, row.reminder.level) == (final.pk, 1)


def test_what_endpoints_of_the_platform_got_was_not_sent_to_the_customer(invoice: Invoice) -> None:
    final = finalize(invoice)
    for organization, host in ((None, "erp.example.com"), (final.organization, "acme.example")):
        NotificationEndpoint.objects.create(
            organization=organization,
            kind="webhook",
            address=f"https://{host}/ledger",
            events=["billing:*:overdue"],
            secret_reference="env:WEBHOOK_SECRET_ERP",
            created_at=AT,
        )
    at = overdue(final, 7)
    remind(at)
    assert NotificationDelivery.objects.update(state="sent", sent_at=at) == 2

    record_sent_mails(actor=TICK, at=at + HOUR)

    recipients = DocumentDelivery.objects.values_list("recipient", flat=True)
    assert list(recipients) == ["https://acme.example/ledger"]
