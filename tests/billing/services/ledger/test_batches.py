"""Batches of the journal: numbered, each entry in one, the same bytes every time."""

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.conf import settings
from django.db import DatabaseError, transaction

from billing.adapters.journal_layouts import (
    CSV_COLUMNS,
    DATEV_COLUMNS_COUNT,
    LAYOUT_NAMES,
    NETSUITE_COLUMNS,
    SAP_COLUMNS,
    DatevLayout,
    GenericCsvLayout,
    NetSuiteLayout,
    SapLayout,
    layouts,
)
from billing.domain.ledger.batches import BatchFacts, ExportedEntry, ExportedPosting
from billing.domain.ledger.errors import NothingToExportError
from billing.domain.period import Month
from billing.models import (
    AccountingMonth,
    BatchedEntry,
    JournalBatch,
    JournalEntry,
    Posting,
)
from billing.services.ledger.batches import export_batch
from billing.services.ledger.journal import accrue_unbilled, close_accounting_month
from tenants.domain.identifiers import new_id
from tests.support.billing.ledger import DORA, month_of_use
from tests.support.billing.payments import pay
from tests.support.builders import AT

pytestmark = pytest.mark.django_db
INVOICE = ExportedEntry(
    id="e1",
    event="invoice",
    organization="acme",
    currency="EUR",
    document_on=AT.date(),
    posting_on=AT.date(),
    reason="GL-2026-000001",
    postings=(
        ExportedPosting("1400", "Receivables", Decimal("119.00")),
        ExportedPosting("1776", "Tax payable", Decimal("-19.00")),
        ExportedPosting("8200", "Revenue", Decimal("-100.00")),
    ),
)
FACTS = BatchFacts(7, Month(2026, 11), datetime(2026, 12, 1, 8, 30, 5, 250_000, tzinfo=UTC))


def export(month: str) -> JournalBatch:
    return export_batch(month=month, layout=GenericCsvLayout(), actor=DORA, at=AT)


def test_an_entry_is_in_exactly_one_batch_and_numbers_have_no_gap() -> None:
    month_of_use([("llm", 3600)])
    accrue_unbilled(label="2026-10", actor=DORA, at=AT)
    october, november = export("2026-10"), export("2026-11")
    for month in ("2026-10", "2026-11", "2025-01"):
        with pytest.raises(NothingToExportError):
            export(month)
    pay()
    later = export("2026-11")

    assert [(b.number, b.month, b.entries) for b in (october, november, later)] == [
        (1, "2026-10", 1),
        (2, "2026-11", 1),
        (3, "2026-11", 1),
    ]
    assert BatchedEntry.objects.count() == 3
    rows = list(csv.DictReader(io.StringIO(october.content)))
    assert [(r["account"], r["debit"], r["credit"], r["event"]) for r in rows] == [
        ("1405", "2.00", "", "accrual"),
        ("8200", "", "2.00", "accrual"),
    ]
    assert tuple(rows[0]) == CSV_COLUMNS


def test_a_batch_is_never_changed_and_none_is_left_out() -> None:
    pay()
    batch = export("2026-11")

    with pytest.raises(DatabaseError), transaction.atomic():
        JournalBatch.objects.filter(pk=batch.pk).update(content="")
    batch.pk, batch.number = None, 3
    with pytest.raises(DatabaseError, match="not the next"), transaction.atomic():
        batch.save(force_insert=True)
    assert list(JournalBatch.objects.values_list("number", flat=True)) == [1]


def test_datev_books_account_against_account() -> None:
    text = DatevLayout(consultant=1234567, client=42).render(FACTS, [INVOICE])

    header, titles, *bookings = (line.split(";") for line in text.split("\r\n")[:-1])
    assert header[:6] == ['"EXTF"', "700", "21", '"Buchungsstapel"', "13", "20261201083005250"]
    assert header[10:17] == [
        "1234567",
        "42",
        "20260101",
        "4",
        "20261101",
        "20261130",
        '"GPU Ledger 7"',
    ]
    assert len(header) == 31
    assert {len(line) for line in (titles, *bookings)} == {DATEV_COLUMNS_COUNT}
    assert [[line[i] for i in (0, 1, 2, 6, 7, 9, 10, 13)] for line in bookings] == [
        ["19,00", '"S"', '"EUR"', "1400", "1776", "0211", '"GL-2026-000001"', '"acme invoice"'],
        ["100,00", '"S"', '"EUR"', "1400", "8200", "0211", '"GL-2026-000001"', '"acme invoice"'],
    ]
    assert text == DatevLayout(consultant=1234567, client=42).render(FACTS, [INVOICE])


def test_sap_has_a_line_for_each_posting_with_debit_and_credit() -> None:
    text = SapLayout(company_code="1000", document_type="SA").render(FACTS, [INVOICE])

    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == SAP_COLUMNS
    assert [(r["HKONT"], r["WRSOL"], r["WRHAB"]) for r in rows] == [
        ("1400", "119.00", ""),
        ("1776", "", "19.00"),
        ("8200", "", "100.00"),
    ]
    assert {(r["BUKRS"], r["BLART"], r["XBLNR"], r["BUDAT"]) for r in rows} == {
        ("1000", "SA", "GL7-1", "20261102")
    }


def test_netsuite_joins_the_lines_of_an_entry_by_its_external_id() -> None:
    text = NetSuiteLayout(subsidiary="Parent : DE").render(FACTS, [INVOICE])

    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == NETSUITE_COLUMNS
    assert [(r["Account"], r["Debit"], r["Credit"]) for r in rows] == [
        ("1400", "119.00", ""),
        ("1776", "", "19.00"),
        ("8200", "", "100.00"),
    ]
    assert {(r["External ID"], r["Subsidiary"], r["Date"]) for r in rows} == {
        ("gpu-ledger-e1", "Parent : DE", "2026-11-02")
    }


@pytest.mark.parametrize("name", LAYOUT_NAMES)
def test_every_layout_repeats_its_bytes_and_writes_no_formula(name: str) -> None:
    layout = layouts(settings.JOURNAL_LAYOUTS)[name]
    entry = replace(INVOICE, reason="=1+1", organization="@SUM(1)")

    text = layout.render(FACTS, [entry])

    assert text == layout.render(FACTS, [entry])
    cells = [cell for line in csv.reader(io.StringIO(text), delimiter=",") for cell in line]
    cells += [cell for line in csv.reader(io.StringIO(text), delimiter=";") for cell in line]
    assert not any(cell.startswith(("=", "@", "+", "-")) for cell in cells)


def test_no_posting_joins_an_entry_that_is_exported_or_of_a_closed_month() -> None:
    month_of_use([("llm", 3600)])
    accrue_unbilled(label="2026-10", actor=DORA, at=AT)
    close_accounting_month(label="2026-10", actor=DORA, at=AT)
    pay()
    export("2026-11")

    for event in ("accrual", "payment"):
        entry = JournalEntry.objects.get(event=event)
        with pytest.raises(DatabaseError, match="exported, or its"), transaction.atomic():
            Posting.objects.bulk_create(
                Posting(id=new_id(), entry=entry, account_id=account, amount=amount)
                for account, amount in (("bad_debt", 5), ("rounding", -5))
            )


@pytest.mark.parametrize("label", ["9999-99", "2026-13", "2026"])
def test_what_is_no_month_closes_nothing(label: str) -> None:
    with pytest.raises(DatabaseError, match="accounting_month_is_a_month"), transaction.atomic():
        AccountingMonth.objects.create(label=label, closed_at=AT, closed_by="x")
