"""A month's bundle as a zip: written as a stream, and read back with all that is wrong with it."""

import csv
import hashlib
import io
import json
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

from billing.adapters.e_invoices import EInvoiceTotals, read_totals
from billing.adapters.focus_files import Sink, to_csv
from billing.adapters.terms import render_document, render_usage_annex
from billing.adapters.workbooks import Sheet, write_workbook
from billing.domain.exports.blocks import BLOCK_BYTES, Blocks, lines_of
from billing.domain.exports.bundle import (
    CHARGES,
    COSTS,
    DOCUMENT_TEXTS,
    DOCUMENTS,
    E_INVOICE_FOLDER,
    EXACT,
    JOURNAL,
    LINES,
    MANIFEST,
    NUMBERS,
    PDF_FOLDER,
    SCHEMA,
    BundleFacts,
    BundleMakers,
    DocumentFacts,
    Tally,
    read_text,
)
from billing.domain.exports.errors import BundleError

LEVEL: Final = 3
"""Of deflate: a third larger than 6, in half of the time."""
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    csv.Error,
    zlib.error,
    ValueError,
    LookupError,
    ArithmeticError,
)
"""What a file raises that is not what the manifest says."""


def pack_zip(files: Iterator[tuple[str, Blocks]], at: datetime) -> Blocks:
    """Yield a zip of files, each compressed as it comes; sizes follow the content."""
    sink, local = Sink(), at.astimezone(UTC)
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path, blocks in files:
            info = zipfile.ZipInfo(path, local.timetuple()[:6])
            info.compress_type = (
                zipfile.ZIP_STORED if path.endswith(".pdf") else zipfile.ZIP_DEFLATED
            )
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as entry:
                for block in blocks:
                    entry.write(block)
                    yield from sink.take()
    yield from sink.take()


def make_workbook(tables: Iterator[tuple[str, Blocks]], at: datetime) -> Blocks:
    """Yield tables of CSV as a workbook, a sheet each; it is put together on disk."""
    with TemporaryFile() as file:
        write_workbook(file, (_sheet(path, blocks) for path, blocks in tables), at=at)
        file.seek(0)
        yield from iter(lambda: file.read(BLOCK_BYTES), b"")


BUNDLE_MAKERS: Final = BundleMakers(
    render=render_document,
    annex=render_usage_annex,
    encode=to_csv,
    workbook=make_workbook,
    archive=pack_zip,
)


@dataclass(frozen=True)
class ReadBundle:
    """A bundle that was read.

    Attributes:
        organizations: Their slugs.
        problems: What differs from its manifest, a sentence each.
    """

    month: str
    organizations: list[str]
    problems: list[str]
    facts: BundleFacts


def read_bundle(path: Path) -> ReadBundle:
    """Read a bundle; one block and one row at a time are in memory.

    Raises:
        BundleError: It is no zip with a manifest.
    """
    if path.exists() and not path.is_file():
        # A device may never end, and a pipe never answer.
        raise BundleError(f"{path} cannot be read: it is no file.")
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            if manifest.get("schema") != SCHEMA:
                raise BundleError(f"The manifest of {path} is not of {SCHEMA}.")
            return ReadBundle(
                month=manifest["month"],
                organizations=manifest["organizations"],
                problems=[
                    *_file_problems(archive, manifest["files"]),
                    *_e_invoice_problems(archive),
                ],
                facts=_facts(archive),
            )
    except (OSError, LookupError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise BundleError(f"{path} cannot be read: {error}.") from error


def rows_of(archive: zipfile.ZipFile, path: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV of a bundle, text as it is in the ledger."""
    with archive.open(path) as entry:
        yield from _rows(entry)


def _rows(file: IO[bytes]) -> Iterator[dict[str, str]]:
    with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text, strict=True):
            yield {name: read_text(value) for name, value in row.items()}


def _file_problems(archive: zipfile.ZipFile, files: list[dict[str, Any]]) -> Iterator[str]:
    there = {*archive.namelist()} - {MANIFEST}
    for wanted in files:
        path = wanted["path"]
        if path not in there:
            yield f"{path} is missing."
            continue
        there.discard(path)
        yield from _file_differences(archive, path, wanted)
    yield from (f"{path} is not in the manifest." for path in sorted(there))


def _file_differences(
    archive: zipfile.ZipFile, path: str, wanted: Mapping[str, Any]
) -> Iterator[str]:
    tally = Tally(path)
    try:
        with archive.open(path) as entry:
            for _ in tally.through(iter(lambda: entry.read(BLOCK_BYTES), b"")):
                pass
    except _UNREADABLE as error:
        yield f"{path} cannot be read: {error}."
        return
    found = tally.file()
    for name in ("sha256", "size", "rows", "totals"):
        if getattr(found, name) != wanted[name]:
            yield f"{path}: {name} is {getattr(found, name)}, not {wanted[name]}."


def _e_invoice_problems(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield where number or sums of an e-invoice are not those of the document beside it."""
    documents: dict[str, EInvoiceTotals] = {}
    with suppress(*_UNREADABLE):
        documents = {row["document"]: _totals(row) for row in rows_of(archive, DOCUMENTS)}
    for path in archive.namelist():
        if path.startswith(E_INVOICE_FOLDER):
            reference = path.rpartition("/")[2].removesuffix(".xml")
            yield from _sum_differences(archive, path, documents.get(reference))


def _sum_differences(
    archive: zipfile.ZipFile, path: str, wanted: EInvoiceTotals | None
) -> Iterator[str]:
    if wanted is None:
        yield f"{path} is of no document of the bundle."
        return
    try:
        read = read_totals(archive.read(path))
    except _UNREADABLE as error:
        yield f"{path} cannot be read: {error}."
        return
    for name in (field.name for field in fields(EInvoiceTotals)):
        if getattr(read, name) != getattr(wanted, name):
            yield f"{path}: {name} is {getattr(read, name)}, not {getattr(wanted, name)}."


def _totals(row: Mapping[str, str]) -> EInvoiceTotals:
    net, tax, gross = (Decimal(row[name]) for name in ("total", "tax_total", "payable"))
    return EInvoiceTotals(row["document"], row["currency"], net, tax, gross)


def _facts(archive: zipfile.ZipFile) -> BundleFacts:
    """Return what can be read; what cannot differs from the manifest, which is said before."""
    documents: dict[str, DocumentFacts] = {}
    with suppress(*_UNREADABLE):
        documents = _documents(archive)
    charges: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    with suppress(*_UNREADABLE), archive.open(CHARGES) as entry:
        for line in entry:
            charge = json.loads(line)
            count, seconds = charges[charge["organization"]]
            charges[charge["organization"]] = count + 1, seconds + charge["unit_seconds"]
    return BundleFacts(documents, dict(charges))


def _documents(archive: zipfile.ZipFile) -> dict[str, DocumentFacts]:
    lines = _sums(archive, LINES, by="document", amount="amount")
    costs = _sums(archive, COSTS, by="InvoiceId", amount="BilledCost")
    earned = _earned(archive) if JOURNAL in archive.namelist() else None
    texts = _text_digests(archive)
    return {
        row["document"]: DocumentFacts(
            currency=row["currency"],
            total=Decimal(row["total"]),
            tax_total=Decimal(row["tax_total"]),
            payable=Decimal(row["payable"]),
            lines=lines[row["document"]],
            costs=costs[row["document"]],
            earned=None if earned is None else earned[row["document"]],
            sha256=texts.get(row["document"], ""),
            pdf_sha256=_file_digest(archive, f"{PDF_FOLDER}{row['document']}.pdf"),
            cii_sha256=_file_digest(archive, f"{E_INVOICE_FOLDER}cii/{row['document']}.xml"),
            ubl_sha256=_file_digest(archive, f"{E_INVOICE_FOLDER}ubl/{row['document']}.xml"),
        )
        for row in rows_of(archive, DOCUMENTS)
    }


def _sums(
    archive: zipfile.ZipFile, path: str, *, by: str, amount: str
) -> defaultdict[str, Decimal]:
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in rows_of(archive, path):
        sums[row[by]] = EXACT.add(sums[row[by]], Decimal(row[amount]))
    return sums


def _earned(archive: zipfile.ZipFile) -> defaultdict[str, Decimal]:
    """Return what the journal has on revenue and taxes, by document."""
    earned: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in rows_of(archive, JOURNAL):
        if row["account"] in {"revenue", "tax_payable"}:
            earned[row["document"]] += Decimal(row["credit"] or 0) - Decimal(row["debit"] or 0)
    return earned


def _text_digests(archive: zipfile.ZipFile) -> dict[str, str]:
    with archive.open(DOCUMENT_TEXTS) as entry:
        return {
            json.loads(line)["reference"]: hashlib.sha256(line.rstrip(b"\n")).hexdigest()
            for line in entry
        }


def _file_digest(archive: zipfile.ZipFile, path: str) -> str:
    with suppress(KeyError, zipfile.BadZipFile), archive.open(path) as file:
        return hashlib.sha256(file.read()).hexdigest()
    return ""


def _sheet(path: str, blocks: Iterable[bytes]) -> Sheet:
    """Return a table of CSV as a sheet that reads it row by row."""
    rows = csv.reader(lines_of(blocks))
    columns = next(rows)
    name = path.rpartition(".")[0].capitalize()
    records = (dict(zip(columns, map(read_text, row), strict=True)) for row in rows)
    return Sheet(name, columns, records, NUMBERS & {*columns})
