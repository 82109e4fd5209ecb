"""The invoice as a document: plain JSON with everything that is printed, and its text for a page.

Money and hours are text, quantities whole numbers, times ISO 8601 in UTC; there is no float and no
key that depends on the clock of the reader. PDF and CSV are made from it alone, and the database
freezes it with the invoice.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from billing.domain.documents.carrying import CarryTerms
from billing.domain.documents.invoicing import InvoiceKind, InvoiceState, Line, total_of
from billing.domain.documents.taxes import Corrected, TaxCategory, printed_terms, tax_text
from billing.domain.money import (
    SECONDS_PER_HOUR,
    Money,
    decimal_of,
    minor_digits,
    price_of,
    round_half_up,
)
from billing.domain.period import HourSpan

_OF_ONE_DOCUMENT: Final = frozenset({"carried", "due_on"})
"""What a document that corrects another does not take over from it."""
STANDARD_LANGUAGE: Final = "en"
"""Of documents that name none."""
SCHEMA: Final = "gpu-ledger/invoice/1"
HOUR_DECIMALS: Final = 6
"""Digits of unit-hours; `unit_seconds` beside them is the exact quantity."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Party:
    """Issuer or customer, as printed; an empty text is not printed."""

    name: str
    address: str = ""
    tax_id: str = ""
    contact: str = ""
    email: str = ""
    cost_center: str = ""
    bank_account: str = ""
    buyer_reference: str = ""
    country: str = ""
    """ISO 3166-1 alpha-2, such as DE."""


_PRINTED_IF_SET: Final = frozenset({"bank_account", "buyer_reference", "country"})
"""Documents from before these fields are the same to the byte."""


@dataclass(frozen=True)
class InvoiceTerms:
    """A site's settings for invoices; entry points read them from the settings.

    Attributes:
        series: Prefix of every number; the year of issue follows.
        credit_series: Prefix of the numbers of credit notes.
        debit_series: Prefix of the numbers of debit notes.
        first_number: The first number of each year, of any of them.
        is_four_eyes: Whether two people have to draft and finalize an invoice.
        payment_days: From the date of an invoice to its due date.
        carry: When a balance is carried to the next month.
        with_e_invoices: Whether final documents get an e-invoice, where they can have one.
        logo_problems: Why a logo cannot be printed, by the name of its issuer.
    """

    issuer: Party = field(default_factory=lambda: Party(name="GPU Platform"))
    series: str = "GL"
    credit_series: str = "GL-CN"
    debit_series: str = "GL-DN"
    first_number: int = 1
    is_four_eyes: bool = True
    payment_days: int = 30
    carry: CarryTerms = field(default_factory=CarryTerms)
    with_e_invoices: bool = False
    logo_problems: Mapping[str, str] = field(default_factory=dict)

    def series_of(self, kind: str) -> str:
        """Return the prefix of the numbers of a kind of document."""
        prefixes: dict[str, str] = {
            InvoiceKind.CREDIT_NOTE: self.credit_series,
            InvoiceKind.DEBIT_NOTE: self.debit_series,
        }
        return prefixes.get(kind, self.series)


@dataclass(frozen=True)
class PeriodFacts:
    """The billed month as printed."""

    label: str
    time_zone: str
    span: HourSpan


def compose_document(  # noqa: PLR0913 - The parts of a document; all are keyword only.
    *,
    issuer: Party,
    customer: Party,
    language: str = STANDARD_LANGUAGE,
    period: PeriodFacts,
    lines: Iterable[Line],
    currency: str,
    drafted_at: datetime,
) -> Document:
    """Return the draft's document; it has no number yet. One below zero is a credit note.

    `billing.domain.documents.taxes` adds the taxes of customers that have any.
    """
    composed = tuple(lines)
    total = _totals(composed, currency=currency)
    is_credit = total_of(composed, currency=currency).amount < 0
    return {
        **({"kind": InvoiceKind.CREDIT_NOTE.value} if is_credit else {}),
        **({"language": language} if language != STANDARD_LANGUAGE else {}),
        "schema": SCHEMA,
        "state": InvoiceState.DRAFT.value,
        "reference": "",
        "issued_at": None,
        "drafted_at": utc_text(drafted_at),
        "currency": currency,
        "minor_digits": minor_digits(currency),
        **parties_text(issuer=issuer, customer=customer),
        "period": {
            "label": period.label,
            "time_zone": period.time_zone,
            "begin_at": utc_text(period.span.begin_at),
            "end_at": utc_text(period.span.end_at),
            "hours": period.span.hours,
        },
        "lines": [_line(line, own_month=period.label) for line in composed],
        "subtotals": [
            {"project": slug, **_totals(tuple(part), currency=currency)}
            for slug, part in groupby(composed, key=lambda line: line.project)
        ],
        "total": total,
    }


def correction_document(
    invoice: Mapping[str, Any],
    *,
    kind: InvoiceKind,
    lines: Iterable[Line],
    reason: str,
    drafted_at: datetime,
    before: Corrected | None,
) -> Document:
    """Return the draft of a credit or debit note, for parties and month of a final document.

    It takes the rate of tax printed there.

    Args:
        invoice: The document that is corrected.
        kind: Credit note or debit note.
        lines: What is given back, below zero or zero; or what is asked for, above zero.
        reason: Why, as the customer reads it.
        drafted_at: When.
        before: What credited the document before; None for a debit note, which is taxed by itself.
    """
    composed, currency = tuple(lines), invoice["currency"]
    return {
        **{key: value for key, value in invoice.items() if key not in _OF_ONE_DOCUMENT},
        "kind": kind.value,
        "corrects": invoice["reference"],
        "reason": clean_text(reason),
        "state": InvoiceState.DRAFT.value,
        "reference": "",
        "issued_at": None,
        "drafted_at": utc_text(drafted_at),
        "lines": [_line(line, own_month=invoice["period"]["label"]) for line in composed],
        "subtotals": [
            {"project": slug, **_totals(tuple(part), currency=currency)}
            for slug, part in groupby(composed, key=lambda line: line.project)
        ],
        "total": _totals(composed, currency=currency),
        **tax_text(
            total_of(composed, currency=currency),
            printed_terms(invoice),
            tax_point=invoice.get("tax_point", ""),
            before=before,
        ),
    }


def issue_document(
    draft: Mapping[str, Any], *, reference: str, issued_at: datetime, payment_days: int
) -> Document:
    """Return the document of a final invoice: the draft with a number and the day it is due on.

    Args:
        draft: Its document until now.
        reference: Series and number.
        issued_at: The date of the document.
        payment_days: From that day, in UTC, to the due date.
    """
    asks = draft.get("kind") != InvoiceKind.CREDIT_NOTE
    due_on = issued_at.astimezone(UTC).date() + timedelta(days=payment_days)
    return {
        **draft,
        "state": InvoiceState.FINAL.value,
        "reference": reference,
        "issued_at": utc_text(issued_at),
        **({"due_on": due_on.isoformat()} if asks else {}),
    }


def missing_of_issuer(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of the issuer that a document lacks to become final.

    Every document says who bills, and from where. A customer outside of the house, which is
    taxed, needs the tax number and the account to pay to as well. Source: EN 16931, BR-06, BR-08,
    BR-S-02 and BR-61.
    """
    is_outside = any(
        tax["category"] != TaxCategory.OUTSIDE_SCOPE for tax in document.get("taxes", ())
    )
    needed = ("name", "address", *(("tax_id", "bank_account") if is_outside else ()))
    return tuple(field for field in needed if not document["issuer"].get(field, ""))


def canonical_text(document: Mapping[str, Any]) -> str:
    """Return the one spelling of a document that is stored and hashed: sorted keys, no spaces."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def canonical_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the canonical text in UTF-8."""
    return canonical_text(document).encode()


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical bytes, 64 hexadecimal digits."""
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def unit_hours_text(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours with six digits, half up; such as "12.500000"."""
    scaled = round_half_up(unit_seconds * 10**HOUR_DECIMALS, SECONDS_PER_HOUR)
    return f"{decimal_of(scaled, digits=HOUR_DECIMALS):f}"


def price_text(unit_price: Decimal, *, digits: int) -> str:
    """Return a price with at least the currency's digits and none that say nothing."""
    text = f"{unit_price:f}"
    whole, _, fraction = text.partition(".")
    kept = fraction.rstrip("0").ljust(digits, "0")
    return f"{whole}.{kept}" if kept else whole


def utc_text(at: datetime) -> str:
    """Return a moment as ISO 8601 in UTC to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_printed(document: Mapping[str, Any]) -> Document:
    """Return a document without lines of no use and no amount, unless there are no others.

    A repricing takes back what its own month was charged wrongly: that adds up to nothing. The line
    keeps its charges, but people would read a price that is not theirs.
    """
    lines = [one for one in document["lines"] if one["unit_seconds"] or Decimal(one["amount"])]
    lines = lines or document["lines"]
    projects = {line["project"] for line in lines}
    subtotals = [one for one in document["subtotals"] if one["project"] in projects]
    return {**document, "lines": lines, "subtotals": subtotals}


def file_name_of(document: Mapping[str, Any]) -> str:
    """Return a file's name without its suffix, from the number or else the month."""
    return document["reference"] or f"draft-{document['period']['label']}"


def clean_text(text: str) -> str:
    """Return text without what could hide or reorder other text: control and format characters."""
    return "".join(
        character
        for character in unicodedata.normalize("NFC", text.replace("\r\n", "\n"))
        if character == "\n" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co"}
    ).strip()


def parties_text(*, issuer: Party, customer: Party) -> dict[str, dict[str, str]]:
    """Return issuer and customer as a document shows them."""
    return {"issuer": _party(issuer), "customer": _party(customer)}


def _party(party: Party) -> dict[str, str]:
    printed = {key: clean_text(value) for key, value in asdict(party).items()}
    return {key: text for key, text in printed.items() if text or key not in _PRINTED_IF_SET}


def _line(line: Line, *, own_month: str) -> dict[str, Any]:
    digits = minor_digits(line.amount.currency)
    return {
        "position": line.position,
        "project": line.project,
        "project_name": clean_text(line.project_name),
        "cost_center": clean_text(line.cost_center),
        "size": line.size,
        "price_group": clean_text(line.price_group),
        "description": clean_text(line.description),
        "service_month": line.service_month or own_month,
        "unit_seconds": line.unit_seconds,
        "unit_hours": unit_hours_text(line.unit_seconds),
        "unit_price": price_text(line.unit_price, digits=digits),
        "amount": amount_text(line.amount),
        **(_billed_before(line, line.billed_amount) if line.billed_amount is not None else {}),
        **({"kind": line.kind, "tier": {**line.tier.shown}} if line.tier else {}),
        **({"kind": line.kind, "minimum": {**line.minimum}} if line.minimum else {}),
        **({"kind": line.kind, "credit": {**line.credit}} if line.credit else {}),
    }


def _billed_before(line: Line, billed: Money) -> dict[str, Any]:
    """Return what shows how a line was rounded: the whole month's use less what was billed of it.

    The amount is that of both quantities together, less that of the first alone. Where credit or
    debit notes changed what was billed, it is so with what they changed, and with what is left of
    that (ADR 0065).
    """
    currency, whole_unit_seconds = billed.currency, line.billed_unit_seconds + line.unit_seconds
    before, whole = (
        price_of(quantity, unit_price=line.unit_price, currency=currency)
        for quantity in (line.billed_unit_seconds, whole_unit_seconds)
    )
    changed, left = billed + -before, billed + line.amount + -whole
    notes = {"notes_amount": amount_text(changed), "notes_left_amount": amount_text(left)}
    return {
        "billed_unit_seconds": line.billed_unit_seconds,
        "billed_unit_hours": unit_hours_text(line.billed_unit_seconds),
        "billed_amount": amount_text(before),
        "whole_unit_hours": unit_hours_text(whole_unit_seconds),
        "whole_amount": amount_text(whole),
        **(notes if changed.minor_units or left.minor_units else {}),
    }


def amount_text(money: Money) -> str:
    """Return an amount with exactly its currency's digits."""
    return f"{money.amount:f}"


def _totals(lines: tuple[Line, ...], *, currency: str) -> dict[str, Any]:
    unit_seconds = sum(line.unit_seconds for line in lines)
    return {
        "unit_seconds": unit_seconds,
        "unit_hours": unit_hours_text(unit_seconds),
        "amount": amount_text(total_of(lines, currency=currency)),
    }
