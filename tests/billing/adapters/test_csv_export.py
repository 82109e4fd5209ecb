"""CSV: RFC 4180, exact numbers, and no text that a spreadsheet would run."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.adapters.documents import COLUMNS, FORMULA_STARTS, render_csv
from billing.domain.documents.document import Party, clean_text
from tests.support.billing.documents import make_document


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True))


def test_a_line_is_exactly_this_record() -> None:
    content = render_csv(make_document(lines=[("llm", "small", "H100/whole", "2.5", 5400)]))

    header, record, rest = content.decode().split("\r\n")
    assert header == ",".join(f'"{column}"' for column in COLUMNS)
    assert record == (
        '"","draft","","Acme","2026-10","EUR","llm","LLM","CC-1","small","H100/whole",'
        '"Small unit, H100 whole device","2026-10",1,5400,1.500000,2.50,3.75,0,0'
    )
    assert rest == ""


@pytest.mark.parametrize("start", sorted(FORMULA_STARTS - set("\t\r\n\0")))
def test_text_that_begins_like_a_formula_is_guarded(start: str) -> None:
    name = f"{start}cmd|' /C calc'!A0"

    (row,) = rows(render_csv(make_document(project_name=name)))

    assert row["project_name"] == f"'{name}"


def test_a_formula_behind_spaces_is_guarded_too() -> None:
    (row,) = rows(render_csv(make_document(customer=Party(name="\u00a0=1"))))

    assert not row["customer"].startswith("=")


def test_numbers_are_left_as_they_are() -> None:
    content = render_csv(make_document(lines=[("llm", "small", "H100/whole", "2", -3600)]))

    assert content.decode().rstrip().endswith("1,-3600,-1.000000,2.00,-2.00,0,0")


@given(name=st.text(min_size=1, max_size=30), customer=st.text(max_size=30))
def test_whatever_a_tenant_is_called_reads_back_as_one_record(name: str, customer: str) -> None:
    document = make_document(project_name=name, customer=Party(name=customer))

    (row,) = rows(render_csv(document))

    assert row["project_name"].removeprefix("'") == clean_text(name).removeprefix("'")
    assert row["project_name"].lstrip(" ")[:1] not in FORMULA_STARTS
    assert row["customer"].lstrip(" ")[:1] not in FORMULA_STARTS
    assert row["amount"] == "2.00"


def test_the_same_document_gives_the_same_bytes() -> None:
    assert render_csv(make_document()) == render_csv(make_document())
