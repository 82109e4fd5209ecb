"""A month's bundle agrees with the ledger, and whatever is changed in it is named."""

import json
import zipfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from billing.adapters.month_bundle import BUNDLE_MAKERS, rows_of
from billing.domain.period import Month
from billing.models import DocumentFile, Invoice
from billing.selectors.exports.focus import FocusScope
from billing.services.exports.month import stream_month
from tenants.models import Organization, Project
from tenants.selectors.report_database import ReportDatabase
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import month_of_use
from tests.support.billing.months import two_months
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT

NAMES = [
    "=1+1",
    "'=1+1",
    " +x",
    "@SUM(A1)",
    "-5",
    '"quoted", 2',
    "two\nlines",
    "tab\tand \x1b escape",
    "🧪 مرحبا 日本語",
    "\uff1dfull",
    "x" * 200,
]


def exported(path: Path, *, month: str = "2026-10", with_journal: bool = True) -> Path:
    """Write a month's bundle of every organization."""
    organizations = list(Organization.objects.values_list("pk", flat=True))
    blocks = stream_month(
        month=Month.parse(month),
        scope=FocusScope(organizations, issuer="GPU Platform"),
        annexed=(),
        with_journal=with_journal,
        makers=BUNDLE_MAKERS,
        database=ReportDatabase.primary(at=AT),
        at=AT,
    )
    path.write_bytes(b"".join(blocks))
    return path


def reconciled(path: Path) -> list[str]:
    """Return what `reconcile_export` names."""
    out = StringIO()
    try:
        call_command("reconcile_export", str(path), stdout=out)
    except CommandError:
        return out.getvalue().splitlines()
    assert out.getvalue().endswith("documents, no differences.\n")
    return []


@pytest.fixture
def bundle(db: None, tmp_path: Path) -> Path:  # noqa: ARG001 - It is the transaction.
    """October of two organizations, each with a final invoice."""
    for slug in ("acme", "umbrella"):
        ledger = month_of_use([("llm", 1001), ("vision", 1800)], slug)
        finalize(draft(ledger.organization, "2026-10"))
    return exported(tmp_path / "month.zip")


def changed(path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """Return a copy in which a file is changed."""
    copy = path.with_name("changed.zip")
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as into:
        for info in archive.infolist():
            content = archive.read(info)
            into.writestr(info.filename, change(content) if info.filename == name else content)
    return copy


def test_a_bundle_has_every_file_and_agrees_with_the_ledger(bundle: Path) -> None:
    first, second = Invoice.objects.order_by("number")

    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        manifest = json.loads(archive.read("manifest.json"))
        pdf = archive.read(f"pdf/{first.reference}.pdf")
        charges = [json.loads(line) for line in archive.read("charges.jsonl").splitlines()]

    files = {file["path"]: (file["rows"], file["totals"]) for file in manifest["files"]}
    total = {"EUR": "3.12"}
    assert files == {
        "documents.csv": (2, total),
        "lines.csv": (4, total),
        "journal.csv": (4, total),
        "charges.jsonl": (4, {}),
        "documents.jsonl": (2, {}),
        "month.xlsx": (None, {}),
        "focus/CostAndUsage.csv": (6, {"EUR": "3.12000000000000000000"}),
        "focus/InvoiceDetail.csv": (4, {}),
        "focus/BillingPeriod.csv": (1, {}),
        f"pdf/{first.reference}.pdf": (None, {}),
        f"pdf/{second.reference}.pdf": (None, {}),
    }
    assert sorted(charge["unit_seconds"] for charge in charges) == [1001, 1001, 1800, 1800]
    assert {charge["owner"] for charge in charges} == {"carol"}
    assert pdf == bytes(DocumentFile.objects.get(document=first).content)
    assert reconciled(bundle) == []


@pytest.mark.django_db
def test_months_with_credits_currencies_and_late_corrections_agree_too(tmp_path: Path) -> None:
    two_months()
    two_months("umbrella", currency="JPY", country="JP", credited="1")
    months = ("2026-10", "2026-11")
    paths = [exported(tmp_path / month, month=month) for month in months]

    kinds: set[tuple[str, str]] = set()
    for month, path in zip(months, paths, strict=True):
        with zipfile.ZipFile(path) as archive:
            documents = list(rows_of(archive, "documents.csv"))
            costs = list(rows_of(archive, "focus/CostAndUsage.csv"))
        totals: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for row in costs:
            totals[row["InvoiceId"], row["BillingCurrency"]] += Decimal(row["BilledCost"])
        kinds |= {(row["kind"], row["currency"]) for row in documents}
        assert reconciled(path) == []
        assert totals == {
            (row["document"], row["currency"]): Decimal(row["payable"]) for row in documents
        }, month
    assert kinds == {
        (kind, currency) for kind in ("invoice", "credit_note") for currency in ("EUR", "JPY")
    }


CHANGES = [
    ("documents.csv", b",1.56,", b",1.57,", "GL-2026-000001: total is 1.57, not 1.56"),
    ("documents.csv", b"document,", b"documents,", "GL-2026-000001 is not in the bundle"),
    ("lines.csv", b",0.56,EUR", b",0.57,EUR", "GL-2026-000001: sum of lines is 1.57, not 1.56"),
    ("journal.csv", b",1.56,EUR", b",1.50,EUR", "GL-2026-000001: journal is 1.50, not 1.56"),
    ("documents.jsonl", b"LLM", b"llm", "GL-2026-000001: text is "),
    ("charges.jsonl", b"1001", b"1002", "acme: 2 charges of 2802 unit-seconds are in the bundle"),
    ("charges.jsonl", b"{", b"", "charges.jsonl: sha256 is "),
    ("month.xlsx", b"PK", b"pk", "month.xlsx: sha256 is "),
    ("focus/CostAndUsage.csv", b"Rounding", b"rounding", "focus/CostAndUsage.csv: sha256 is "),
    ("pdf/GL-2026-000001.pdf", b"%PDF", b"%pdf", "GL-2026-000001: PDF is "),
    ("manifest.json", b'"rows": 4', b'"rows": 5', "lines.csv: rows is 4, not 5."),
    ("manifest.json", b'"3.12"', b'"3.13"', "totals is {'EUR': '3.12'}, not {'EUR': '3.13'}."),
]


def test_what_is_changed_is_named(bundle: Path) -> None:
    for name, old, new, named in CHANGES:
        path = changed(bundle, name, lambda content: content.replace(old, new, 1))  # noqa: B023

        found = reconciled(path)

        assert any(named in sentence for sentence in found), (named, found)


def test_a_byte_that_a_disk_lost_is_named(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        entry = archive.getinfo("lines.csv")
    content = bytearray(bundle.read_bytes())
    content[entry.header_offset + 100] ^= 1
    bundle.write_bytes(content)

    with pytest.raises(CommandError, match=r"^3 differences\.$"):
        call_command("reconcile_export", str(bundle), stdout=(out := StringIO()))
    assert out.getvalue().startswith("lines.csv cannot be read: ")


# What is changed of an e-invoice with number 1, and what is named.
E_INVOICE_CHANGES = [
    ("cii", b">GL-2026-000001<", b">GL-2026-000009<", "number is GL-2026-000009, not GL-2026-0"),
    ("cii", b"<ram:GrandTotalAmount>1.56<", b"<ram:GrandTotalAmount>1.55<", "gross is 1.55, not"),
    ("cii", b"<ram:InvoiceCurrencyCode>EUR", b"<ram:InvoiceCurrencyCode>USD", "currency is USD"),
    ("ubl", b"<cbc:ID>GL-2026-000001<", b"<cbc:ID>GL-2026-000009<", "number is GL-2026-000009"),
    (
        "ubl",
        b'TaxExclusiveAmount currencyID="EUR">1',
        b'TaxExclusiveAmount currencyID="EUR">2',
        "net",
    ),
    ("ubl", b"</Invoice>", b"", "cannot be read: it is no XML"),
]


def test_an_e_invoice_says_what_its_document_says(db: None, tmp_path: Path) -> None:  # noqa: ARG001
    ledger = month_of_use([("llm", 1001), ("vision", 1800)], "acme")
    Organization.objects.update(country="DE")
    terms = replace(SITE_TERMS, with_e_invoices=True)
    finalize(draft(ledger.organization, "2026-10"), terms=terms)
    bundle = exported(tmp_path / "month.zip")

    assert reconciled(bundle) == []
    for syntax, old, new, named in E_INVOICE_CHANGES:
        name = f"e-invoice/{syntax}/GL-2026-000001.xml"
        path = changed(bundle, name, lambda content: content.replace(old, new, 1))  # noqa: B023

        found = reconciled(path)

        assert any(one.startswith(name) and named in one for one in found), (named, found)
        label = f"GL-2026-000001: e-invoice in {syntax.upper()} is "
        assert any(one.startswith(label) for one in found), found


def test_other_documents_and_files_are_named(bundle: Path) -> None:
    ledger = month_of_use([("llm", 3600)], "late")
    finalize(draft(ledger.organization, "2026-10"))
    path = changed(bundle, "manifest.json", lambda content: content.replace(b'"acme"', b'"late"'))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("pdf/other.pdf", b"")
    missing = bundle.with_name("missing.zip")
    with zipfile.ZipFile(bundle) as archive, zipfile.ZipFile(missing, "w") as into:
        for name in archive.namelist():
            if name != "journal.csv":
                into.writestr(name, archive.read(name))

    found = reconciled(path)

    assert "pdf/other.pdf is not in the manifest." in found
    assert sum("is not in the bundle: export the month again" in one for one in found) == 1
    assert sum("is not a document of this month" in one for one in found) == 1
    assert reconciled(missing) == ["journal.csv is missing."]


def test_names_are_safe_in_spreadsheets_and_read_back_exactly(db: None, tmp_path: Path) -> None:  # noqa: ARG001
    ledger = month_of_use([(f"p{number}", 3600) for number in range(len(NAMES))])
    for number, name in enumerate(NAMES):
        Project.objects.filter(slug=f"p{number}").update(name=name)
    invoice = finalize(draft(ledger.organization, "2026-10"))
    printed = {line["project"]: line["project_name"] for line in invoice.document["lines"]}

    path = exported(tmp_path / "month.zip", with_journal=False)

    with zipfile.ZipFile(path) as archive:
        assert "journal.csv" not in archive.namelist()
        lines = list(rows_of(archive, "lines.csv"))
        costs = list(rows_of(archive, "focus/CostAndUsage.csv"))
        text = archive.read("lines.csv").decode()
        with zipfile.ZipFile(BytesIO(archive.read("month.xlsx"))) as workbook:
            sheet = workbook.read("xl/worksheets/sheet2.xml")
    assert {row["project"]: row["project_name"] for row in lines} == printed
    assert {row["SubAccountName"] for row in costs} == set(NAMES)
    assert not any(cell in text for cell in (",=1+1", ",@SUM", ",-5,", ",\uff1d"))
    assert b"<t>=1+1</t>" in sheet
    assert b"<f>" not in sheet
    assert reconciled(path) == []


@pytest.mark.parametrize("content", [b"", b"PK no zip"])
def test_what_is_no_bundle_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "month.zip"
    path.write_bytes(content)

    with pytest.raises(CommandError, match="cannot be read"):
        call_command("reconcile_export", str(path))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/tmp"])  # noqa: S108 - Only read.
def test_a_device_or_a_folder_is_not_read(path: str) -> None:
    with pytest.raises(CommandError, match="it is no file"):
        call_command("reconcile_export", path)
