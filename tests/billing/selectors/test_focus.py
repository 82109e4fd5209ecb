"""Rows of FOCUS datasets add up to the documents, to the cent, and follow the rules of FOCUS."""

import csv
import io
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet
import pytest

from billing.adapters.focus_files import ENCODERS, read_focus
from billing.domain.exports.focus import VERSIONS, FocusFile
from billing.domain.exports.focus_check import check_focus, version_of
from billing.models import BillingPeriod, Invoice, InvoiceLine
from billing.selectors.exports.focus import FocusScope, stream_focus
from billing.services.crediting import void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.models import Organization
from tests.support.billing.ledger import DORA, ERIC, HOUR, month_of_use
from tests.support.billing.months import two_months
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT

LATER = AT + HOUR


def exported(
    dataset: str = "CostAndUsage",
    *,
    version: str = "1.4",
    month: str = "2026-10",
    format_name: str = "csv",
) -> bytes:
    """Return a file of every organization."""
    file = FocusFile.of(month=month, dataset=dataset, version=version, format_name=format_name)
    organizations = list(Organization.objects.values_list("pk", flat=True))
    scope = FocusScope(organizations, issuer="GPU Platform")
    return b"".join(stream_focus(file, scope, encode=ENCODERS[file.format]))


def rows_of(content: bytes) -> list[dict[str, str]]:
    """Return the rows of a CSV."""
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def final_month() -> Invoice:
    """Return Acme's final invoice: thirds of an hour, which no cost has exactly."""
    ledger = month_of_use([("llm", 1200), ("llm", 1), ("vision", 1800)])
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)


@pytest.mark.django_db
class TestCostAndUsage:
    def test_rows_of_each_line_add_up_to_it(self) -> None:
        invoice = final_month()

        rows = rows_of(exported())

        billed: defaultdict[str, Decimal] = defaultdict(Decimal)
        for row in rows:
            billed[row["InvoiceDetailId"]] += Decimal(row["BilledCost"])
            assert row["InvoiceId"] == invoice.reference
        assert billed == {
            str(line.pk): line.amount for line in InvoiceLine.objects.filter(invoice=invoice)
        }
        assert sorted((row["ChargeCategory"], row["x_UnitSeconds"]) for row in rows) == [
            ("Adjustment", ""),
            ("Usage", "1201"),
            ("Usage", "1800"),
        ]

    def test_a_void_is_corrected_in_the_month_in_which_it_was_issued(self) -> None:
        invoice = final_month()
        before = exported()
        note, replacement = void_invoice(
            invoice_id=invoice.pk, reason="Wrong.", actor=DORA, at=LATER, terms=SITE_TERMS
        )
        assert replacement is not None
        finalize_invoice(invoice_id=note.pk, actor=ERIC, at=LATER, terms=SITE_TERMS)

        rows = rows_of(exported(month=f"{Invoice.objects.get(pk=note.pk).finalized_at:%Y-%m}"))

        assert exported() == before
        assert {row["ChargeClass"] for row in rows} == {"Correction"}
        assert {row["ChargePeriodStart"] for row in rows} == {"2026-10-01T00:00:00Z"}
        assert sum(Decimal(row["BilledCost"]) for row in rows) == 0

    @pytest.mark.parametrize("format_name", ["csv", "parquet"])
    def test_every_dataset_passes_the_checker(self, format_name: str, tmp_path: Path) -> None:
        final_month()
        path = tmp_path / "focus"
        for version, dataset in [
            *((version, "CostAndUsage") for version in VERSIONS),
            ("1.4", "InvoiceDetail"),
            ("1.4", "BillingPeriod"),
        ]:
            path.write_bytes(exported(dataset, version=version, format_name=format_name))
            header, rows = read_focus(path)
            kept = list(rows)

            assert len(kept) == {"InvoiceDetail": 2, "BillingPeriod": 1}.get(dataset, 3)
            assert version_of(header) == version
            assert [str(one) for one in check_focus(header, kept, version=version)] == []

    def test_use_on_no_document_has_no_invoice(self) -> None:
        month_of_use([("llm", 3600)])

        (row,) = rows_of(exported(version="1.2"))

        assert (row["InvoiceId"], row["BilledCost"][:4], row["ProviderName"]) == (
            "",
            "2.00",
            "GPU Platform",
        )
        assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == (
            "2026-10-01T00:00:00Z",
            "2026-10-01T01:00:00Z",
        )

    def test_parquet_has_the_values_of_the_csv(self, tmp_path: Path) -> None:
        final_month()
        path = tmp_path / "focus.parquet"
        path.write_bytes(exported(format_name="parquet"))

        table = pyarrow.parquet.read_table(path)

        assert str(table.schema.field("BilledCost").type) == "decimal128(38, 20)"
        expected = [Decimal(row["BilledCost"]) for row in rows_of(exported())]
        assert sorted(table.column("BilledCost").to_pylist()) == sorted(expected)
        assert table.column("BillingPeriodEnd")[0].as_py() == datetime(2026, 11, 1, tzinfo=UTC)
        assert table.column("x_UnitSeconds").null_count == 1


@pytest.mark.django_db
def test_tiers_minimum_taxes_late_use_and_notes_add_up_to_their_documents(tmp_path: Path) -> None:
    two_months()

    payable: defaultdict[str, Decimal] = defaultdict(Decimal)
    categories: set[tuple[str, str]] = set()
    for month in ("2026-10", "2026-11"):
        details: defaultdict[str, Decimal] = defaultdict(Decimal)
        for row in rows_of(exported("InvoiceDetail", month=month)):
            details[row["InvoiceDetailId"]] += Decimal(row["BilledCost"])
        rows = rows_of(exported(month=month))
        for row in rows:
            payable[row["InvoiceId"]] += Decimal(row["BilledCost"])
            details[row["InvoiceDetailId"]] -= Decimal(row["BilledCost"])
            categories.add((row["ChargeCategory"], row["ChargeClass"]))
        assert set(details.values()) == {Decimal(0)}
        for version in VERSIONS:
            path = tmp_path / version
            path.write_bytes(exported(version=version, month=month))
            assert [str(one) for one in check_focus(*read_focus(path), version=version)] == []

    assert payable == {one.reference: one.payable for one in Invoice.objects.all()}
    assert categories >= {
        ("Usage", ""),
        ("Usage", "Correction"),
        ("Credit", ""),
        ("Adjustment", ""),
        ("Tax", ""),
        ("Tax", "Correction"),
    }
