"""A month as one bundle: its files, its manifest, and what must agree in it."""

import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Context, Decimal
from typing import Any, Final

from billing.domain.exports.blocks import Blocks, lines_of
from billing.domain.exports.focus import FocusEncoder
from billing.domain.period import Month

SCHEMA: Final = "gpu-ledger/month/1"
MANIFEST: Final = "manifest.json"
DOCUMENTS: Final = "documents.csv"
DOCUMENT_TEXTS: Final = "documents.jsonl"
LINES: Final = "lines.csv"
JOURNAL: Final = "journal.csv"
CHARGES: Final = "charges.jsonl"
WORKBOOK: Final = "month.xlsx"
COSTS: Final = "focus/CostAndUsage.csv"
PDF_FOLDER: Final = "pdf/"
ANNEX_FOLDER: Final = "annex/"
E_INVOICE_FOLDER: Final = "e-invoice/"
"""With a folder for each syntax."""
NUMBERS: Final = frozenset(
    {
        "run",
        "total",
        "tax_total",
        "payable",
        "brought_forward",
        "carried_forward",
        "position",
        "unit_seconds",
        "unit_hours",
        "unit_price",
        "amount",
        "debit",
        "credit",
    }
)
"""The columns of its tables that are numbers in a workbook."""
MONEY_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    DOCUMENTS: ("payable", "currency"),
    LINES: ("amount", "currency"),
    JOURNAL: ("debit", "currency"),
    COSTS: ("BilledCost", "BillingCurrency"),
}
"""Amount and currency of the files that have totals."""
EXACT: Final = Context(prec=64)
"""For sums: costs have twenty digits after the point."""
_GUARDED: Final = re.compile(r"'+ *[-=+@\t\r\n＝＋－＠]")  # noqa: RUF001 - Full-width forms are meant.


Archiver = Callable[[Iterator[tuple[str, Blocks]], datetime], Blocks]
"""Makes an archive of files, each with its path and its blocks, as they come."""
WorkbookMaker = Callable[[Iterator[tuple[str, Blocks]], datetime], Blocks]
"""Makes a workbook of tables in CSV, a sheet each, named as their paths."""


@dataclass(frozen=True)
class BundleMakers:
    """What makes the files of a bundle; entry points choose it.

    Attributes:
        render: The PDF of a document that has no stored one, with its e-invoice.
        annex: The PDF of a usage annex.
        encode: FOCUS as CSV.
        workbook: The tables as XLSX.
        archive: All of it as one file.
    """

    render: Callable[[Mapping[str, Any], bytes], bytes]
    annex: Callable[[Mapping[str, Any]], bytes]
    encode: FocusEncoder
    workbook: WorkbookMaker
    archive: Archiver


def bundle_name(month: Month, organization: str = "") -> str:
    """Return the name of a month's bundle, such as gpu-ledger-2026-10.zip."""
    return "-".join(["gpu-ledger", *([organization] if organization else []), month.label]) + ".zip"


def read_text(text: str) -> str:
    """Return a text of a CSV as it is in the ledger: without the apostrophe before a formula."""
    return text[1:] if _GUARDED.match(text) else text


@dataclass(frozen=True)
class BundleFile:
    """A file as the manifest names it.

    Attributes:
        rows: Of a CSV, without its header; lines of JSON lines; None of other files.
        totals: Of a CSV with amounts, by currency.
    """

    path: str
    sha256: str
    size: int
    rows: int | None
    totals: Mapping[str, str]


class Tally:
    """Digest, size, rows and totals of a file that passes through."""

    def __init__(self, path: str) -> None:
        """Begin with nothing."""
        self.path = path
        self._digest = hashlib.sha256()
        self._size = 0
        self._rows = 0
        self._totals: defaultdict[str, Decimal] = defaultdict(Decimal)

    def through(self, blocks: Iterable[bytes]) -> Blocks:
        """Yield the blocks; what is read of them is counted before."""
        if self.path.endswith(".csv"):
            yield from self._csv(blocks)
            return
        for block in blocks:
            self._count(block)
            self._rows += block.count(b"\n")
            yield block

    def file(self) -> BundleFile:
        """Return what the manifest says of it, once it has passed."""
        totals = {currency: f"{total:f}" for currency, total in sorted(self._totals.items())}
        rows = self._rows if self.path.endswith((".csv", ".jsonl")) else None
        return BundleFile(self.path, self._digest.hexdigest(), self._size, rows, totals)

    def _count(self, block: bytes) -> None:
        self._digest.update(block)
        self._size += len(block)

    def _csv(self, blocks: Iterable[bytes]) -> Blocks:
        passing: list[bytes] = []
        rows = csv.reader(lines_of(self._kept(blocks, passing)))
        header = next(rows, [])
        money = MONEY_COLUMNS.get(self.path)
        amount, currency = (header.index(name) for name in money) if money else (0, 0)
        for row in rows:
            self._rows += 1
            if money and row[amount]:
                total = self._totals[row[currency]]
                self._totals[row[currency]] = EXACT.add(total, Decimal(row[amount]))
            if passing:
                yield from passing
                passing.clear()
        yield from passing

    def _kept(self, blocks: Iterable[bytes], passing: list[bytes]) -> Iterator[bytes]:
        """Yield blocks, which are counted, and kept to be handed on."""
        for block in blocks:
            self._count(block)
            passing.append(block)
            yield block


def manifest_of(files: Iterable[BundleFile], **facts: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON.
    """Return the manifest of a bundle."""
    return {"schema": SCHEMA, **facts, "files": [asdict(file) for file in files]}


@dataclass(frozen=True)
class DocumentFacts:
    """What the ledger, or a bundle, has of one document.

    Attributes:
        lines: Sum of the lines, net.
        costs: Sum of BilledCost, as FOCUS has it.
        earned: What the journal has on revenue and taxes; None without the journal.
        sha256: Of the canonical text.
        pdf_sha256: Of the PDF; "" while there is none.
        cii_sha256: Of the e-invoice in CII; "" without one.
        ubl_sha256: Of the e-invoice in UBL; "" without one.
    """

    currency: str
    total: Decimal
    tax_total: Decimal
    payable: Decimal
    lines: Decimal
    costs: Decimal
    earned: Decimal | None
    sha256: str
    pdf_sha256: str
    cii_sha256: str
    ubl_sha256: str


@dataclass(frozen=True)
class BundleFacts:
    """What the ledger, or a bundle, has of a month.

    Attributes:
        documents: By number.
        charges: Number of charges and sum of their unit-seconds, by organization.
    """

    documents: Mapping[str, DocumentFacts]
    charges: Mapping[str, tuple[int, int]]


def differences(bundle: BundleFacts, ledger: BundleFacts) -> Iterator[str]:
    """Yield a sentence for each difference between a bundle and the ledger."""
    for reference in sorted({*bundle.documents, *ledger.documents}):
        if reference not in ledger.documents:
            yield f"{reference} is not a document of this month in the ledger."
        elif reference not in bundle.documents:
            yield f"{reference} is not in the bundle: export the month again."
        else:
            yield from _of_document(
                reference, bundle.documents[reference], ledger.documents[reference]
            )
    for slug in sorted({*bundle.charges, *ledger.charges}):
        has, wanted = bundle.charges.get(slug, (0, 0)), ledger.charges.get(slug, (0, 0))
        if has != wanted:
            yield (
                f"{slug}: {has[0]} charges of {has[1]} unit-seconds are in the bundle, "
                f"{wanted[0]} of {wanted[1]} in the ledger."
            )


def cost_differences(costs: Iterable[tuple[str | None, str]], ledger: BundleFacts) -> Iterator[str]:
    """Yield a sentence for each document whose costs in a FOCUS file are not its amount.

    Args:
        costs: Number of the document, or None before there is one, and cost of each row.
        ledger: Of the file's month and organizations.
    """
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for reference, cost in costs:
        if reference is not None:
            sums[reference] = EXACT.add(sums[reference], Decimal(cost))
    for reference in sorted({*sums, *ledger.documents}):
        document = ledger.documents.get(reference)
        if document is None:
            yield f"{reference} is not a document of this month in the ledger."
        elif sums[reference] != document.payable:
            yield f"{reference}: sum of costs is {sums[reference]}, not {document.payable}."


def _of_document(reference: str, found: DocumentFacts, ledger: DocumentFacts) -> Iterator[str]:
    for what, has, wanted in (
        ("currency", found.currency, ledger.currency),
        ("text", found.sha256, ledger.sha256),
        ("PDF", found.pdf_sha256, ledger.pdf_sha256),
        ("e-invoice in CII", found.cii_sha256, ledger.cii_sha256),
        ("e-invoice in UBL", found.ubl_sha256, ledger.ubl_sha256),
        ("total", found.total, ledger.total),
        ("tax", found.tax_total, ledger.tax_total),
        ("total with tax", found.payable, ledger.payable),
        ("sum of lines", found.lines, ledger.total),
        ("sum of lines in the ledger", ledger.lines, ledger.total),
        ("sum of FOCUS costs", found.costs, ledger.payable),
        ("journal", found.earned, ledger.payable if found.earned is not None else None),
        ("journal in the ledger", ledger.earned, ledger.payable),
    ):
        if has != wanted:
            yield f"{reference}: {what} is {has}, not {wanted}."
