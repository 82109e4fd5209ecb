"""Scheduled exports: what is active or open, and the content of files."""

from collections.abc import Collection, Iterator
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from billing.domain.exports.errors import ExportPurgedError
from billing.domain.period import Month
from billing.models import (
    BillingPeriod,
    DocumentFile,
    ExportChunk,
    ExportFile,
    ExportSchedule,
    Invoice,
    PeriodState,
)
from billing.models.invoice import FileKind
from billing.selectors.exports.tables import month_documents
from tenants.models.organization import LifecycleState


def active_schedules() -> QuerySet[ExportSchedule]:
    """Return the schedules by which months are exported."""
    return ExportSchedule.objects.filter(state=LifecycleState.ACTIVE)


def open_periods(month: Month, organization_ids: Collection[UUID]) -> int:
    """Return how many billing periods of a month are not closed."""
    rows = BillingPeriod.objects.filter(label=month.label, organization__in=organization_ids)
    return rows.exclude(state=PeriodState.CLOSED).count()


def documents_without_pdf(month: Month, organization_ids: Collection[UUID]) -> list[UUID]:
    """Return the documents in a month whose PDF has not been made yet, by number."""
    ids = [key for key, _ in month_documents(month, list(organization_ids))]
    stored = DocumentFile.objects.filter(document=OuterRef("pk"), kind=FileKind.PDF)
    rows = Invoice.objects.filter(pk__in=ids).exclude(Exists(stored))
    return list(rows.order_by("series", "number").values_list("pk", flat=True))


def undelivered_files(run_id: UUID) -> list[ExportFile]:
    """Return the files of a run that are still to be delivered, in their order."""
    rows = ExportFile.objects.filter(run=run_id, delivered_at=None).select_related("run")
    return list(rows.order_by("position"))


def chunks_of(file: ExportFile) -> Iterator[bytes]:
    """Return the content of a file, chunk by chunk, of which one is in memory.

    Raises:
        ExportPurgedError: It was deleted.
    """
    if file.run.purged_at is not None:
        raise ExportPurgedError("The content of this file was deleted.")
    return _chunks_of(file)


def _chunks_of(file: ExportFile) -> Iterator[bytes]:
    positions = ExportChunk.objects.filter(file=file).order_by("position")
    for position in positions.values_list("position", flat=True):
        chunk = ExportChunk.objects.get(file=file, position=position)
        yield bytes(chunk.content)
