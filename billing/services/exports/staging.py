"""The files of an export run: made of one snapshot, and kept in the database in one transaction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from tempfile import TemporaryFile
from typing import IO, Final

import structlog
from django.db import transaction

from billing.access import access_billed
from billing.domain.exports.blocks import Blocks
from billing.domain.exports.bundle import BundleMakers, Tally
from billing.domain.exports.focus import FocusEncoder, FocusFormat
from billing.domain.exports.schedules import ExportContent, ExportRunState, content_of
from billing.domain.period import Month
from billing.models import ExportChunk, ExportFile, ExportRun
from billing.selectors.exports.focus import FocusScope, stream_focus
from billing.selectors.exports.months import snapshot
from billing.selectors.exports.tables import month_table
from billing.services.exports.month import stream_month
from tenants.domain.actors import Actor
from tenants.selectors.report_database import ReportDatabase
from tenants.services.audit import record

CHUNK_BYTES: Final = 1024 * 1024
CHUNKS_TOGETHER: Final = 8
"""Of one statement, which are in memory together."""
PURGED_MAX: Final = 20
"""Runs of one sweep; the next one takes the rest."""
CONTENT_TYPES: Final[Mapping[str, str]] = {
    "zip": "application/zip",
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}
"""By the suffix of a file."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class StagingTools:
    """What files are made with; entry points choose it.

    Attributes:
        encoders: Of FOCUS, by format.
        issuer: The name of the site's issuer.
        with_annexes: Whether a month comes with the usage annexes of its invoices.
    """

    makers: BundleMakers
    encoders: Mapping[FocusFormat, FocusEncoder]
    issuer: str
    with_annexes: bool = False


def stage_run(
    run: ExportRun, *, fence: int, tools: StagingTools, actor: Actor, at: datetime
) -> None:
    """Make all files of a run, or none; memory does not grow with them.

    A file is put together on disk before it is stored: the connection that reads its rows cannot
    write in between.

    Args:
        run: A pending one.
        fence: Of the caller's lease.
        tools: What makes the files.
        actor: A system actor.
        at: When, UTC.
    """
    slug = run.schedule.organization.slug if run.schedule.organization else ""
    scope = FocusScope(access_billed(actor, slug), issuer=tools.issuer)
    staged = _StagedMonth(Month.parse(run.month), slug, scope, tools, at)
    with snapshot(is_read_only=False):
        pending = ExportRun.objects.filter(
            pk=run.pk, fence=fence, state=ExportRunState.PENDING.value
        )
        if pending.select_for_update(of=("self",), no_key=True).first() is None:
            return
        size = sum(
            _store(run, text, position=position, staged=staged)
            for position, text in enumerate(run.schedule.contents, 1)
        )
        pending.update(state=ExportRunState.DELIVERING.value, staged_at=at, note="", reason="")
        record(
            actor=actor,
            at=at,
            action="billing:export_run:stage",
            object_kind="export_run",
            object_id=run.pk,
            organization_id=run.schedule.organization_id,
            facts={"schedule": run.schedule.slug, "month": run.month, "size": size},
        )
    log.info("billing.export.staged", run=str(run.pk), size=size)


def purge_contents(*, kept: timedelta, actor: Actor, at: datetime) -> int:
    """Delete the content of files of runs that ended long ago; return of how many runs.

    Names, sizes and digests stay.

    Args:
        kept: After the end of a run.
        actor: A system actor.
        at: When, UTC.
    """
    with transaction.atomic():
        ended = ExportRun.objects.filter(finished_at__lte=at - kept, purged_at=None)
        runs = list(ended.order_by("finished_at").values_list("pk", flat=True)[:PURGED_MAX])
        if not runs:
            return 0
        ExportChunk.objects.filter(file__run__in=runs).delete()
        ExportRun.objects.filter(pk__in=runs).update(purged_at=at)
        record(
            actor=actor,
            at=at,
            action="billing:export_run:purge",
            object_kind="export_run",
            object_id="",
            facts={"runs": [str(run) for run in runs]},
        )
    return len(runs)


@dataclass(frozen=True)
class _StagedMonth:
    """What the files of a run are made of."""

    month: Month
    organization: str
    scope: FocusScope
    tools: StagingTools
    at: datetime


def _store(run: ExportRun, text: str, *, position: int, staged: _StagedMonth) -> int:
    """Make and store one file; return its size."""
    content = content_of(
        text, month=staged.month, organization=staged.organization, number=run.number
    )
    tally = Tally("")
    with TemporaryFile() as spool:
        for block in tally.through(_blocks(content, staged)):
            spool.write(block)
        made = tally.file()
        file = ExportFile.objects.create(
            run=run,
            position=position,
            content=text,
            name=content.file_name,
            content_type=CONTENT_TYPES[content.file_name.rpartition(".")[2]],
            size=made.size,
            sha256=made.sha256,
        )
        spool.seek(0)
        for chunks in _chunks(file, spool):
            ExportChunk.objects.bulk_create(chunks)
    return made.size


def _blocks(content: ExportContent, staged: _StagedMonth) -> Blocks:
    scope, tools = staged.scope, staged.tools
    if content.focus is not None:
        return stream_focus(content.focus, scope, encode=tools.encoders[content.focus.format])
    if content.table:
        return month_table(content.table, staged.month, list(scope.organization_ids))
    return stream_month(
        month=staged.month,
        scope=scope,
        annexed=scope.organization_ids if tools.with_annexes else (),
        with_journal=not staged.organization,
        makers=tools.makers,
        database=ReportDatabase.primary(at=staged.at),
        at=staged.at,
    )


def _chunks(file: ExportFile, spool: IO[bytes]) -> Iterator[list[ExportChunk]]:
    chunks: list[ExportChunk] = []
    for position, content in enumerate(iter(lambda: spool.read(CHUNK_BYTES), b""), 1):
        chunks.append(ExportChunk(file=file, position=position, content=content))
        if len(chunks) == CHUNKS_TOGETHER:
            yield chunks
            chunks = []
    if chunks:
        yield chunks
