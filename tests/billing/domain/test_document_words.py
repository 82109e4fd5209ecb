"""What an invoice's page says: grouped numbers, and no sum over sizes."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.documents.document import as_printed
from billing.domain.documents.document_text import (
    InvoiceText,
    LineText,
    SizeText,
    hours_text,
    invoice_text,
    number_text,
)
from tests.support.billing.documents import make_document


def test_thousands_stand_apart_and_every_size_has_its_own_sum() -> None:
    document = make_document(
        lines=(
            ("llm", "large", "H100/whole", "2.75", 1234 * 3600 + 1),
            ("vision", "large", "H100/whole", "1000.125", 3600),
            ("llm", "small", "H100/1g.10gb", "0.50", 90),
        )
    )

    assert invoice_text(document) == InvoiceText(
        lines=(
            LineText("LLM", "Small unit, H100 1g.10gb", "0.0250", "0.50", "0.01"),
            LineText("LLM", "Large unit, H100 whole device", "1,234.0003", "2.75", "3,393.50"),
            LineText("VISION", "Large unit, H100 whole device", "1.0000", "1,000.125", "1,000.13"),
        ),
        sizes=(SizeText("Small", "0.0250", "0.01"), SizeText("Large", "1,235.0003", "4,393.63")),
        total="4,393.64",
        taxes=(),
        payable="4,393.64",
    )


@pytest.mark.parametrize(
    ("currency", "price", "amount"),
    [("JPY", "1500", "1,500"), ("KWD", "1500.25", "1,500.250"), ("EUR", "1500.5", "1,500.50")],
)
def test_money_has_the_digits_of_its_currency(currency: str, price: str, amount: str) -> None:
    words = invoice_text(
        make_document(lines=(("llm", "medium", "H100/whole", price, 3600),), currency=currency)
    )

    assert (words.lines[0].amount, words.sizes[0].amount, words.total) == (amount, amount, amount)


def test_what_is_given_back_keeps_its_sign() -> None:
    assert hours_text(-1_234_567 * 3600) == "-1,234,567.0000"
    assert number_text("-28239.59") == "-28,239.59"


def test_an_invoice_of_nothing_names_no_size() -> None:
    words = invoice_text(make_document(lines=()))

    assert words == InvoiceText(lines=(), sizes=(), total="0.00", taxes=(), payable="0.00")


@pytest.mark.parametrize(
    ("unit_seconds", "words"), [(0, "0.0000"), (1, "0.0003"), (5, "0.0014"), (3599, "0.9997")]
)
def test_hours_are_rounded_half_up_to_four_digits(unit_seconds: int, words: str) -> None:
    assert hours_text(unit_seconds) == words


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_grouping_never_changes_a_number(units: int) -> None:
    text = f"{Decimal(units) / 100:f}"

    assert number_text(text).replace(",", "") == text


def test_a_line_of_no_use_and_no_amount_is_not_printed() -> None:
    document = make_document(
        lines=(
            ("llm", "small", "H100/1g.10gb", "0.50", 0),
            ("llm", "small", "H100/1g.10gb", "0.40", 3600),
            ("vision", "large", "H100/whole", "2.75", 0),
        )
    )

    words = invoice_text(document)

    assert [(line.project, line.unit_price) for line in words.lines] == [("LLM", "0.40")]
    assert words.sizes == (SizeText("Small", "1.0000", "0.40"),)
    assert [line["unit_price"] for line in document["lines"]] == ["0.40", "0.50", "2.75"]
    assert [part["project"] for part in as_printed(document)["subtotals"]] == ["llm"]


def test_a_document_of_nothing_else_prints_its_lines_of_nothing() -> None:
    document = make_document(lines=(("llm", "small", "H100/1g.10gb", "0.50", 0),))

    assert as_printed(document) == document
