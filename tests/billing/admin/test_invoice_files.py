"""The invoice's page offers the files that there are, and says why there is no e-invoice."""

import re
from dataclasses import replace
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from billing.models import DocumentFile, Invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.models import Organization
from tests.billing.adapters.test_other_pdfs import text_of
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT

TERMS = replace(SITE_TERMS, with_e_invoices=True)


@pytest.fixture
def client(office: Office) -> Client:
    User.objects.update(is_staff=True)
    made = Client()
    made.force_login(office.cast.dora)
    return made


def final_of(office: Office, *, country: str) -> Invoice:
    Organization.objects.filter(pk=office.cast.acme.pk).update(country=country)
    draft = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=TERMS)


def page_of(client: Client, invoice: Invoice) -> str:
    answer = client.get(reverse("admin:billing_invoice_change", args=[invoice.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def test_an_e_invoice_is_downloaded_from_the_page(client: Client, office: Office) -> None:
    final = final_of(office, country="DE")

    page = page_of(client, final)

    assert "No e-invoice:" not in page
    for kind in ("cii", "ubl"):
        link = reverse(f"admin:billing_invoice_{kind}", args=[final.pk])
        assert f'href="{link}"' in page
        answer = client.get(link)
        assert answer.content == bytes(DocumentFile.objects.get(kind=kind).content)
        name = f"{final.reference}.{kind}.xml"
        assert answer["Content-Disposition"] == f'attachment; filename="{name}"'


def test_the_page_says_why_there_is_no_e_invoice(client: Client, office: Office) -> None:
    final = final_of(office, country="")

    page = unescape(re.sub(r"\s+", " ", page_of(client, final)))

    assert "No e-invoice: The customer has no country of ISO 3166-1 (BR-11)" in page
    link = reverse("admin:billing_invoice_cii", args=[final.pk])
    assert link not in page
    refused = client.get(link, follow=True)
    assert "The customer has no country" in refused.content.decode()


def test_a_draft_has_neither_e_invoice_nor_a_reason(client: Client, draft: Invoice) -> None:
    page = page_of(client, draft)

    assert "No e-invoice:" not in page
    assert "/cii/" not in page


def test_an_annex_is_offered_where_the_site_turns_it_on(client: Client, office: Office) -> None:
    final = final_of(office, country="DE")
    link = reverse("admin:billing_invoice_annex", args=[final.pk])

    assert link not in page_of(client, final)
    with override_settings(USAGE_ANNEX=True):
        assert f'href="{link}"' in page_of(client, final)
        assert "carol" in text_of(client.get(link).content)


def test_a_logo_that_is_gone_is_a_message_on_the_page(client: Client, office: Office) -> None:
    final = final_of(office, country="DE")

    with override_settings(ISSUER_LOGO="/nowhere/logo.svg"):
        link = reverse("admin:billing_invoice_pdf", args=[final.pk])
        refused = client.get(link, follow=True)

    assert "ISSUER_LOGO: logo.svg cannot be used." in refused.content.decode()
    assert "/nowhere" not in refused.content.decode()
    assert not DocumentFile.objects.filter(kind="pdf").exists()
    assert client.get(link)["Content-Type"] == "application/pdf"


def test_a_statement_is_a_pdf_by_one_more_click(client: Client, office: Office) -> None:
    final_of(office, country="DE")
    page = reverse("admin:billing_payment_statement")
    query = {"organization": "acme", "begin": "2020-01-01", "end": "2199-01-01"}

    shown = client.get(page, query).content.decode()

    link = re.search(r'href="(\?[^"]*format=pdf)"', shown)
    assert link is not None
    answer = client.get(page + unescape(link[1]))
    assert answer["Content-Type"] == "application/pdf"
    assert "Invoice GL-" in text_of(answer.content)
