"""Batches of the journal for a general ledger: numbered without gaps, each entry in one."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Max

from billing.domain.ledger.batches import BatchFacts, ExportedEntry, ExportedPosting
from billing.domain.ledger.errors import NothingToExportError
from billing.domain.period import Month
from billing.models import BatchedEntry, JournalBatch, JournalEntry
from billing.protocols import JournalLayout
from billing.selectors.locks import lock_accounting_months
from tenants.domain.actors import Actor
from tenants.services.audit import record

ENTRIES_MAX: Final = 50_000
"""Of one batch: some 20 MB of text; another batch takes the rest."""


def export_batch(*, month: str, layout: JournalLayout, actor: Actor, at: datetime) -> JournalBatch:
    """Return a new batch of the entries of a month that are in none.

    The file is stored: fetched again, it has the same bytes. It waits for postings under way, so
    that no entry is dated before one that was exported and seen by nothing.

    Args:
        month: Of the posting dates, such as "2026-10"; a later batch has what is posted later.
        layout: How the general ledger wants it.
        actor: The account that exports.
        at: When.

    Raises:
        PeriodLabelInvalidError: The label names no month.
        NothingToExportError: Every entry of the month is in a batch.
    """
    of = Month.parse(month)
    with transaction.atomic():
        lock_accounting_months()
        entries = _entries(of)
        if not entries:
            raise NothingToExportError("Every entry of the month is in a batch.", field="month")
        number = (JournalBatch.objects.aggregate(last=Max("number"))["last"] or 0) + 1
        content = layout.render(BatchFacts(number, of, at), [_exported(one) for one in entries])
        batch = JournalBatch.objects.create(
            number=number,
            month=month,
            layout=layout.name,
            entries=len(entries),
            content=content,
            content_sha256=hashlib.sha256(content.encode()).hexdigest(),
            created_by=actor.label,
            created_at=at,
        )
        BatchedEntry.objects.bulk_create(
            [BatchedEntry(entry=entry, batch=batch) for entry in entries]
        )
        record(
            actor=actor,
            at=at,
            action="billing:journal_batch:export",
            object_kind="journal_batch",
            object_id=batch.pk,
            facts={
                "number": number,
                "month": month,
                "layout": layout.name,
                "entries": len(entries),
                "content_sha256": batch.content_sha256,
            },
        )
    return batch


def _entries(month: Month) -> Sequence[JournalEntry]:
    rows = JournalEntry.objects.filter(
        posting_on__year=month.year, posting_on__month=month.month, batched=None
    )
    ordered = rows.order_by("posting_on", "posted_at", "source_key")[:ENTRIES_MAX]
    return list(ordered.select_related("organization").prefetch_related("postings__account"))


def _exported(entry: JournalEntry) -> ExportedEntry:
    postings = sorted(entry.postings.all(), key=lambda posting: posting.account.number)
    return ExportedEntry(
        id=str(entry.pk),
        event=entry.event,
        organization=entry.organization.slug if entry.organization else "",
        currency=entry.currency,
        document_on=entry.document_on,
        posting_on=entry.posting_on,
        reason=entry.reason,
        postings=tuple(
            ExportedPosting(posting.account.number, posting.account.name, posting.amount)
            for posting in postings
        ),
    )
