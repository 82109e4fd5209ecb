"""A month of documents as one bundle, whose tables are of one snapshot of the database."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final
from uuid import UUID

from billing.domain.documents.document import utc_text
from billing.domain.exports.blocks import Blocks
from billing.domain.exports.bundle import (
    ANNEX_FOLDER,
    CHARGES,
    DOCUMENT_TEXTS,
    DOCUMENTS,
    E_INVOICE_FOLDER,
    JOURNAL,
    LINES,
    MANIFEST,
    PDF_FOLDER,
    WORKBOOK,
    BundleFile,
    BundleMakers,
    Tally,
    manifest_of,
)
from billing.domain.exports.focus import NEWEST, FocusDataset, FocusFile, FocusFormat
from billing.domain.period import Month
from billing.models import Invoice
from billing.models.invoice import FileKind
from billing.selectors.documents.line_charges import usage_annex
from billing.selectors.exports.focus import FocusScope, stream_focus
from billing.selectors.exports.months import snapshot
from billing.selectors.exports.tables import (
    document_texts,
    in_parts,
    month_documents,
    month_table,
    slugs_of,
    stored_files,
)
from billing.services.finalizing import file_of
from tenants.selectors.report_database import ReportDatabase

_TABLES: Final = (DOCUMENTS, LINES)


def stream_month(  # noqa: PLR0913 - All are keyword only.
    *,
    month: Month,
    scope: FocusScope,
    annexed: Collection[UUID],
    with_journal: bool,
    makers: BundleMakers,
    database: ReportDatabase,
    at: datetime,
) -> Blocks:
    """Yield the bundle of a month in blocks; memory does not grow with it.

    Its tables are of one snapshot. PDFs follow after it: a final document and its charges never
    change, and a document without a PDF gets it as by a look at the document.

    Args:
        month: The billing month.
        scope: Of which organizations.
        annexed: Those of them whose invoices come with their usage annex.
        with_journal: Whether the caller may read the journal.
        makers: What makes the files.
        database: Of its tables; documents are read from the primary, which keeps their PDFs.
        at: When.
    """
    facts = {
        "month": month.label,
        "created_at": utc_text(at),
        "as_of": utc_text(database.as_of),
        "organizations": slugs_of(list(scope.organization_ids)),
    }
    tables = (*_TABLES, JOURNAL) if with_journal else _TABLES
    documents: list[tuple[UUID, str]] = []
    in_tables = _table_files(month, scope, documents, tables=tables, makers=makers, at=at)
    files = chain(
        ((path, database.stream(blocks)) for path, blocks in database.stream(in_tables)),
        _document_files(documents, makers=makers, at=at),
        _annexes(documents, annexed, makers=makers),
    )
    return makers.archive(_with_manifest(files, facts), at)


def _with_manifest(
    files: Iterator[tuple[str, Blocks]], facts: Mapping[str, Any]
) -> Iterator[tuple[str, Blocks]]:
    passed: list[BundleFile] = []
    for path, blocks in files:
        tally = Tally(path)
        yield path, tally.through(blocks)
        passed.append(tally.file())
    manifest = json.dumps(manifest_of(passed, **facts), indent=2, ensure_ascii=False)
    yield MANIFEST, iter([f"{manifest}\n".encode()])


def _table_files(
    month: Month,
    scope: FocusScope,
    documents: list[tuple[UUID, str]],
    *,
    tables: Sequence[str],
    makers: BundleMakers,
    at: datetime,
) -> Iterator[tuple[str, Blocks]]:
    """Yield the tables of one snapshot, and fill in the documents that are in it."""
    ids = list(scope.organization_ids)
    with snapshot():
        documents += month_documents(month, ids)
        for path in (*tables, CHARGES):
            yield path, month_table(path, month, ids)
        yield DOCUMENT_TEXTS, document_texts([key for key, _ in documents])
        yield (
            WORKBOOK,
            makers.workbook(((path, month_table(path, month, ids)) for path in tables), at),
        )
        for dataset in FocusDataset:
            file = FocusFile(dataset, NEWEST, month, FocusFormat.CSV)
            yield f"focus/{dataset}.csv", stream_focus(file, scope, encode=makers.encode)


def _document_files(
    documents: Sequence[tuple[UUID, str]], *, makers: BundleMakers, at: datetime
) -> Iterator[tuple[str, Blocks]]:
    for part in in_parts(documents):
        ids = [key for key, _ in part]
        stored = stored_files(ids, FileKind.PDF)
        for key, reference in part:
            yield f"{PDF_FOLDER}{reference}.pdf", iter([stored.get(key) or _made(key, makers, at)])
        for kind in (FileKind.CII, FileKind.UBL):
            frozen = stored_files(ids, kind)
            for key, reference in part:
                if key in frozen:
                    yield f"{E_INVOICE_FOLDER}{kind}/{reference}.xml", iter([frozen[key]])


def _annexes(
    documents: Sequence[tuple[UUID, str]], annexed: Collection[UUID], *, makers: BundleMakers
) -> Iterator[tuple[str, Blocks]]:
    for part in in_parts(documents if annexed else ()):
        rows = Invoice.objects.filter(
            pk__in=[key for key, _ in part], organization__in=annexed, corrects=None
        )
        invoices = rows.in_bulk()
        for key, reference in part:
            if key in invoices:
                content = makers.annex(usage_annex(invoices[key], is_on=True))
                yield f"{ANNEX_FOLDER}{reference}.pdf", iter([content])


def _made(document_id: UUID, makers: BundleMakers, at: datetime) -> bytes:
    """Return the PDF of a document that has none yet, which is stored."""
    document = Invoice.objects.get(pk=document_id)
    return file_of(document, kind=FileKind.PDF, render=makers.render, at=at)
