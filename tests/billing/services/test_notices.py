"""Final documents are mailed with their PDF, months that cannot be billed are reported."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest
from pytest_django import Settings

from billing.models import DocumentDelivery, DocumentFile, Invoice, Recipient
from billing.services.crediting import draft_credit
from billing.services.ledger.deliveries import record_sent_mails
from billing.services.ledger.notices import report_blocked_months
from simulator.adapters.notification_sender import SimulatedSender
from tenants import tasks
from tenants.domain.identity.roles import Role
from tenants.models import Notification, NotificationDelivery, Organization
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    TICK,
    Use,
    accrue_everything,
    make_ledger,
    month_of_use,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, grant, make_user
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
ADMIN = "alice@example.test"


@pytest.fixture(autouse=True)
def no_mails() -> Iterator[None]:
    SimulatedSender.purge()
    yield
    SimulatedSender.purge()


@shared_rows
def organization() -> Organization:
    """Acme with use in October and an administrator."""
    made = month_of_use([("llm", 3600)]).organization
    alice = make_user("alice")
    alice.email = ADMIN
    alice.save()
    grant(alice, Role.ORGANIZATION_ADMIN, organization=made)
    return made


def notified(event: str) -> Notification:
    return Notification.objects.get(event=event)


def test_a_final_invoice_is_mailed_with_its_pdf_and_recorded(organization: Organization) -> None:
    invoice = finalize(draft(organization, "2026-10"))

    tasks.tick(invoice.finalized_at or AT)
    recorded = [record_sent_mails(actor=TICK, at=invoice.finalized_at or AT) for _ in range(2)]

    (sent,) = SimulatedSender.sent
    assert sent.address == ADMIN
    assert sent.subject == f"Invoice {invoice.reference} for 2026-10: 2.00 EUR"
    assert "Amount with taxes: 2.00 EUR" in sent.text
    assert [(file.name, file.content) for file in sent.attachments] == [
        (f"{invoice.reference}.pdf", bytes(DocumentFile.objects.get(kind="pdf").content))
    ]
    assert sent.facts["document"] == str(invoice.pk)
    delivery = DocumentDelivery.objects.get()
    assert recorded == [1, 0]
    assert (delivery.document, delivery.reminder, delivery.recipient) == (invoice, None, ADMIN)


def test_a_second_finalization_mails_nothing(organization: Organization) -> None:
    invoice = finalize(draft(organization, "2026-10"))

    finalize(invoice)

    assert NotificationDelivery.objects.count() == 1


def test_a_german_customer_reads_german(organization: Organization) -> None:
    organization.language = "de"
    organization.save()
    invoice = finalize(draft(organization, "2026-10"))

    tasks.tick(invoice.finalized_at or AT)

    (sent,) = SimulatedSender.sent
    assert sent.language == "de"
    assert sent.subject == f"Rechnung {invoice.reference} für 2026-10: 2,00 EUR"
    assert "Betrag mit Steuern: 2,00 EUR" in sent.text


def test_a_credit_note_is_an_event_of_its_own(organization: Organization) -> None:
    invoice = finalize(draft(organization, "2026-10"))
    line = invoice.lines.get()
    note = draft_credit(
        invoice_id=invoice.pk,
        amounts={line.pk: Decimal("0.40")},
        reason="Broken fan",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )

    final = finalize(note)

    notice = notified("billing:credit_note:finalized")
    assert notice.document_id == final.pk
    assert f"It corrects {invoice.reference}. Reason: Broken fan" in notice.text


def test_a_mail_server_that_is_away_blocks_no_close(
    organization: Organization, settings: Settings
) -> None:
    settings.NOTIFICATION_DOCUMENTS = "tests.billing.services.test_notices.fail_to_render"

    invoice = finalize(draft(organization, "2026-10"))
    tasks.tick(invoice.finalized_at or AT)

    stored = NotificationDelivery.objects.get()
    assert Invoice.objects.get().state == "final"
    assert (stored.state, stored.attempts, stored.last_error) == (
        "pending",
        1,
        "unexpected: RuntimeError",
    )


def fail_to_render(document_id: object) -> None:
    raise RuntimeError(document_id)


def test_the_mail_address_of_a_recipient_gets_its_documents(organization: Organization) -> None:
    recipient = Recipient.objects.create(
        organization=organization,
        slug="accounts",
        name="Acme accounts",
        email="accounts@acme.test",
        language="de",
        created_at=AT,
    )
    project = organization.projects.get(slug="llm")
    organization.routes.create(project=project, recipient=recipient, created_at=AT)

    finalize(draft(organization, "2026-10"))

    rows = NotificationDelivery.objects.values_list("address", "language")
    assert sorted(rows) == [("accounts@acme.test", "de"), (ADMIN, "de")]


def test_months_that_cannot_be_billed_are_reported_to_finance_once_a_day() -> None:
    dora = make_user("dora")
    grant(dora, Role.FINANCE_ADMIN)
    ledger = make_ledger("acme", bound_hours=BOUND_HOURS)
    sealed_window(ledger.cluster, [Use(ledger.llm, size="large", price_group="B300/whole")])
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    at = MONTH_END + timedelta(hours=7)

    reported = [
        report_blocked_months(at=moment)
        for moment in (MONTH_END + timedelta(hours=5), at, at, at + timedelta(days=1))
    ]

    first, _ = Notification.objects.order_by("occurred_at")
    assert reported == [0, 1, 0, 1]
    assert first.subject == "2026-10 cannot be billed for 1 organization"
    assert "Acme (acme): 1.0000 unit-hours without a price." in first.text
    assert first.facts["organizations"] == [{"organization": "acme", "reasons": ["prices"]}]
    assert set(NotificationDelivery.objects.values_list("address", flat=True)) == {dora.email}
