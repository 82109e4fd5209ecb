"""Payments in the admin: a bank's file is imported, and the rest allocated and reversed by hand."""

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from billing.models import Invoice, Payment
from billing.services.finalizing import finalize_invoice
from tests.support.billing.ledger import ERIC
from tests.support.billing.office import Office
from tests.support.billing.payments import csv_text, settled
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

LIST = "/admin/billing/payment/"


@pytest.fixture
def client(office: Office) -> Client:
    User.objects.update(is_staff=True)
    made = Client()
    made.force_login(office.cast.dora)
    return made


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def upload(client: Client, text: str) -> str:
    body = {"format": "csv", "file": SimpleUploadedFile("bank.csv", text.encode())}
    return client.post(f"{LIST}import/", body).content.decode()


def act(client: Client, action: str, note: str) -> str:
    (row,) = Payment.objects.filter(kind="receipt")
    body = {"action": action, "note": note, "_selected_action": [str(row.pk)]}
    return client.post(LIST, body, follow=True).content.decode()


def test_a_file_is_imported_and_its_refused_rows_are_shown(client: Client, final: Invoice) -> None:
    page = upload(client, csv_text(("B1", "1.00", final.reference), ("B2", "x", "")))

    assert "1 recorded, 0 known before, 1 refused." in page
    assert "bank_row_invalid" in page
    assert settled(final)[0] == "part_paid"
    assert "The file lacks columns" in upload(client, "nothing")


def test_a_payment_without_a_number_is_allocated_by_hand_and_reversed(
    client: Client, final: Invoice
) -> None:
    upload(client, csv_text(("B1", "1.00", "thanks")))

    assert "There is no final invoice" in act(client, "allocate_payments", "GL-1")
    act(client, "allocate_payments", final.reference)
    assert settled(final)[0] == "part_paid"
    act(client, "release_payments", "Wrong.")
    assert settled(final)[0] == "open"
    act(client, "reverse_payments", "No funds.")
    assert Payment.objects.filter(kind="reversal").count() == 1
    assert "B1" in client.get(LIST).content.decode()
    assert "Receivables" in client.get("/admin/billing/journalentry/").content.decode()
