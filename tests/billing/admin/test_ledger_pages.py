"""Pages of the ledger: accounting months with their steps, open items by age, and statements."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client

from billing.models import AccountingMonth, Invoice, JournalBatch
from billing.services.finalizing import finalize_invoice
from tests.support.billing.ledger import ERIC
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

MONTHS = "/admin/billing/journalentry/months/"


@pytest.fixture
def client(office: Office) -> Client:
    User.objects.update(is_staff=True)
    made = Client()
    made.force_login(office.cast.dora)
    return made


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def text_of(client: Client, path: str, **form: str) -> str:
    answer = client.post(path, form) if form else client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())))


def month_of(final: Invoice) -> str:
    assert final.finalized_at is not None
    return f"{final.finalized_at:%Y-%m}"


def test_a_month_is_accrued_exported_and_closed_on_one_page(client: Client, final: Invoice) -> None:
    month = month_of(final)

    assert f"{month} not over 1 1" in text_of(client, MONTHS)
    year, number = month.split("-")
    entries = f"/admin/billing/journalentry/?posting_on__year={year}&posting_on__month={number}"
    assert final.reference in text_of(client, entries)
    assert "Batch 1 has 1 entry of" in text_of(
        client, MONTHS, step="export", month=month, layout="sap"
    )
    assert "Every entry of the month is in a batch." in text_of(
        client, MONTHS, step="export", month=month, layout="csv"
    )
    batch = JournalBatch.objects.get()
    file = client.get(f"{MONTHS}?batch={batch.pk}")
    assert (file.content.decode(), batch.layout) == (batch.content, "sap")
    assert client.get(f"{MONTHS}?batch=1").status_code == 404


def test_a_month_is_closed_after_a_question(client: Client, final: Invoice) -> None:
    closed = AccountingMonth.objects.count()

    asked = text_of(client, MONTHS, step="close", month=month_of(final))

    assert "This cannot be undone." in asked
    assert "1 entry of them is in no batch yet" in asked
    assert f"Type {month_of(final)} to close it" in asked
    mistyped = text_of(client, MONTHS, step="close", month="2026-10", typed="2026-9")
    assert "Nothing is closed: what was typed is not 2026-10." in mistyped
    confirmed = text_of(client, MONTHS, step="close", month="2026-10", confirmed="1")
    assert "This cannot be undone." in confirmed
    assert AccountingMonth.objects.count() == closed
    refused = text_of(client, MONTHS, step="close", month="2190-01", typed="2190-01")
    assert "closed." not in refused
    assert AccountingMonth.objects.count() == closed
    done = text_of(client, MONTHS, step="close", month="2026-10", typed=" 2026-10 ")
    assert "2026-10 is closed." in done
    assert AccountingMonth.objects.count() == closed + 1


def test_open_items_lead_to_the_statement_of_their_organization(
    client: Client, final: Invoice
) -> None:
    page = "/admin/billing/payment/"

    answer = client.get(f"{page}ageing/").content.decode()

    link = re.search(r'href="([^"]*statement/\?[^"]*)">([^<]*)<', answer)
    assert link is not None
    assert link[2] == final.organization.name
    shown = text_of(client, unescape(link[1]))
    assert f"{final.reference} 3.00 EUR 3.00 EUR" in shown
    assert "Closing balance 3.00 EUR" in shown
    unknown = unescape(link[1]).replace("currency=EUR", "currency=EUO")
    assert "Closing balance 3.00 EUR" in text_of(client, unknown)
    assert "Account" not in text_of(client, f"{page}statement/").split("Show")[1]
    assert final.organization.name in text_of(client, f"{page}ageing/?on=9999-12-31")


def test_only_those_who_read_the_journal_see_the_months(office: Office) -> None:
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(office.cast.mallory)

    assert client.get(MONTHS).status_code == 403
    assert client.get("/admin/billing/payment/ageing/").status_code == 403
