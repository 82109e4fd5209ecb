"""Statement, usage annex and logo on paper."""

import io
import struct
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import override_settings
from pypdf import PdfReader

from billing.adapters.documents import render_annex, render_pdf, render_statement
from billing.adapters.terms import invoice_terms, logo_on, render_document
from billing.domain.documents.annex import OwnerUse, annex_document
from billing.domain.documents.document import Document, Party
from billing.domain.documents.errors import IssuerLogoError
from billing.domain.ledger.statement import AccountStatement, StatementLine, statement_document
from tests.billing.adapters.test_pdf import issued
from tests.support.billing.documents import make_document

AT = datetime(2026, 12, 1, 8, tzinfo=UTC)
ISSUER = Party(name="GPU Platform", address="Main Street 1\nBerlin", bank_account="DE02 1203")
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20">'
    '<rect width="60" height="20" fill="#1f5f5b"/></svg>'
)
NAMES = [
    "=1+1",
    "<script>alert(1)</script>",
    "🧪 مرحبا 日本語",
    "x" * 300,
    "ca\u202erol\x00",
    '#eval("1") $x$ {day}',
]


def text_of(content: bytes) -> str:
    """Return the words of a PDF; where its lines break does not matter."""
    pages = [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]
    return " ".join(" ".join(pages).replace("\u200b", "").split())


def png() -> bytes:
    """Return a red picture of 2 x 1 points."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">2I5B", 2, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00" + b"\xff\x00\x00" * 2)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def account(*lines: tuple[date, str, str, str], opening: str = "10.00") -> AccountStatement:
    balance, made = Decimal(opening), []
    for dated_on, event, reference, amount in lines:
        balance += Decimal(amount)
        made.append(StatementLine(dated_on, event, reference, Decimal(amount), balance))
    return AccountStatement(
        currency="EUR",
        begin_on=date(2026, 11, 1),
        end_on=date(2026, 12, 1),
        opening=Decimal(opening),
        lines=tuple(made),
        closing=balance,
    )


ACCOUNT = account(
    (date(2026, 11, 3), "invoice", "GL-2026-000012", "1234.56"),
    (date(2026, 11, 9), "payment", "B1", "-1000.00"),
    (date(2026, 11, 12), "write_off", "Reversed: GL-2026-000007", "5.00"),
)


def statement(
    made: AccountStatement, *, language: str = "en", customer: str = "Acme Research"
) -> Document:
    return statement_document(
        made, issuer=ISSUER, customer=Party(customer), language=language, at=AT
    )


def test_a_statement_leads_from_opening_to_closing_balance() -> None:
    content = render_statement(statement(ACCOUNT))

    text = text_of(content)
    for expected in (
        "Statement of account",
        "Acme Research",
        "2026-11-01 to 2026-11-30",
        "2026-11-01 Opening balance 10.00",
        "2026-11-03 Invoice GL-2026-000012 1,234.56 1,244.56",
        "2026-11-09 Payment B1 1,000.00 244.56",
        "2026-11-12 Write-off reversed GL-2026-000007 5.00 249.56",
        "Sum of debits and credits 1,239.56 1,000.00",
        "Closing balance on 2026-11-30 249.56 EUR",
        "Please pay what is due to DE02 1203",
    ):
        assert expected in text
    assert b"<pdfaid:part>3</pdfaid:part>" in content
    assert content == render_statement(statement(ACCOUNT))


def test_a_statement_is_in_the_language_of_its_customer() -> None:
    text = text_of(render_statement(statement(ACCOUNT, language="de")))

    for expected in (
        "Kontoauszug",
        "01.11.2026 bis 30.11.2026",
        "03.11.2026 Rechnung GL-2026-000012 1.234,56 1.244,56",
        "12.11.2026 Ausbuchung zurückgenommen GL-2026-000007 5,00 249,56",
        "Schlusssaldo am 30.11.2026 249,56 EUR",
    ):
        assert expected in text
    assert "Reversed" not in text


def test_a_balance_in_the_customers_favour_asks_for_nothing() -> None:
    made = account((date(2026, 11, 9), "payment", "B1", "-12.00"))

    text = text_of(render_statement(statement(made)))

    assert "BALANCE IN YOUR FAVOUR 2.00 EUR" in text
    assert "Closing balance on 2026-11-30 \u22122.00 EUR" in text
    assert "Please pay" not in text


def test_a_statement_without_lines_is_printed() -> None:
    text = text_of(render_statement(statement(account(opening="0.00"))))

    assert "Closing balance on 2026-11-30 0.00 EUR" in text


def annex(*owners: str) -> Document:
    document = issued(make_document(lines=[("llm", "large", "H100/whole", "2.50", 3600 * 100)]))
    share = 3600 * 100 // len(owners)
    return annex_document(document, [OwnerUse(1, owner, share) for owner in sorted(owners)])


def test_an_annex_names_what_each_person_used_of_each_project() -> None:
    text = text_of(render_annex(annex("carol", "bob", "")))

    for expected in (
        "Usage annex",
        "GL-2026-000012",
        "LLM llm",
        "bob 2026-10-01 \u2013 2026-10-31 Large H100/whole 33.3333 83.33",
        "carol 2026-10-01 \u2013 2026-10-31 Large H100/whole 33.3333 83.33",
        "no person named 2026-10-01 \u2013 2026-10-31 Large H100/whole 33.3333 83.34",
        "Subtotal 250.00",
        "This annex names persons.",
    ):
        assert expected in text


@pytest.mark.parametrize("name", NAMES)
def test_no_name_breaks_a_statement_or_an_annex(name: str) -> None:
    made = account((date(2026, 11, 9), "payment", name, "-12.00"))

    texts = [
        text_of(render_statement(statement(made, customer=name))),
        text_of(render_annex(annex(name))),
        text_of(render_pdf(issued(make_document(customer=Party(name))))),
    ]

    assert "Closing balance" in texts[0]
    assert "250.00 EUR" in texts[1]
    assert "2.00 EUR" in texts[2]
    if name.isascii() and "\x00" not in name:
        assert all(name.replace(" ", "") in text.replace(" ", "") for text in texts)


@pytest.mark.parametrize("content", [SVG.encode(), png()], ids=["svg", "png"])
def test_the_logo_of_the_issuer_is_drawn_on_its_own_documents(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "logo"
    path.write_bytes(content)
    document = issued(make_document())
    foreign = {**document, "issuer": {**document["issuer"], "name": "Labs Ltd"}}
    plain, plain_foreign = render_pdf(document), render_pdf(foreign)

    with override_settings(ISSUER_LOGO=str(path)):
        drawn = render_document(document)
        assert invoice_terms().logo_problems == {}
        assert render_document(foreign) == plain_foreign
        assert drawn == render_document(document)

    assert drawn != plain
    assert b"<pdfaid:part>3</pdfaid:part>" in drawn
    assert render_document(document) == plain


def test_each_issuer_has_its_own_logo_or_none(tmp_path: Path) -> None:
    path = tmp_path / "labs.svg"
    path.write_text(SVG)
    site = issued(make_document())
    labs, other = ({**site, "issuer": {**site["issuer"], "name": name}} for name in ("Labs", "X"))
    plain = render_pdf(labs)

    with override_settings(ISSUER_LOGOS={"Labs": str(path)}):
        assert (logo_on(labs), logo_on(other), logo_on(site)) == (SVG, "", "")
        assert render_document(labs) != plain

        path.write_text("<svg ")
        assert set(invoice_terms().logo_problems) == {"Labs"}
        with pytest.raises(IssuerLogoError, match=r"ISSUER_LOGOS: .* cannot be drawn"):
            logo_on(labs)
        assert logo_on(other) == ""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be used."),
        (b"GIF89a", "cannot be used. It is neither SVG nor PNG."),
        (b"<svg ", "cannot be drawn:"),
        (png()[:-20], "cannot be drawn:"),
    ],
)
def test_a_logo_that_cannot_be_drawn_is_named_with_its_setting(
    content: bytes | None, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "logo"
    if content is not None:
        path.write_bytes(content)

    with override_settings(ISSUER_LOGO=str(path)):
        (named,) = invoice_terms().logo_problems.values()
        assert named.startswith(f"ISSUER_LOGO: {path.name} {problem}")
        assert str(path) not in named
        with pytest.raises(IssuerLogoError, match="ISSUER_LOGO"):
            logo_on(make_document())
