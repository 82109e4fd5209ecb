"""An annex says what each person used of an invoice, and adds up to it."""

from decimal import Decimal
from typing import Any

from billing.domain.documents.annex import OwnerUse, annex_document
from billing.domain.documents.document import Document, digest_of, issue_document
from tests.support.billing.documents import DRAFTED_AT, make_document

LINES = [
    ("llm", "small", "H100/1g.10gb", "0.31", 3601),
    ("llm", "large", "H100/whole", "2.50", 3600 * 3),
    ("vision", "large", "H100/whole", "2.50", 1000),
]


def invoice(**changes: Any) -> Document:  # noqa: ANN401 - Of the document.
    draft = make_document(lines=LINES)
    final = issue_document(draft, reference="GL-2026-1", issued_at=DRAFTED_AT, payment_days=30)
    return {**final, **changes}


def rows_of(document: Document) -> list[tuple[str, str, str, str]]:
    return [
        (project["project"], row["owner"], row["unit_hours"], row["amount"])
        for project in document["projects"]
        for row in project["rows"]
    ]


def test_the_amount_of_a_line_is_split_by_unit_seconds_and_adds_up() -> None:
    document = invoice()
    uses = [
        OwnerUse(1, "carol", 3601),
        OwnerUse(2, "carol", 3600),
        OwnerUse(2, "Bob", 3600),
        OwnerUse(2, "", 3600),
        OwnerUse(3, "carol", 500),
        OwnerUse(3, "dave", 500),
    ]

    annex = annex_document(document, uses)

    assert rows_of(annex) == [
        ("llm", "Bob", "1.000000", "2.50"),
        ("llm", "carol", "1.000278", "0.31"),
        ("llm", "carol", "1.000000", "2.50"),
        ("llm", "", "1.000000", "2.50"),
        ("vision", "carol", "0.138889", "0.35"),
        ("vision", "dave", "0.138889", "0.34"),
    ]
    assert [(part["amount"], part["rest"]) for part in annex["projects"]] == [
        (subtotal["amount"], "0.00") for subtotal in document["subtotals"]
    ]
    assert annex["total"] == document["total"]
    assert [(one["owner"], one["amount"]) for one in annex["persons"]] == [
        ("carol", "3.16"),
        ("", "2.50"),
        ("Bob", "2.50"),
        ("dave", "0.34"),
    ]


def test_the_invoice_and_its_digest_know_nothing_of_it() -> None:
    document = invoice()
    before = digest_of(document)

    annex_document(document, [OwnerUse(2, "carol", 3600 * 3)])

    assert digest_of(document) == before
    assert "carol" not in str(document)


def test_money_that_is_of_no_person_stands_apart() -> None:
    document = invoice()
    discount = {**document["lines"][2], "position": 4, "kind": "minimum", "amount": "-0.10"}

    annex = annex_document(
        {**document, "lines": [*document["lines"], discount]}, [OwnerUse(3, "carol", 1000)]
    )

    vision = annex["projects"][1]
    assert (vision["rest"], vision["amount"]) == ("-0.10", "0.59")


def test_a_person_who_was_corrected_below_zero_is_shown_as_it_is() -> None:
    uses = [OwnerUse(2, "carol", 3600 * 4), OwnerUse(2, "bob", -3600)]

    annex = annex_document(invoice(), uses)

    assert rows_of(annex) == [
        ("llm", "bob", "-1.000000", "-2.50"),
        ("llm", "carol", "4.000000", "10.00"),
    ]
    assert Decimal(annex["projects"][0]["rest"]) == Decimal("0.31")


def test_control_and_direction_characters_of_a_name_are_left_out() -> None:
    annex = annex_document(invoice(), [OwnerUse(2, "ca\u202erol\x00\x1b", 3600 * 3)])

    assert rows_of(annex)[0][1] == "carol"
