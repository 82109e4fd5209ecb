"""Runs of scheduled exports: opened when due, their files made once, then delivered one by one.

A run is leased by its fence. Its files are made in one transaction, of one snapshot, and kept in
the database: whichever worker goes on delivers the same bytes under the same names.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, transaction
from django.db.models import QuerySet

from billing.access import access_billed
from billing.domain.exports.schedules import (
    BUNDLE,
    CLOSE_WAIT,
    LEASE,
    OPEN_STATES,
    ExportRunState,
    due_months,
    wait_after,
)
from billing.domain.period import Month
from billing.models import ExportFile, ExportRun, ExportSchedule, Invoice
from billing.models.invoice import FileKind
from billing.protocols import ExportDestination, OutgoingFile
from billing.selectors.exports.runs import (
    active_schedules,
    chunks_of,
    documents_without_pdf,
    open_periods,
    undelivered_files,
)
from billing.services.exports.staging import StagingTools, stage_run
from billing.services.finalizing import file_of
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.domain.identity.roles import Role
from tenants.services.audit import record
from tenants.services.notifications.outbox import notify
from tenants.services.turns import report_crash

FAILED_EVENT = "billing:export:failed"
NOTE_LENGTH_MAX = 300

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LeasedRun:
    """A run that a worker has leased.

    Attributes:
        fence: Of this lease.
    """

    run_id: UUID
    fence: int


@dataclass(frozen=True)
class ExportWorker:
    """What a worker makes files with, and where it delivers them.

    Attributes:
        destinations: By target.
        has_time: Whether another step may begin.
        clock: The time, UTC: a step may take hours.
    """

    tools: StagingTools
    destinations: Mapping[str, ExportDestination]
    has_time: Callable[[], bool]
    clock: Callable[[], datetime]
    actor: Actor


def open_due_runs(*, actor: Actor, at: datetime) -> int:
    """Open the runs of active schedules that became due; return how many."""
    due = [
        ExportRun(
            schedule=schedule,
            month=month.label,
            next_at=at,
            requested_by=actor.label,
            created_at=at,
        )
        for schedule in active_schedules()
        for month in due_months(
            day=schedule.day, hour=schedule.hour, since=schedule.created_at, at=at
        )
    ]
    with transaction.atomic():
        known = set(
            ExportRun.objects.filter(schedule__in=[run.schedule_id for run in due]).values_list(
                "schedule_id", "month"
            )
        )
        new = [run for run in due if (run.schedule_id, run.month) not in known]
        ExportRun.objects.bulk_create(new, ignore_conflicts=True)
        if new:
            record(
                actor=actor,
                at=at,
                action="billing:export_run:open",
                object_kind="export_run",
                object_id="",
                facts={"runs": [f"{run.schedule.slug} {run.month}" for run in new]},
            )
    return len(new)


@transaction.atomic
def lease_run(*, actor: Actor, at: datetime) -> LeasedRun | None:
    """Lease the run that is due longest; other workers skip it.

    Args:
        actor: A system actor.
        at: When, UTC.
    """
    row = (
        ExportRun.objects.filter(
            state__in=OPEN_STATES,
            next_at__lte=at,
        )
        .order_by("next_at", "pk")
        .select_for_update(of=("self",), skip_locked=True, no_key=True)
        .first()
    )
    if row is None:
        return None
    row.fence, row.next_at = row.fence + 1, at + LEASE
    row.save(update_fields=["fence", "next_at"])
    log.info("billing.export.leased", run=str(row.pk), by=actor.label)
    return LeasedRun(row.pk, row.fence)


def renew_lease(lease: LeasedRun, *, at: datetime) -> bool:
    """Lease a run for longer while a step takes its time; return whether the lease is still ours.

    A run whose files are being made is locked, which keeps other workers away too.

    Args:
        lease: By `lease_run`.
        at: When, UTC.
    """
    with transaction.atomic():
        ours = _ours(lease)
        if not ours.select_for_update(of=("self",), skip_locked=True, no_key=True).first():
            return False
        return ours.update(next_at=at + LEASE) > 0


def advance_run(leased: LeasedRun, *, worker: ExportWorker) -> bool:
    """Make and deliver the files of a leased run, as far as time allows; whether it is done.

    A failure waits for its next attempt; the last one is reported to finance.

    Args:
        leased: By `lease_run`, after its transaction.
        worker: What it works with.
    """
    run = ExportRun.objects.select_related("schedule__organization").get(pk=leased.run_id)
    try:
        return _advance(run, leased, worker=worker)
    except SourceUnavailableError as error:
        _fail(leased, str(error), reason=error.reason, worker=worker)
    except OperationalError as error:
        text = f"The database was busy: {type(error).__name__}."
        _fail(leased, text, reason="busy", worker=worker)
    except SoftTimeLimitExceeded:
        text = "It took longer than a task may."
        _fail(leased, text, reason="time_exceeded", worker=worker)
        raise
    except Exception as error:  # noqa: BLE001 - A mistake in one run must stop no other.
        report_crash(error, event="billing.export.crashed", key=leased.run_id, at=worker.clock())
        _fail(leased, type(error).__name__, reason="unexpected", worker=worker)
    return False


def _advance(run: ExportRun, leased: LeasedRun, *, worker: ExportWorker) -> bool:
    if run.state == ExportRunState.PENDING.value:
        if not _is_ready(run, leased, worker=worker, at=worker.clock()):
            return False
        stage_run(
            run, fence=leased.fence, tools=worker.tools, actor=worker.actor, at=worker.clock()
        )
        _mark(leased, next_at=worker.clock() + LEASE)
    for file in undelivered_files(run.pk):
        if not worker.has_time():
            _mark(leased, next_at=worker.clock())
            return False
        _deliver(file, run.schedule, leased, worker=worker)
    return _finish(run, leased, actor=worker.actor, at=worker.clock())


def _is_ready(run: ExportRun, leased: LeasedRun, *, worker: ExportWorker, at: datetime) -> bool:
    """Whether the files can be made: its months are closed, and each document has its PDF."""
    slug = run.schedule.organization.slug if run.schedule.organization else ""
    month = Month.parse(run.month)
    organizations = access_billed(worker.actor, slug)
    if run.schedule.waits_for_close and (left := open_periods(month, organizations)):
        note = f"It waits: {left} billing period{'s' if left > 1 else ''} of {run.month} to close."
        _mark(leased, next_at=at + CLOSE_WAIT, note=note, reason="")
        return False
    if BUNDLE not in run.schedule.contents:
        return True
    for document_id in documents_without_pdf(month, organizations):
        if not worker.has_time():
            _mark(leased, next_at=at)
            return False
        document = Invoice.objects.get(pk=document_id)
        file_of(document, kind=FileKind.PDF, render=worker.tools.makers.render, at=at)
    return True


def _deliver(
    file: ExportFile,
    schedule: ExportSchedule,
    leased: LeasedRun,
    *,
    worker: ExportWorker,
) -> None:
    destination = worker.destinations.get(schedule.target)
    if destination is None:
        raise SourceUnavailableError(
            f"This installation has no {schedule.target}.", reason=f"{schedule.target}_missing"
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / file.name
        _write_content(file, path)
        destination.deliver(
            OutgoingFile(
                file_id=file.pk,
                run_id=leased.run_id,
                schedule=schedule.slug,
                month=file.run.month,
                name=file.name,
                content_type=file.content_type,
                size=file.size,
                sha256=file.sha256,
                path=path,
                address=schedule.address,
                secret_reference=schedule.secret_reference,
                host_key=schedule.host_key,
                occurred_at=file.run.created_at,
            )
        )
    at = worker.clock()
    with transaction.atomic():
        if _mark(leased, attempts=0, note="", reason="", next_at=at + LEASE):
            ExportFile.objects.filter(pk=file.pk).update(delivered_at=at)
    log.info("billing.export.delivered", file=str(file.pk), run=str(leased.run_id))


def _write_content(file: ExportFile, path: Path) -> None:
    digest = hashlib.sha256()
    with path.open("wb") as target:
        for chunk in chunks_of(file):
            digest.update(chunk)
            target.write(chunk)
    if digest.hexdigest() != file.sha256:
        raise ValueError("the stored content of a file is not what was made")


def _finish(run: ExportRun, leased: LeasedRun, *, actor: Actor, at: datetime) -> bool:
    with transaction.atomic():
        is_ours = _mark(leased, state=ExportRunState.DONE.value, finished_at=at)
        if is_ours:
            _record(run, "finish", {}, actor=actor, at=at)
    return is_ours


def _fail(leased: LeasedRun, text: str, *, reason: str, worker: ExportWorker) -> None:
    at = worker.clock()
    run = ExportRun.objects.select_related("schedule").get(pk=leased.run_id)
    attempts = run.attempts + 1
    wait = wait_after(attempts)
    note, code = text[:NOTE_LENGTH_MAX], reason[:40]
    if wait is not None:
        _mark(leased, attempts=attempts, next_at=at + wait, note=note, reason=code)
        log.warning("billing.export.postponed", run=str(run.pk), reason=code, attempts=attempts)
        return
    with transaction.atomic():
        if not _mark(
            leased,
            state=ExportRunState.FAILED.value,
            attempts=attempts,
            finished_at=at,
            note=note,
            reason=code,
        ):
            return
        run.note, run.reason = note, code
        _record(run, "fail", {"reason": code}, actor=worker.actor, at=at)
        _report(run, at=at)
    log.error("billing.export.failed", run=str(run.pk), reason=code, attempts=attempts)


def _report(run: ExportRun, *, at: datetime) -> None:
    notify(
        event=FAILED_EVENT,
        organization_id=None,
        subject=f"Export {run} was not delivered",
        text="\n".join(
            [
                f"{run.note}",
                f"What to do: {run.remedy}" if run.remedy else "The log of the worker has more.",
                "",
                "Then try the run again on its page. What was delivered already is not sent twice.",
            ]
        ),
        facts={
            "run": str(run.pk),
            "schedule": run.schedule.slug,
            "month": run.month,
            "reason": run.reason,
        },
        roles=[Role.FINANCE_ADMIN],
        at=at,
    )


def _mark(leased: LeasedRun, **fields: object) -> bool:
    """Write to a run if the lease is still ours; return whether it is."""
    return _ours(leased).update(**fields) > 0


def _ours(leased: LeasedRun) -> QuerySet[ExportRun]:
    return ExportRun.objects.filter(pk=leased.run_id, fence=leased.fence, state__in=OPEN_STATES)


def _record(
    run: ExportRun, verb: str, facts: Mapping[str, object], *, actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:export_run:{verb}",
        object_kind="export_run",
        object_id=run.pk,
        organization_id=run.schedule.organization_id,
        facts={"schedule": run.schedule.slug, "month": run.month, "number": run.number, **facts},
    )
