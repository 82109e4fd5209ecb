"""Golden files: an invoice that is on paper today must come out of the same facts for ever.

The files were written once from the month below and are compared byte by byte. A PDF is compared
with itself only, since its bytes also depend on the version of Typst. After an intended change:

    GOLDEN=write .venv/bin/pytest tests/golden
"""

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from rest_framework.test import APIClient

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.documents.document import (
    Document,
    InvoiceTerms,
    Party,
    canonical_bytes,
    digest_of,
    issue_document,
)
from billing.models import BillingPeriod, Invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.models import Project
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    ERIC,
    HOUR,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_user

FILES = Path(__file__).parent / "files"
IS_WRITING = os.environ.get("GOLDEN") == "write"
ISSUED_AT = datetime(2026, 11, 3, 9, 30, tzinfo=UTC)
TERMS = InvoiceTerms(
    issuer=Party(name="GPU Platform", address="Main Street 1\n10115 Berlin", tax_id="DE123456789"),
    series="GL",
)


@dataclass(frozen=True)
class Customer:
    """Who is billed, in what, and the traps in its names."""

    name: str
    currency: str
    address: str = ""
    project_name: str = "Language models"


CUSTOMERS = {
    "euro": Customer("Acme GmbH", "EUR", "Hafenstraße 12\n20457 Hamburg"),
    "yen": Customer("株式会社アクメ", "JPY"),
    "dinar": Customer("Acme Bahrain W.L.L.", "BHD"),
    "spreadsheet": Customer('=HYPERLINK("http://evil.example")', "EUR", project_name='@SUM("A,1")'),
}


def finalized(customer: Customer) -> Invoice:
    """Return the final invoice of a month with two prices, three shares and a rounding edge."""
    ledger = make_ledger(
        name=customer.name,
        bound_hours=BOUND_HOURS,
        billing_currency=customer.currency,
        billing_address=customer.address,
        cost_center="CC-100",
        tax_id="DE999999999",
    )
    ledger.llm.name = customer.project_name
    ledger.llm.save(update_fields=["name"])
    make_price(ledger.book, "2.50", size="large", end_at=MONTH_START + HOUR)
    make_price(ledger.book, "2.7505", size="large", begin_at=MONTH_START + HOUR)
    make_price(ledger.book, "0.3109", price_group="A100/1of4")
    first = [
        whole_gpus(ledger.llm, 7200),
        Use(ledger.llm, 1801),
        Use(ledger.vision, 9, owner="", price_group="A100/1of4"),
    ]
    second = [whole_gpus(ledger.llm, 6000), Use(ledger.vision, 3599, owner="dave")]
    sealed_window(ledger.cluster, first)
    sealed_window(ledger.cluster, second, start_at=MONTH_START + HOUR)
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=TERMS)


def dated(document: Document) -> Document:
    """Return the document with the number and date of the golden files: its own are of today."""
    return issue_document(
        document, reference="GL-2026-000001", issued_at=ISSUED_AT, payment_days=30
    )


def whole_gpus(project: Project, unit_seconds: int) -> Use:
    """Return the use of two whole GPUs."""
    return Use(project, unit_seconds, size="large", price_group="H100/whole", units=2)


def pretty(document: Document) -> bytes:
    """Return a document as people read it, the same bytes for the same document."""
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def golden(name: str, made: bytes) -> bytes:
    """Return the golden file's bytes; write it first when asked to."""
    path = FILES / name
    if IS_WRITING:
        path.write_bytes(made)
    return path.read_bytes()


@pytest.fixture(scope="module")
def kept() -> dict[str, Invoice]:
    """Hold each customer's invoice for tests that read nothing but its fields."""
    return {}


@pytest.fixture(params=sorted(CUSTOMERS))
def case(request: pytest.FixtureRequest, kept: dict[str, Invoice]) -> tuple[str, Invoice]:
    """Return each customer's invoice, made for the first test; its rows are not there."""
    name: str = request.param
    if name not in kept:
        request.getfixturevalue("db")
        kept[name] = finalized(CUSTOMERS[name])
    return name, kept[name]


@pytest.fixture(params=sorted(CUSTOMERS))
def stored(request: pytest.FixtureRequest, db: None) -> tuple[str, Invoice]:  # noqa: ARG001 - The database comes first.
    """Return each customer's invoice with its rows."""
    return request.param, finalized(CUSTOMERS[request.param])


def test_the_document_and_the_csv_are_the_golden_ones(case: tuple[str, Invoice]) -> None:
    name, invoice = case
    printed = dated(invoice.document)
    document, csv = pretty(printed), render_csv(printed)

    assert document == golden(f"{name}.json", document)
    assert csv == golden(f"{name}.csv", csv)


def test_the_golden_figures_add_up_by_hand(case: tuple[str, Invoice]) -> None:
    name, invoice = case
    document = json.loads((FILES / f"{name}.json").read_bytes())

    lines = document["lines"]
    assert [line["position"] for line in lines] == list(range(1, 6))
    assert sum(line["unit_seconds"] for line in lines) == 7200 + 1801 + 9 + 6000 + 3599
    assert sum(Decimal(line["amount"]) for line in lines) == Decimal(document["total"]["amount"])
    by_key = {(line["price_group"], line["unit_price"]): line["amount"] for line in lines}
    digits = {"EUR": 2, "JPY": 0, "BHD": 3}[invoice.currency]
    exact = Decimal(6000) * Decimal("2.7505") / 3600
    (changed,) = (amount for key, amount in by_key.items() if key[1].startswith("2.7505"))
    assert abs(Decimal(changed) - exact) <= Decimal(5).scaleb(-digits - 1)
    assert -int(Decimal(changed).as_tuple().exponent) == digits
    assert invoice.total == Decimal(document["total"]["amount"])


def test_the_digest_of_the_golden_document_is_the_invoices(case: tuple[str, Invoice]) -> None:
    name, invoice = case
    document = json.loads((FILES / f"{name}.json").read_bytes())
    reference, issued_at = invoice.reference, invoice.finalized_at
    assert issued_at is not None

    issued = issue_document(document, reference=reference, issued_at=issued_at, payment_days=30)

    assert digest_of(issued) == invoice.content_sha256
    assert hashlib.sha256(canonical_bytes(issued)).hexdigest() == invoice.content_sha256
    assert hashlib.sha256(invoice.content.encode()).hexdigest() == invoice.content_sha256


def test_the_pdf_of_the_golden_document_is_the_one_rest_hands_out(
    stored: tuple[str, Invoice],
) -> None:
    name, invoice = stored
    document = json.loads((FILES / f"{name}.json").read_bytes())
    caller = APIClient()
    caller.force_login(make_user("root", is_superuser=True))

    handed_out = caller.get(f"/api/v1/invoices/{invoice.pk}/pdf/")

    assert handed_out.content == render_pdf(invoice.document)
    assert render_pdf(document) == render_pdf(dated(invoice.document))
    assert handed_out.content.startswith(b"%PDF-")
    csv = caller.get(f"/api/v1/invoices/{invoice.pk}/csv/").content
    assert csv == render_csv(invoice.document)


def test_no_golden_file_is_left_over() -> None:
    expected = {f"{name}.{suffix}" for name in CUSTOMERS for suffix in ("json", "csv")}

    assert {path.name for path in FILES.iterdir()} == expected
