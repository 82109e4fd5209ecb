"""Files of documents over REST: e-invoice, usage annex, statement."""

import io
import json
import zipfile
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import override_settings
from lxml import etree
from rest_framework.test import APIClient

from billing.adapters.e_invoices import read_totals
from billing.models import DocumentFile, Invoice
from billing.services.crediting import void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.models import Organization
from tests.billing.adapters.test_other_pdfs import text_of
from tests.billing.services.ledger.test_journal import issued_on
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

TERMS = replace(SITE_TERMS, with_e_invoices=True)
PATH = "/api/v1/invoices/"


@shared_rows
def final(office: Office) -> Invoice:
    """Acme's October with an e-invoice."""
    Organization.objects.filter(pk=office.cast.acme.pk).update(country="DE", language="de")
    draft = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=TERMS)


@pytest.fixture
def client(office: Office) -> APIClient:
    return api_client(office.cast.alice)


@pytest.mark.parametrize(
    ("query", "kind", "root"),
    [
        ("", "cii", "CrossIndustryInvoice"),
        ("?syntax=cii", "cii", "CrossIndustryInvoice"),
        ("?syntax=ubl", "ubl", "Invoice"),
    ],
)
def test_an_e_invoice_is_handed_out_as_it_was_frozen(
    client: APIClient, final: Invoice, query: str, kind: str, root: str
) -> None:
    answer = client.get(f"{PATH}{final.pk}/e-invoice/{query}")

    assert (answer.status_code, answer["Content-Type"]) == (200, "application/xml")
    name = f"{final.reference}.{kind}.xml"
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer["Cache-Control"] == "private, no-store"
    assert answer.content == bytes(DocumentFile.objects.get(document=final, kind=kind).content)
    assert etree.QName(etree.fromstring(answer.content)).localname == root
    totals = read_totals(answer.content)
    assert (totals.number, totals.net, totals.gross) == (
        final.reference,
        final.total,
        final.payable,
    )


def test_another_syntax_is_refused(client: APIClient, final: Invoice) -> None:
    assert problem(client.get(f"{PATH}{final.pk}/e-invoice/?syntax=edifact"))[0] == 422


def test_an_annex_is_off_unless_the_site_turns_it_on(client: APIClient, final: Invoice) -> None:
    answer = client.get(f"{PATH}{final.pk}/usage-annex/")

    assert problem(answer) == (409, "usage_annex_missing")
    assert "USAGE_ANNEX" in answer.json()["remedy"]


@override_settings(USAGE_ANNEX=True)
def test_an_annex_names_persons_and_the_invoice_none(client: APIClient, final: Invoice) -> None:
    answer = client.get(f"{PATH}{final.pk}/usage-annex/")

    assert (answer.status_code, answer["Content-Type"]) == (200, "application/pdf")
    assert f'filename="{final.reference}.annex.pdf"' in answer["Content-Disposition"]
    text = text_of(answer.content)
    assert "Nutzungsanlage" in text
    assert "carol" in text
    assert "1,0000 2,00 " in text
    assert "carol" not in final.content
    assert "carol" not in text_of(client.get(f"{PATH}{final.pk}/pdf/").content)
    assert set(DocumentFile.objects.values_list("kind", flat=True)) == {"pdf", "cii", "ubl"}


@override_settings(USAGE_ANNEX=True)
def test_drafts_and_notes_have_no_annex(client: APIClient, draft: Invoice) -> None:
    refused = client.get(f"{PATH}{draft.pk}/usage-annex/")
    final = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    note, _ = void_invoice(
        invoice_id=final.pk, reason="Wrong.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize_invoice(invoice_id=note.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    assert problem(refused) == (409, "usage_annex_missing")
    of_note = client.get(f"{PATH}{note.pk}/usage-annex/")
    assert problem(of_note) == (409, "usage_annex_missing")


@override_settings(USAGE_ANNEX=True)
@pytest.mark.parametrize(
    ("name", "status"), [("ann", 200), ("dora", 200), ("bob", 404), ("mallory", 404)]
)
def test_persons_are_read_by_those_who_read_the_invoice(
    office: Office, final: Invoice, name: str, status: int
) -> None:
    answer = api_client(getattr(office.cast, name)).get(f"{PATH}{final.pk}/usage-annex/")

    assert answer.status_code == status


@override_settings(USAGE_ANNEX=True)
def test_a_token_for_invoices_alone_reads_no_persons(office: Office, final: Invoice) -> None:
    client = api_client(office.cast.alice, scopes=("billing:invoice:read",))

    assert client.get(f"{PATH}{final.pk}/pdf/").status_code == 200
    assert client.get(f"{PATH}{final.pk}/usage-annex/").status_code == 404


def test_a_statement_is_printed_in_the_language_of_its_organization(
    office: Office, client: APIClient, final: Invoice
) -> None:
    issued = issued_on(final)
    query = {
        "organization": str(office.cast.acme.pk),
        "from": f"{issued}",
        "to": f"{issued + timedelta(1)}",
    }

    answer = client.get("/api/v1/reports/statement/pdf/", query)

    assert (answer.status_code, answer["Content-Type"]) == (200, "application/pdf")
    assert f'filename="statement-acme-{issued}.pdf"' in answer["Content-Disposition"]
    assert f"Rechnung {final.reference} 3,00 3,00" in text_of(answer.content)
    assert problem(
        api_client(office.cast.mallory).get("/api/v1/reports/statement/pdf/", query)
    ) == (
        404,
        "not_found",
    )


def annexes(client: APIClient) -> list[str]:
    """Return the usage annexes in October's bundle, all of which the manifest lists."""
    answer = client.get("/api/v1/exports/month/?month=2026-10")
    content = b"".join(answer)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        listed = {file["path"] for file in json.loads(archive.read("manifest.json"))["files"]}
        found = [path for path in archive.namelist() if path.startswith("annex/")]
        assert all("carol" in text_of(archive.read(path)) for path in found)
    assert set(found) <= listed
    return found


def test_a_months_bundle_has_the_annexes_where_they_are_on(office: Office, final: Invoice) -> None:
    client = api_client(office.cast.dora)
    assert annexes(client) == []

    with override_settings(USAGE_ANNEX=True):
        assert annexes(client) == [f"annex/{final.reference}.pdf"]
        assert annexes(api_client(office.cast.ann)) == [f"annex/{final.reference}.pdf"]
