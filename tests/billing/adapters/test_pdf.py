"""The PDF says what the document says, on every machine with the same bytes."""

import io
import os
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pypdf import PdfReader

from billing.adapters.documents import REPLACED_MAX, render_pdf
from billing.domain.documents.document import Document, Party, digest_of, issue_document
from tests.support.billing.documents import make_document

ISSUED_AT = datetime(2026, 11, 3, 9, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]


def issued(document: Document) -> Document:
    return issue_document(
        document, reference="GL-2026-000012", issued_at=ISSUED_AT, payment_days=30
    )


def pages(content: bytes) -> list[str]:
    return [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]


def test_the_same_document_gives_the_same_bytes() -> None:
    document = issued(make_document())

    assert render_pdf(document) == render_pdf(issued(make_document()))


def test_a_line_of_no_use_and_no_amount_is_not_printed() -> None:
    lines = (
        ("llm", "small", "H100/1g.10gb", "0.40", 3600),
        ("llm", "small", "H100/1g.10gb", "9.99", 0),
        ("vision", "large", "H100/whole", "2.75", 0),
    )

    text = "".join(pages(render_pdf(issued(make_document(lines=lines)))))

    assert "0.40" in text
    assert "9.99" not in text
    assert "VISION" not in text


def test_another_process_in_another_zone_gives_the_same_bytes(tmp_path: Path) -> None:
    program = (
        "import sys; from tests.billing.adapters.test_pdf import issued, make_document, render_pdf;"
        "sys.stdout.buffer.write(render_pdf(issued(make_document())))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TZ": "Asia/Tokyo",
        "HOME": str(tmp_path),
        "SOURCE_DATE_EPOCH": "1",
    }

    other = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
    )

    assert other.stdout == render_pdf(issued(make_document()))


def test_an_invoice_shows_parties_period_lines_total_and_digest() -> None:
    document = issued(
        make_document(
            lines=[("llm", "small", "H100/1g.10gb", "2.5", 3600 * 1234)],
            customer=Party(name="Acme Research", address="Main Street 5\nBerlin", tax_id="DE9"),
        )
    )

    (text,) = pages(render_pdf(document))

    for expected in (
        "GL-2026-000012",
        "2026-11-03",
        "Acme Research",
        "Main Street 5",
        "GPU Platform",
        "October 2026, Europe/Berlin",
        "2026-09-30 22:00 to 2026-10-31 23:00 UTC",
        "H100/1g.10gb",
        "1,234.0000",
        "3,085.00 EUR",
        "Page 1 of 1",
        digest_of(document),
    ):
        assert expected in text
    assert "DRAFT" not in text


def test_hours_of_two_sizes_are_added_up_apart_and_never_together() -> None:
    document = issued(
        make_document(
            lines=[
                ("llm", "large", "H100/whole", "2.50", 3600 * 1000),
                ("llm", "small", "A100/1of4", "0.50", 3600 * 10 + 9),
                ("vision", "large", "A100/whole", "2.00", 3600 * 200),
                ("vision", "small", "H100/1g.10gb", "0.50", 3600),
            ]
        )
    )

    (text,) = pages(render_pdf(document))

    assert text.index("Small in all") < text.index("Large in all") < text.rindex("Total")
    said = " ".join(text.split())
    assert "Small in all 11.0025 5.50" in said
    assert "Large in all 1,200.0000 2,900.00" in said
    assert "Medium in all" not in said
    assert "Subtotal 2,505.00" in said
    assert "Subtotal 400.50" in said
    assert "Total 2,905.50 EUR" in said
    # 1,010.0025 of LLM, 201 of Vision and 1,211.0025 in all would be hours of two sizes.
    assert [sum_of in text for sum_of in ("1,010.00", "201.00", "1,211.00")] == [False] * 3


@pytest.mark.parametrize(
    ("currency", "amount"), [("EUR", "\u22120.50"), ("JPY", "\u22121"), ("KWD", "\u22120.500")]
)
def test_less_than_nothing_of_a_size_is_reported_with_a_minus(currency: str, amount: str) -> None:
    document = make_document(
        lines=[
            ("llm", "large", "H100/whole", "2.50", 3600),
            ("llm", "small", "A100/1of4", "0.50", -3601),
        ],
        currency=currency,
    )

    (text,) = pages(render_pdf(issued(document)))

    assert f"Small in all \u22121.0003 {amount}" in " ".join(text.split())


def test_a_draft_is_marked_and_has_no_number() -> None:
    (text,) = pages(render_pdf(make_document()))

    assert "Draft invoice" in text
    assert "DRAFT" in text
    assert "not yet given" in text


def test_many_lines_run_over_pages_with_a_repeated_header() -> None:
    lines = [
        (f"project-{n // 8}", "small", f"H100/{n}g", f"{n + 1}.25", 3600 * n + 1) for n in range(60)
    ]

    texts = pages(render_pdf(issued(make_document(lines=lines))))

    assert len(texts) == 3
    for number, text in enumerate(texts, start=1):
        assert f"Page {number} of 3" in text
    assert ["DEVICE SHARE" in text.upper() for text in texts] == [True, True, False]
    assert sum(text.count("Subtotal") for text in texts) == 8
    assert "Total" in texts[-1]


@pytest.mark.parametrize(
    "name",
    [
        "x" * 200,
        '#eval("1") $x$ *bold* \\ <label> @ref `raw`',
        "Ärzte & Söhne GmbH, 東京",
        "",
    ],
)
def test_no_name_of_a_tenant_breaks_or_steers_the_page(name: str) -> None:
    document = issued(make_document(project_name=name or " ", customer=Party(name=name)))

    (text,) = pages(render_pdf(document))

    assert "2.00 EUR" in text
    if "eval" in name:
        assert '#eval("1")' in text


def test_the_file_is_pdf_a_and_dated_by_the_document() -> None:
    content = render_pdf(issued(make_document()))

    reader = PdfReader(io.BytesIO(content))
    assert b"<pdfaid:part>3</pdfaid:part>" in content
    assert reader.metadata is not None
    assert reader.metadata.creation_date == ISSUED_AT
    assert reader.metadata.title == "Invoice GL-2026-000012"


@pytest.mark.parametrize(("currency", "amount"), [("JPY", "2 JPY"), ("KWD", "2.000 KWD")])
def test_other_currencies_have_their_own_digits(currency: str, amount: str) -> None:
    (text,) = pages(render_pdf(issued(make_document(currency=currency))))

    assert amount in text


@pytest.mark.parametrize(
    "name", ["東京 株式会社", "한국", "北京", "شركة", "שלום", "नमस्ते", "தமிழ்", "สวัสดี", "Ω Привет"]
)
def test_a_name_is_printed_in_its_script_and_archived(name: str) -> None:
    content = render_pdf(issued(make_document(customer=Party(name=name))))

    assert b"pdfaid" in content
    assert b".notdef" not in content
    (text,) = pages(content)
    assert set(name) <= set(unicodedata.normalize("NFKC", text))


def test_characters_without_a_font_are_replaced_and_the_file_is_archived() -> None:
    document = issued(make_document(customer=Party(name="བོད་ বাংলা 🙂🙂 Labs")))

    content = render_pdf(document)

    assert b"pdfaid" in content
    assert content == render_pdf(document)
    assert "\ufffd\ufffd Labs" in pages(content)[0]
    assert digest_of(document) in pages(content)[0]


def test_more_of_them_than_are_replaced_make_a_plain_pdf() -> None:
    name = "".join(chr(0x1F600 + number) for number in range(REPLACED_MAX + 1))
    document = issued(make_document(customer=Party(name=f"{name} Labs")))

    content = render_pdf(document)

    assert b"pdfaid" not in content
    assert content == render_pdf(document)
    assert "Labs" in pages(content)[0]
