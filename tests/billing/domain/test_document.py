"""The document holds everything that is printed, as text and whole numbers, and has one digest."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.documents.document import (
    InvoiceTerms,
    canonical_bytes,
    clean_text,
    digest_of,
    file_name_of,
    issue_document,
    price_text,
    unit_hours_text,
)
from tests.support.billing.documents import make_document

ISSUED_AT = datetime(2026, 11, 3, 9, tzinfo=UTC)


def test_the_document_of_a_draft_is_exactly_this() -> None:
    document = make_document(lines=[("llm", "small", "H100/1g.10gb", "2.5", 5400)])

    assert document == {
        "schema": "gpu-ledger/invoice/1",
        "state": "draft",
        "reference": "",
        "issued_at": None,
        "drafted_at": "2026-11-02T09:00:00Z",
        "currency": "EUR",
        "minor_digits": 2,
        "issuer": {
            "name": "GPU Platform",
            "address": "Main Street 1\nBerlin",
            "tax_id": "DE1",
            "contact": "",
            "email": "",
            "cost_center": "",
        },
        "customer": {
            "name": "Acme",
            "address": "",
            "tax_id": "",
            "contact": "",
            "email": "",
            "cost_center": "",
        },
        "period": {
            "label": "2026-10",
            "time_zone": "Europe/Berlin",
            "begin_at": "2026-09-30T22:00:00Z",
            "end_at": "2026-10-31T23:00:00Z",
            "hours": 745,
        },
        "lines": [
            {
                "position": 1,
                "project": "llm",
                "project_name": "LLM",
                "cost_center": "CC-1",
                "size": "small",
                "price_group": "H100/1g.10gb",
                "description": "Small unit, H100 1g.10gb",
                "service_month": "2026-10",
                "unit_seconds": 5400,
                "unit_hours": "1.500000",
                "unit_price": "2.50",
                "amount": "3.75",
            }
        ],
        "subtotals": [
            {"project": "llm", "unit_seconds": 5400, "unit_hours": "1.500000", "amount": "3.75"}
        ],
        "total": {"unit_seconds": 5400, "unit_hours": "1.500000", "amount": "3.75"},
    }


def test_subtotals_add_up_to_the_total_project_by_project() -> None:
    document = make_document(
        lines=[
            ("llm", "small", "H100/whole", "2", 3600),
            ("llm", "large", "H100/whole", "3", 3600),
            ("vision", "small", "H100/whole", "2", 1800),
        ]
    )

    assert [(s["project"], s["amount"]) for s in document["subtotals"]] == [
        ("llm", "5.00"),
        ("vision", "1.00"),
    ]
    assert document["total"]["amount"] == "6.00"


def test_issuing_adds_number_date_and_due_date_and_nothing_else() -> None:
    draft = make_document()

    issued = issue_document(draft, reference="GL-2026-000007", issued_at=ISSUED_AT, payment_days=30)

    changed = {key for key in issued if issued[key] != draft.get(key)}
    assert changed == {"state", "reference", "issued_at", "due_on"}
    assert issued["due_on"] == "2026-12-03"
    assert (issued["state"], issued["issued_at"]) == ("final", "2026-11-03T09:00:00Z")
    assert draft["reference"] == ""


def test_a_file_is_named_by_the_number_or_the_month() -> None:
    draft = make_document()

    assert file_name_of(draft) == "draft-2026-10"
    issued = issue_document(draft, reference="GL-2026-000007", issued_at=ISSUED_AT, payment_days=30)
    assert file_name_of(issued) == "GL-2026-000007"


def test_the_digest_is_of_the_content_and_not_of_its_order() -> None:
    document = make_document()
    turned = dict(reversed(list(document.items())))

    assert digest_of(turned) == digest_of(document)
    assert len(digest_of(document)) == 64
    assert digest_of({**document, "currency": "USD"}) != digest_of(document)


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(document=st.dictionaries(st.text(), JSON, max_size=4))
def test_canonical_bytes_read_back_as_the_same_document(document: dict[str, Any]) -> None:
    try:
        spelled = canonical_bytes(document)
    except UnicodeEncodeError:
        return  # Lone surrogates never reach a document: clean_text takes them out.

    assert json.loads(spelled) == document
    assert canonical_bytes(json.loads(spelled)) == spelled


@given(text=st.text())
def test_clean_text_can_always_be_spelled_and_is_clean_already(text: str) -> None:
    cleaned = clean_text(text)

    cleaned.encode()
    assert clean_text(cleaned) == cleaned
    assert "\u202e" not in cleaned
    assert "\0" not in cleaned


def test_what_could_hide_or_turn_text_is_taken_out() -> None:
    assert clean_text(" a\r\nb\t\u202ec\u200bd\x07 ") == "a\nbcd"


@pytest.mark.parametrize(
    ("unit_seconds", "text"),
    [(0, "0.000000"), (1, "0.000278"), (5400, "1.500000"), (-3600, "-1.000000")],
)
def test_hours_are_reported_with_six_digits(unit_seconds: int, text: str) -> None:
    assert unit_hours_text(unit_seconds) == text


@pytest.mark.parametrize(
    ("price", "digits", "text"),
    [
        ("2", 2, "2.00"),
        ("2.5000000000", 2, "2.50"),
        ("0.1234567890", 2, "0.123456789"),
        ("1E+1", 0, "10"),
        ("3.0", 0, "3"),
    ],
)
def test_a_price_has_its_currencys_digits_and_none_that_say_nothing(
    price: str, digits: int, text: str
) -> None:
    assert price_text(Decimal(price), digits=digits) == text


def test_each_kind_of_document_has_its_series() -> None:
    terms = InvoiceTerms(series="S", credit_series="C", debit_series="D")
    kinds = ("invoice", "credit_note", "debit_note")

    assert [terms.series_of(kind) for kind in kinds] == ["S", "C", "D"]
