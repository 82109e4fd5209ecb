"""What a final document says of language and payment, and what keeps it from being final."""

import hashlib
import io
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from django.db import DatabaseError, IntegrityError, transaction
from pypdf import PdfReader

from billing.adapters.documents import render_pdf
from billing.domain.documents.document import InvoiceTerms
from billing.domain.documents.errors import (
    EInvoiceMissingError,
    IssuerIncompleteError,
    IssuerLogoError,
)
from billing.domain.documents.taxes import TaxTerms
from billing.domain.e_invoices.files import e_invoice_files
from billing.domain.e_invoices.invoice import EInvoiceSyntax
from billing.domain.errors import DraftStaleError
from billing.models import BillingPeriod, DocumentFile, Invoice
from billing.models.invoice import FileKind
from billing.selectors.documents.e_invoices import e_invoice
from billing.services import finalizing
from billing.services.crediting import draft_credit
from billing.services.finalizing import file_of, finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.taxes import set_tax_rate, set_tax_treatment
from tenants.services.organizations import update_organization
from tests.support.billing.ledger import DORA, ERIC, Ledger, month_of_use
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.digest import ledger_digest
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600)])


def drafted(ledger: Ledger, terms: InvoiceTerms = SITE_TERMS) -> Invoice:
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    return draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=terms)


def finalized(draft: Invoice, terms: InvoiceTerms = SITE_TERMS) -> Invoice:
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=terms)


def tax(ledger: Ledger, category: str, rate: int, exemption_text: str = "") -> None:
    since = {"valid_from": date(2026, 1, 1), "actor": DORA, "at": AT}
    terms = TaxTerms(
        country="DE", category=category, rate=Decimal(rate), exemption_text=exemption_text
    )
    set_tax_rate(terms=terms, **since)  # type: ignore[arg-type]
    set_tax_treatment(
        organization=ledger.organization,
        country="DE",
        category=category,
        **since,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("category", "lacking", "missing"),
    [
        ("", {"address": ""}, "ISSUER_ADDRESS"),
        ("O", {"tax_id": "", "bank_account": ""}, ""),
        ("S", {"tax_id": "", "bank_account": ""}, "ISSUER_TAX_ID, ISSUER_BANK_ACCOUNT"),
    ],
)
def test_an_incomplete_issuer_is_refused_with_the_settings_that_complete_it(
    ledger: Ledger, category: str, lacking: dict[str, str], missing: str
) -> None:
    if category:
        tax(ledger, category, 19 if category == "S" else 0, "" if category == "S" else "Internal.")
    terms = replace(SITE_TERMS, issuer=replace(SITE_TERMS.issuer, **lacking))
    draft, before = drafted(ledger, terms), ledger_digest()

    if missing:
        with pytest.raises(IssuerIncompleteError) as refused:
            finalized(draft, terms)
        assert refused.value.facts == {"missing": missing, "issuer": "the site"}
        assert ledger_digest() == before
    else:
        assert finalized(draft, terms).number == 1


def test_a_logo_that_cannot_be_printed_keeps_documents_of_the_site_from_being_final(
    ledger: Ledger,
) -> None:
    terms = replace(
        SITE_TERMS, logo_problems={SITE_TERMS.issuer.name: "ISSUER_LOGO: /logo.svg cannot be used."}
    )
    draft, before = drafted(ledger, terms), ledger_digest()

    with pytest.raises(IssuerLogoError, match="ISSUER_LOGO") as refused:
        finalized(draft, terms)

    assert refused.value.code == "issuer_logo_unusable"
    assert ledger_digest() == before
    assert finalized(draft).number == 1


def test_a_note_shows_the_issuer_as_it_is_on_the_document_that_it_corrects(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = replace(SITE_TERMS, issuer=replace(SITE_TERMS.issuer, address=""))
    with monkeypatch.context() as before:
        before.setattr(finalizing, "_require_issuer", lambda *_, **__: None)
        final = finalized(drafted(ledger, terms), terms)
    amounts = {final.lines.get().pk: Decimal("0.50")}

    note = finalized(
        draft_credit(
            invoice_id=final.pk, amounts=amounts, reason="No.", actor=DORA, at=AT, terms=SITE_TERMS
        )
    )

    assert note.document["issuer"] == final.document["issuer"]


def test_a_customers_language_is_that_of_its_documents(ledger: Ledger) -> None:
    shown = drafted(ledger)
    update_organization(
        organization=ledger.organization,
        changes={"language": "de", "country": "DE"},
        actor=DORA,
        at=AT,
    )
    with pytest.raises(DraftStaleError) as refused:
        finalized(shown)
    assert refused.value.facts["changed"] == "customer.country, language"

    final = finalized(drafted(ledger))

    (page,) = PdfReader(io.BytesIO(render_pdf(final.document))).pages
    said = " ".join(page.extract_text().split())
    due = date.fromisoformat(final.document["due_on"])
    assert f"Bitte zahlen Sie 2,00 EUR bis {due:%d.%m.%Y}" in said
    assert "Small H100/1g.10gb 1,0000 2,00 2,00" in said
    assert "10115 Berlin DE" in said
    for word in ("Invoice", "Total", "Reference", "Price"):
        assert word not in said


def test_the_file_of_a_final_document_stays_as_it_was_rendered_first(ledger: Ledger) -> None:
    draft = drafted(ledger)
    files = iter([b"draft", b"draft again", b"first", b"of a new font"])

    def ask(document: Invoice) -> bytes:
        return file_of(document, kind=FileKind.PDF, render=lambda *_: next(files), at=AT)

    assert [ask(draft), ask(draft)] == [b"draft", b"draft again"]
    final = finalized(draft)
    assert [ask(final), ask(final)] == [b"first", b"first"]
    stored = DocumentFile.objects.get()
    assert stored.sha256 == hashlib.sha256(b"first").hexdigest()
    for change in ({"content": b"other"}, {"document": None}):
        with pytest.raises(DatabaseError), transaction.atomic():
            DocumentFile.objects.filter(pk=stored.pk).update(**change)
    wrong = DocumentFile(
        document=final, kind="other", content=b"x", sha256="0" * 64, rendered_at=AT
    )
    with pytest.raises(IntegrityError, match="billing_documentfile_digest"), transaction.atomic():
        wrong.save(force_insert=True)


def test_an_e_invoice_is_frozen_with_the_document_and_lies_in_its_pdf(ledger: Ledger) -> None:
    terms = replace(
        SITE_TERMS,
        with_e_invoices=True,
        issuer=replace(SITE_TERMS.issuer, country="DE", tax_id="DE123456789"),
    )
    without = drafted(ledger, terms)
    with pytest.raises(EInvoiceMissingError, match="A draft has no e-invoice"):
        e_invoice(without, EInvoiceSyntax.CII)
    organization = {"organization": ledger.organization, "actor": DORA, "at": AT}
    update_organization(changes={"country": "DE"}, **organization)  # type: ignore[arg-type]

    final = finalized(drafted(ledger, terms), terms)

    stored = {row.kind: bytes(row.content) for row in DocumentFile.objects.all()}
    files = e_invoice_files(final.document)
    assert stored == {"cii": files[EInvoiceSyntax.CII], "ubl": files[EInvoiceSyntax.UBL]}
    assert e_invoice(final, EInvoiceSyntax.UBL) == stored["ubl"]
    content = file_of(final, kind=FileKind.PDF, render=render_pdf, at=AT)
    assert content == render_pdf(final.document, stored["cii"])
    assert PdfReader(io.BytesIO(content)).attachments == {"factur-x.xml": [stored["cii"]]}


def test_a_document_that_cannot_be_an_e_invoice_becomes_final_and_says_why(ledger: Ledger) -> None:
    terms = replace(SITE_TERMS, with_e_invoices=True)

    final = finalized(drafted(ledger, terms), terms)

    assert final.state == "final"
    assert not DocumentFile.objects.exists()
    with pytest.raises(EInvoiceMissingError) as refused:
        e_invoice(final, EInvoiceSyntax.CII)
    assert "The customer has no country of ISO 3166-1 (BR-11)" in refused.value.message


def test_a_credit_note_says_why_and_has_money_alone(ledger: Ledger) -> None:
    final = finalized(drafted(ledger))
    note = draft_credit(
        invoice_id=final.pk,
        amounts={final.lines.get().pk: Decimal("0.50")},
        reason="Broken link on node-7.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )

    document = finalized(note).document

    assert (document["reason"], "due_on" in document) == ("Broken link on node-7.", False)
    (page,) = PdfReader(io.BytesIO(render_pdf(document))).pages
    said = " ".join(page.extract_text().split())
    assert "Reason: Broken link on node-7." in said
    assert "0.0000" not in said
    assert "Please pay" not in said
