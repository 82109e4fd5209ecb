"""An e-invoice keeps to schema and rules of EN 16931, and says what the page says."""

import io
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from facturx import get_xml_from_pdf
from lxml import etree
from pypdf import PdfReader

from billing.adapters.documents import render_pdf
from billing.adapters.e_invoice_rules import EInvoiceRules
from billing.domain.documents.document import (
    Document,
    Party,
    PeriodFacts,
    compose_document,
    correction_document,
    issue_document,
)
from billing.domain.documents.invoicing import ChargeSum, InvoiceKind, Line, compose_lines, total_of
from billing.domain.documents.taxes import Corrected, TaxTerms, tax_text
from billing.domain.e_invoices.files import e_invoice_files
from billing.domain.e_invoices.invoice import EInvoiceSyntax, e_invoice_of, problems_of
from billing.domain.money import Money
from billing.domain.period import Month, month_hours
from tests.billing.adapters.test_pdf import ISSUED_AT
from tests.support.billing.documents import DRAFTED_AT

ZONE = "Europe/Berlin"
ISSUER = Party(
    name="GPU Platform",
    address="Main Street 1\n10115 Berlin",
    tax_id="DE 123456789",
    bank_account="DE02 1203 0000 0000 2020 51",
    country="DE",
)
CUSTOMER = Party(
    name="Acme & Söhne <株式会社>",
    address="Hof\nHafen 12\nTor 3\n20457 Hamburg",
    tax_id="DE999999999",
    country="DE",
    cost_center="K-1",
    buyer_reference="04011000-12345-67",
)
STANDARD = TaxTerms("DE", "S", Decimal(19), "")
NAMES = {
    "ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100"
}


def lines(currency: str, *, unit_seconds: int = 3601, late: bool = False) -> tuple[Line, ...]:
    charges = [
        ChargeSum(
            project_id=f"id-{size}",
            project="llm",
            project_name="Language models",
            cost_center="CC-7",
            size=size,
            price_group="H100/whole",
            unit_price=Decimal("2.3751"),
            unit_seconds=unit_seconds * number,
            service_month="2026-09" if late else "",
            billed_unit_seconds=5 if late else 0,
            billed_amount=Decimal("1.00") if late else Decimal(0),
        )
        for number, size in enumerate(("small", "large"), 1)
    ]
    return compose_lines(charges, currency=currency)


def final(
    tax: TaxTerms | None = STANDARD,
    *,
    currency: str = "EUR",
    of: tuple[Line, ...] | None = None,
    customer: Party = CUSTOMER,
    **printed: Any,  # noqa: ANN401 - Of a document.
) -> Document:
    composed = lines(currency) if of is None else of
    net = total_of(composed, currency=currency)
    draft = compose_document(
        issuer=ISSUER,
        customer=customer,
        period=PeriodFacts("2026-10", ZONE, month_hours(Month(2026, 10), ZoneInfo(ZONE))),
        lines=composed,
        currency=currency,
        drafted_at=DRAFTED_AT,
    )
    draft |= {**tax_text(net, tax, tax_point="2026-10-31"), **printed}
    return issue_document(draft, reference="GL-2026-000012", issued_at=ISSUED_AT, payment_days=30)


def credit_of(document: Document) -> Document:
    zero = Money.zero(document["currency"])
    given_back = [
        replace(line, unit_seconds=-line.unit_seconds, amount=-line.amount)
        for line in lines(document["currency"])
    ]
    draft = correction_document(
        document,
        kind=InvoiceKind.CREDIT_NOTE,
        lines=given_back,
        reason="Broken link\nof node 7",
        drafted_at=DRAFTED_AT,
        before=Corrected(zero, zero),
    )
    return issue_document(draft, reference="GL-CN-2026-000001", issued_at=ISSUED_AT, payment_days=0)


def carried() -> Document:
    gross = Decimal(final()["payable"])
    amounts = {
        "brought_forward": "-1.00",
        "carried_forward": "0.00",
        "since": "",
        "amount_due": f"{gross - 1}",
    }
    return final(carried=amounts)


def explained(category: str, why: str) -> TaxTerms:
    return TaxTerms("DE", category, Decimal(0), why)


CASES: dict[str, Callable[[], Document]] = {
    "standard": final,
    "german": lambda: final(language="de", purchase_order="PO-7"),
    "credit": lambda: credit_of(final()),
    "yen": lambda: final(TaxTerms("JP", "S", Decimal(10), ""), currency="JPY"),
    "zero rated": lambda: final(explained("Z", "")),
    "exempt": lambda: final(explained("E", "Section 4 UStG")),
    "reverse charge": lambda: final(explained("AE", "Reverse charge")),
    "outside": lambda: final(explained("O", "Internal")),
    "untaxed": lambda: final(None, customer=Party(name="Vision lab", country="DE")),
    "late": lambda: final(of=lines("EUR", late=True)),
    "carried": carried,
    "nothing": lambda: final(of=lines("EUR", unit_seconds=0)),
}


@pytest.fixture(scope="module")
def rules() -> EInvoiceRules:
    return EInvoiceRules()


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_sort_of_document_keeps_schema_and_rules(name: str, rules: EInvoiceRules) -> None:
    made = e_invoice_files(CASES[name]())

    assert {syntax: rules.check(made[syntax]) for syntax in EInvoiceSyntax} == {
        EInvoiceSyntax.CII: (),
        EInvoiceSyntax.UBL: (),
    }


# What is changed of a good e-invoice, and the rule that must notice.
PLANTED = {
    "BR-02": ("standard", r"<ram:ID>GL-2026-000012</ram:ID>", "<ram:ID></ram:ID>"),
    "BR-CO-10": ("standard", r"<ram:LineTotalAmount>7.13<", "<ram:LineTotalAmount>8.13<"),
    "BR-CO-15": ("standard", r"<ram:GrandTotalAmount>\S+?<", "<ram:GrandTotalAmount>99.00<"),
    "BR-CO-16": ("carried", r"<ram:TotalPrepaidAmount>1.00<", "<ram:TotalPrepaidAmount>2.00<"),
    "BR-CO-26": ("outside", r"<ram:ID>DE123456789</ram:ID>", ""),
    "BR-S-05": ("standard", r"<ram:RateApplicablePercent>19<", "<ram:RateApplicablePercent>0<"),
    "BR-Z-05": ("zero rated", r"<ram:RateApplicablePercent>0<", "<ram:RateApplicablePercent>1<"),
    "BR-E-10": ("exempt", r"<ram:ExemptionReason>[^<]+</ram:ExemptionReason>", ""),
    "BR-AE-02": ("reverse charge", r"<ram:ID schemeID=\"VA\">DE999999999</ram:ID>", ""),
    "BR-O-10": (
        "untaxed",
        r"<ram:(ExemptionReason(?:Code)?)>[^<]+</ram:\1>",
        "",
    ),
    "BR-DEC-14": ("standard", r"(<ram:GrandTotalAmount>\S+?)<", r"\g<1>0<"),
    "Value of 'ram:CountryID' is not allowed": (
        "standard",
        r"<ram:CountryID>DE<",
        "<ram:CountryID>QQ<",
    ),
}


@pytest.mark.parametrize("rule", sorted(PLANTED))
def test_a_planted_error_of_each_group_of_rules_is_found(rule: str, rules: EInvoiceRules) -> None:
    name, pattern, instead = PLANTED[rule]
    good = e_invoice_files(CASES[name]())[EInvoiceSyntax.CII].decode()

    bad, changed = re.subn(pattern, instead, good)

    assert changed
    bad = re.sub(r"<ram:SpecifiedTaxRegistration></ram:SpecifiedTaxRegistration>", "", bad)
    found = rules.check(bad.encode())
    assert any(rule in f"{one.rule} {one.text}" for one in found), found


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_read_back_from_the_pdf_equals_the_page(name: str) -> None:
    document = CASES[name]()
    xml = e_invoice_files(document)[EInvoiceSyntax.CII]

    content = render_pdf(document, xml)

    filename, attached = get_xml_from_pdf(content, check_xsd=True, check_schematron=False)
    assert (filename, attached) == ("factur-x.xml", xml)
    assert render_pdf(document, xml) == content
    sign = -1 if document.get("kind") == "credit_note" else 1
    root = etree.fromstring(attached)
    read = [
        (
            int(text(row, "LineID")),
            text(row, "Value"),
            Decimal(text(row, "ChargeAmount")),
            sign * Decimal(text(row, "BilledQuantity")),
            sign * Decimal(text(row, "LineTotalAmount")),
        )
        for row in root.iterfind(".//ram:IncludedSupplyChainTradeLineItem", NAMES)
    ]
    assert read == [
        (
            line["position"],
            line["project_name"],
            Decimal(line["unit_price"]),
            Decimal(line["unit_hours"]),
            Decimal(line["amount"]),
        )
        for line in document["lines"]
    ]
    due = document.get("carried", {}).get("amount_due") or document.get(
        "payable", document["total"]["amount"]
    )
    assert sign * Decimal(text(root, "DuePayableAmount")) == Decimal(due)
    assert sign * Decimal(text(root, "TaxTotalAmount")) == Decimal(document.get("tax_total", "0"))
    assert text(root, "ExchangedDocument/ram:ID", "rsm:") == document["reference"]
    shown = words_of(content)
    for printed in printed_of(root, sign=sign, language=document.get("language", "en")):
        assert without_spaces(printed) in shown, printed


def words_of(content: bytes) -> str:
    """Return the text of a PDF without spaces: where its lines break does not matter."""
    pages = (page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)
    return without_spaces("".join(pages))


def without_spaces(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).replace("\u200b", "").split())


def printed_of(root: Any, *, sign: int, language: str) -> Iterator[str]:  # noqa: ANN401 - As below.
    """Yield all that an e-invoice in CII says, as the page prints it in its language."""

    def number(amount: str) -> str:
        plain = f"{sign * Decimal(amount):,}".replace("-", "\u2212")
        return plain if language == "en" else plain.translate(str.maketrans(",.", ".,"))

    def day(compact: str) -> str:
        year, month, number = compact[:4], compact[4:6], compact[6:]
        return f"{year}-{month}-{number}" if language == "en" else f"{number}.{month}.{year}"

    yield text(root, "ExchangedDocument/ram:ID", "rsm:")
    yield day(text(root, "IssueDateTime/udt:DateTimeString"))
    if Decimal(text(root, "DuePayableAmount")) > 0 and sign > 0:
        yield day(text(root, "DueDateDateTime/udt:DateTimeString"))
    for party in ("SellerTradeParty", "BuyerTradeParty"):
        yield text(root, f"{party}/ram:Name")
        for line in root.iterfind(f".//ram:{party}/ram:PostalTradeAddress/*", NAMES):
            yield from line.text.split(", ")
    yield text(root, "BuyerReference")
    yield number(text(root, "GrandTotalAmount"))
    yield number(text(root, "DuePayableAmount"))
    if Decimal(text(root, "TaxTotalAmount")):
        yield number(text(root, "TaxTotalAmount"))
    for line in root.iterfind(".//ram:IncludedSupplyChainTradeLineItem", NAMES):
        begin, end = (
            day(text(line, f"{edge}DateTime/udt:DateTimeString")) for edge in ("Start", "End")
        )
        yield f"{begin}\u2013{end}{text(line, 'Name').replace(' ', '')}"
        yield number(text(line, "LineTotalAmount"))


def text(root: Any, path: str, prefix: str = "ram:") -> str:  # noqa: ANN401 - An element of lxml.
    names = {
        **NAMES,
        "rsm": "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
        "udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
    }
    return str(root.findtext(f".//{prefix}{path}", "", names))


def test_the_metadata_names_the_attachment_and_no_byte_before_it_changes() -> None:
    document = final()
    xml = e_invoice_files(document)[EInvoiceSyntax.CII]

    content = render_pdf(document, xml)

    root: Any = PdfReader(io.BytesIO(content), strict=True).root_object
    metadata = root["/Metadata"].get_object().get_data().decode()
    assert "<fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>" in metadata
    assert metadata.count("<fx:") == 4
    assert metadata.count("<pdfaProperty:description>Type of the document<") == 1
    etree.fromstring(re.sub(r"<\?xpacket[^>]*\?>", "", metadata))
    assert content.count(b"%%EOF") == 2
    (attached,) = root["/AF"]
    assert attached.get_object()["/AFRelationship"] == "/Alternative"


def test_a_credit_note_has_type_381_its_invoice_and_amounts_above_zero() -> None:
    made = e_invoice_of(credit_of(final()))

    assert (made.kind, made.corrects, made.number) == (
        "381",
        "GL-2026-000012",
        "GL-CN-2026-000001",
    )
    assert [line.net for line in made.lines] == [Decimal("4.75"), Decimal("2.38")]
    assert (made.lines_total, made.tax.amount, made.due) == (
        Decimal("7.13"),
        Decimal("1.35"),
        Decimal("8.48"),
    )
    assert (made.payment, made.due_on, made.notes) == (None, None, ("Broken link\nof node 7",))


def test_a_line_that_is_rounded_with_earlier_bills_shows_the_difference() -> None:
    made = e_invoice_of(final(of=lines("EUR", late=True)))

    assert [(line.quantity, line.difference, line.net) for line in made.lines] == [
        (Decimal("2.000556"), Decimal("-1.00"), Decimal("3.75")),
        (Decimal("1.000278"), Decimal("-1.00"), Decimal("1.38")),
    ]
    assert {(line.begin_on, line.end_on) for line in made.lines} == {
        (date(2026, 9, 1), date(2026, 9, 30))
    }


def test_what_cannot_be_an_e_invoice_names_every_setting() -> None:
    document = final(explained("AE", "Reverse charge"), currency="BHD", of=lines("BHD"))
    document |= {
        "issuer": {**document["issuer"], "tax_id": "", "country": "QQ"},
        "customer": {**document["customer"], "tax_id": ""},
    }
    del document["customer"]["country"]

    problems = problems_of(document)

    assert [problem.partition(":")[0] for problem in problems] == [
        "The issuer has no country of ISO 3166-1 (BR-09)",
        "The issuer has no tax number (BR-CO-26)",
        "The customer has no country of ISO 3166-1 (BR-11)",
        "A customer with reverse charge has no tax number (BR-AE-02)",
        "Amounts of BHD have more than two digits (BR-DEC-14).",
    ]
    assert "ISSUER_COUNTRY" in problems[0]
    assert e_invoice_files(document) == {}
    assert problems_of(final(of=())) == ("The document has no lines (BR-16).",)


def test_a_broken_xml_is_not_attached() -> None:
    document = final()

    assert render_pdf(document, b"<x/>") == render_pdf(document)
