"""A final document as an e-invoice of EN 16931: its business terms, before any syntax.

Names in brackets are the standard's business terms (BT) and groups (BG). Each line of the document
is a line of the e-invoice with the same number and amount, so that its sums are the document's and
nothing is rounded anew. A credit note has type 381, and there amounts given back are above zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import Any, Final

from billing.domain.documents.carrying import due_of, gross_of
from billing.domain.documents.document import STANDARD_LANGUAGE, as_printed
from billing.domain.documents.invoicing import InvoiceKind, LineKind
from billing.domain.documents.taxes import TaxCategory, tax_point_of
from billing.domain.e_invoices.codes import COUNTRIES, is_iban, is_vat_id
from billing.domain.e_invoices.texts import EInvoiceTexts, texts_of
from billing.domain.money import Money, round_money
from billing.domain.period import Month

TYPE_CODES: Final[Mapping[str, str]] = {
    InvoiceKind.INVOICE.value: "380",
    InvoiceKind.CREDIT_NOTE.value: "381",
    InvoiceKind.DEBIT_NOTE.value: "383",
}
"""UNTDID 1001."""
HOURS: Final = "HUR"
ONE: Final = "C62"
"""Units of UN/ECE recommendation 20; money without quantity is one piece at its amount."""
DECIMALS_MAX: Final = 2
"""Of every amount. Source: EN 16931, BR-DEC-01 and following."""
SEPA_TRANSFER: Final = "58"
CREDIT_TRANSFER: Final = "30"
EXEMPTION_CODES: Final[Mapping[str, str]] = {
    TaxCategory.REVERSE_CHARGE.value: "VATEX-EU-AE",
    TaxCategory.OUTSIDE_SCOPE.value: "VATEX-EU-O",
}


class EInvoiceSyntax(StrEnum):
    """In which XML an e-invoice is written."""

    CII = "cii"
    UBL = "ubl"


@dataclass(frozen=True)
class EInvoiceParty:
    """Seller (BG-4) or buyer (BG-7); an empty text is left out.

    Attributes:
        identifier: BT-29 or BT-46, where the tax number is not shown as one.
        vat_id: BT-31 or BT-48.
        tax_number: BT-32, of a seller whose number is not a VAT identifier.
        registration: BT-47, of a buyer whose number is not a VAT identifier.
        address: At most three lines.
    """

    name: str
    identifier: str
    vat_id: str
    tax_number: str
    registration: str
    address: tuple[str, ...]
    country: str
    contact: str = ""
    email: str = ""


@dataclass(frozen=True)
class EInvoiceLine:
    """One line (BG-25): quantity times price, and a difference, is its net amount.

    Attributes:
        difference: Above zero a charge (BG-28), below zero an allowance (BG-27).
        accounting: BT-133, the cost centre of its project.
        attributes: BG-32, names and values.
    """

    number: int
    name: str
    description: str
    attributes: tuple[tuple[str, str], ...]
    quantity: Decimal
    unit: str
    price: Decimal
    difference: Decimal
    net: Decimal
    begin_on: date
    end_on: date
    accounting: str


@dataclass(frozen=True)
class EInvoiceTax:
    """The VAT breakdown (BG-23); a document has one category and rate.

    Attributes:
        rate: Percent, as text; "" outside the scope of VAT.
        reason: Why there is no tax.
        reason_code: Of the VATEX list.
    """

    category: str
    rate: str
    base: Decimal
    amount: Decimal
    reason: str = ""
    reason_code: str = ""


@dataclass(frozen=True)
class EInvoicePayment:
    """How it is paid (BG-16): by transfer to an account.

    Attributes:
        means: UNTDID 4461.
        is_iban: Whether the account is one.
    """

    means: str
    account: str
    is_iban: bool


@dataclass(frozen=True)
class EInvoice:
    """The business terms of a document.

    Attributes:
        kind: UNTDID 1001.
        corrects: BT-25, the number of the document that a note corrects.
        tax_point: BT-7; None for an untaxed document.
        accounting: BT-19.
        reference: BT-10.
        terms: BT-20, how it is paid.
        lines_total: BT-106 and BT-109.
        paid: BT-113, what is settled by the carried balance; below zero where more is asked for.
        due: BT-115.
        difference_reason: Of the differences of lines.
    """

    kind: str
    number: str
    issued_on: date
    due_on: date | None
    currency: str
    corrects: str
    notes: tuple[str, ...]
    tax_point: date | None
    accounting: str
    reference: str
    purchase_order: str
    begin_on: date
    end_on: date
    """BT-73 and BT-74; the last day is the delivery date (BT-72), too."""
    seller: EInvoiceParty
    buyer: EInvoiceParty
    payment: EInvoicePayment | None
    terms: str
    tax: EInvoiceTax
    lines_total: Decimal
    gross: Decimal
    paid: Decimal
    due: Decimal
    difference_reason: str
    lines: tuple[EInvoiceLine, ...] = field(default=())


def problems_of(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why a document cannot be an e-invoice, a sentence each; () where it can."""
    return tuple(_problems(document))


def e_invoice_of(document: Mapping[str, Any]) -> EInvoice:
    """Return the business terms of a final document.

    Raises:
        ValueError: `problems_of` names a reason, or a sum does not hold.
    """
    if problems := problems_of(document):
        raise ValueError(" ".join(problems))
    kind, currency = document.get("kind", InvoiceKind.INVOICE.value), document["currency"]
    sign = -1 if kind == InvoiceKind.CREDIT_NOTE.value else 1
    texts = texts_of(document.get("language", STANDARD_LANGUAGE))
    tax, gross = _tax(document, texts, sign=sign), _signed(gross_of(document), sign)
    due = _signed(due_of(document), sign)
    begin_on, end_on = month_days(document["period"]["label"])
    made = EInvoice(
        kind=TYPE_CODES[kind],
        number=document["reference"],
        issued_on=date.fromisoformat(document["issued_at"][:10]),
        due_on=date.fromisoformat(document["due_on"]) if "due_on" in document else None,
        currency=currency,
        corrects=document.get("corrects", ""),
        notes=tuple(_notes(document, texts)),
        tax_point=_tax_point(document),
        accounting=document["customer"]["cost_center"],
        reference=document["customer"].get("buyer_reference", ""),
        purchase_order=document.get("purchase_order", ""),
        begin_on=begin_on,
        end_on=end_on,
        seller=_party(document["issuer"], tax.category, is_seller=True),
        buyer=_party(document["customer"], tax.category, is_seller=False),
        payment=_payment(document, sign=sign),
        terms=_terms(document, texts, due=due, sign=sign),
        tax=tax,
        lines_total=_signed(_net_of(document), sign),
        gross=gross,
        paid=gross - due,
        due=due,
        difference_reason=texts.difference,
        lines=tuple(
            _line(line, texts, currency, sign=sign) for line in as_printed(document)["lines"]
        ),
    )
    _require_sums(made)
    return made


@cache
def month_days(label: str) -> tuple[date, date]:
    """Return the first and the last day of a month such as "2026-10"."""
    month = Month.parse(label)
    return date(month.year, month.month, 1), tax_point_of(label)


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield them; each names the rule of EN 16931 and what is to be set."""
    issuer, customer = document["issuer"], document["customer"]
    if issuer.get("country", "") not in COUNTRIES:
        yield (
            "The issuer has no country of ISO 3166-1 (BR-09): set ISSUER_COUNTRY, or the country "
            "of the issuer."
        )
    if not _compact(issuer["tax_id"]):
        yield (
            "The issuer has no tax number (BR-CO-26): set ISSUER_TAX_ID, or the tax number of the "
            "issuer."
        )
    if customer.get("country", "") not in COUNTRIES:
        yield (
            "The customer has no country of ISO 3166-1 (BR-11): set the country of the "
            "organization, or of the recipient."
        )
    if _category(document) == TaxCategory.REVERSE_CHARGE and not _compact(customer["tax_id"]):
        yield (
            "A customer with reverse charge has no tax number (BR-AE-02): set that of the "
            "organization, or of the recipient."
        )
    if document["minor_digits"] > DECIMALS_MAX:
        yield f"Amounts of {document['currency']} have more than two digits (BR-DEC-14)."
    if not document["lines"]:
        yield "The document has no lines (BR-16)."


def _require_sums(made: EInvoice) -> None:
    """Refuse terms whose sums do not hold. Source: EN 16931, BR-CO-10, BR-CO-13 to BR-CO-16."""
    is_whole = (
        made.lines_total == sum(line.net for line in made.lines)
        and made.tax.base == made.lines_total
        and made.gross == made.lines_total + made.tax.amount
        and made.due == made.gross - made.paid
    )
    if not is_whole:
        raise ValueError(f"The sums of {made.number} do not hold.")


def _category(document: Mapping[str, Any]) -> str:
    for tax in document.get("taxes", ()):
        return str(tax["category"])
    return TaxCategory.OUTSIDE_SCOPE.value


def _tax(document: Mapping[str, Any], texts: EInvoiceTexts, *, sign: int) -> EInvoiceTax:
    """Return the tax as printed; a document without one is outside the scope of VAT."""
    category = _category(document)
    for tax in document.get("taxes", ()):
        return EInvoiceTax(
            category=category,
            rate="" if category == TaxCategory.OUTSIDE_SCOPE else tax["rate"],
            base=_times(tax["taxable_amount"], sign),
            amount=_times(tax["amount"], sign),
            reason=tax["exemption_text"],
            reason_code=EXEMPTION_CODES.get(category, ""),
        )
    net = _signed(_net_of(document), sign)
    zero = Money.zero(document["currency"]).amount
    code = EXEMPTION_CODES[category]
    return EInvoiceTax(category, "", net, zero, reason=texts.untaxed, reason_code=code)


def _tax_point(document: Mapping[str, Any]) -> date | None:
    return date.fromisoformat(document["tax_point"]) if document.get("tax_point") else None


def _party(printed: Mapping[str, str], category: str, *, is_seller: bool) -> EInvoiceParty:
    """Return a party; outside the scope of VAT it shows no VAT identifier (BR-O-02)."""
    number = _compact(printed["tax_id"])
    is_shown = category != TaxCategory.OUTSIDE_SCOPE and is_vat_id(number)
    is_other = category != TaxCategory.OUTSIDE_SCOPE and not is_shown
    lines = [line.strip() for line in printed["address"].split("\n") if line.strip()]
    return EInvoiceParty(
        name=printed["name"],
        # A seller has an identifier besides its tax number where that is of no VAT (BR-CO-26).
        identifier="" if is_shown or (is_other and not is_seller) else number,
        vat_id=number if is_shown else "",
        tax_number=number if is_other and is_seller else "",
        registration=number if is_other and not is_seller else "",
        address=tuple([*lines[:2], ", ".join(lines[2:])] if len(lines) > 2 else lines),  # noqa: PLR2004 - BT-35, BT-36 and BT-162.
        country=printed["country"],
        contact=printed["contact"],
        email=printed["email"],
    )


def _payment(document: Mapping[str, Any], *, sign: int) -> EInvoicePayment | None:
    account = document["issuer"].get("bank_account", "")
    if not account or sign < 0:
        return None
    number = _compact(account)
    if not is_iban(number):
        return EInvoicePayment(CREDIT_TRANSFER, account, is_iban=False)
    means = SEPA_TRANSFER if document["currency"] == "EUR" else CREDIT_TRANSFER
    return EInvoicePayment(means, number, is_iban=True)


def _terms(document: Mapping[str, Any], texts: EInvoiceTexts, *, due: Decimal, sign: int) -> str:
    """Return the terms of payment, which whatever has an amount due needs (BR-CO-25)."""
    if sign < 0:
        return texts.credited if due > 0 else ""
    return texts.pay.format(reference=document["reference"]) if due > 0 else ""


def _notes(document: Mapping[str, Any], texts: EInvoiceTexts) -> Iterator[str]:
    if document.get("reason"):
        yield document["reason"]
    if carried := document.get("carried"):
        yield texts.carried.format(
            brought=carried["brought_forward"],
            forward=carried["carried_forward"],
            currency=document["currency"],
        )


def _line(
    line: Mapping[str, Any], texts: EInvoiceTexts, currency: str, *, sign: int
) -> EInvoiceLine:
    net = _times(line["amount"], sign)
    is_use = line.get("kind", LineKind.USAGE.value) == LineKind.USAGE.value
    has_hours = is_use and (line["unit_seconds"] != 0 or not net)
    if has_hours:
        quantity, unit = _times(line["unit_hours"], sign), HOURS
        price = Decimal(line["unit_price"])
        difference = net - round_money(quantity * price, currency).amount
    else:
        # A price is never below zero (BR-27): what is given back is a quantity below zero.
        quantity, unit, price = Decimal(-1 if net < 0 else 1), ONE, abs(net)
        difference = Decimal(0)
    begin_on, end_on = month_days(line["service_month"])
    named = ((texts.project, line["project_name"]), (texts.project_id, line["project"]))
    return EInvoiceLine(
        number=line["position"],
        name=f"{line['size'].capitalize()} {line['price_group']}"
        if is_use
        else line["description"],
        description=line["description"],
        attributes=tuple((name, value) for name, value in named if value.strip()),
        quantity=quantity,
        unit=unit,
        price=price,
        difference=difference,
        net=net,
        begin_on=begin_on,
        end_on=end_on,
        accounting=line["cost_center"],
    )


def _net_of(document: Mapping[str, Any]) -> Money:
    return Money(Decimal(document["total"]["amount"]), document["currency"])


def _signed(amount: Money, sign: int) -> Decimal:
    return amount.amount if sign > 0 else (-amount).amount


def _times(text: str, sign: int) -> Decimal:
    """Return a number, or what gives it back; there is no zero below zero."""
    return Decimal(text) if sign > 0 else 0 - Decimal(text)


def _compact(text: str) -> str:
    return "".join(text.split())
