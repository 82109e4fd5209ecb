"""Write schedules of exports, ask for a run now, and try a failed run again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Max

from billing.access.exports import WRITE_EXPORT
from billing.domain.exports.errors import (
    ExportRunNotFailedError,
    ExportScheduleClosedError,
    ExportScheduleKnownError,
)
from billing.domain.exports.schedules import (
    ExportRunState,
    content_problems,
    secret_problems,
    target_problems,
    time_problems,
)
from billing.domain.period import Month
from billing.models import ExportRun, ExportSchedule
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.models import Organization
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import (
    add_row,
    change_row,
    close_row,
    lock_version,
    require_editable,
)

EDITABLE: Final = ("contents", "day", "hour", "waits_for_close")


@transaction.atomic
def create_schedule(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    slug: str,
    organization: Organization | None,
    contents: Sequence[str],
    target: str,
    address: str,
    secret_reference: str = "",
    host_key: str = "",
    day: int,
    hour: int,
    waits_for_close: bool = True,
    clear_text_hosts: Sequence[str] = (),
    actor: Actor,
    at: datetime,
) -> ExportSchedule:
    """Deliver each month from now on, on a day of the month after it.

    Args:
        slug: What it is called.
        organization: Whose months; None for all organizations.
        contents: Of `CONTENTS`.
        target: Of `ExportTarget`.
        address: A mail address, or the URL of a bucket, folder or webhook.
        secret_reference: `env:EXPORT_SECRET_<NAME>`; "" for mail.
        host_key: The public key of an SFTP server.
        day: 1 to 28.
        hour: In UTC.
        waits_for_close: Whether a run waits until every billing period of the month is closed.
        clear_text_hosts: Hosts that may be called over http.
        actor: The caller.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not write exports of the platform.
        InvalidInputError: Fields are wrong; every problem is listed.
        ExportScheduleKnownError: The slug is taken.
    """
    require_capability(actor, WRITE_EXPORT)
    schedule = ExportSchedule(
        slug=slug,
        organization=organization,
        contents=list(contents),
        target=target,
        address=address,
        secret_reference=secret_reference,
        host_key=host_key.strip(),
        day=day,
        hour=hour,
        waits_for_close=waits_for_close,
        created_at=at,
    )
    refuse_invalid(
        schedule,
        further=(
            *content_problems(contents, is_of_all=organization is None),
            *time_problems(day=day, hour=hour),
            *target_problems(target, address, clear_text_hosts=clear_text_hosts),
            *secret_problems(target, reference=secret_reference, host_key=schedule.host_key),
        ),
    )
    add_row(
        row=schedule,
        refusals={
            "billing_exportschedule_slug_key": ExportScheduleKnownError(
                "There is a schedule of this name.", field="slug"
            )
        },
        actor=actor,
        at=at,
        organization_id=schedule.organization_id,
        facts={
            "slug": slug,
            "contents": list(contents),
            "target": target,
            "address": schedule.shown_address,
            "day": day,
            "hour": hour,
        },
    )
    return schedule


@transaction.atomic
def change_schedule(
    *,
    schedule: ExportSchedule,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> ExportSchedule:
    """Change what is delivered and when; for another address make a new schedule.

    Raises:
        ForbiddenError: The actor may not write exports of the platform.
        ValueError: A field is not editable.
        StaleVersionError: It was changed in the meantime.
        ExportScheduleClosedError: It is closed.
        InvalidInputError: A value cannot be used; every problem is listed.
    """
    require_editable(changes, EDITABLE)
    row = _locked(schedule, expected_version=expected_version, actor=actor)
    new = {name: changes.get(name, getattr(row, name)) for name in EDITABLE}
    return change_row(
        row=row,
        changes=changes,
        verb="update",
        actor=actor,
        at=at,
        organization_id=row.organization_id,
        problems=(
            *content_problems(new["contents"], is_of_all=row.organization_id is None),
            *time_problems(day=new["day"], hour=new["hour"]),
        ),
    )


@transaction.atomic
def close_schedule(
    *,
    schedule: ExportSchedule,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> ExportSchedule:
    """End a schedule; runs that are under way are still delivered. Idempotent.

    Raises:
        ForbiddenError: The actor may not write exports of the platform.
        StaleVersionError: It was changed in the meantime.
    """
    require_capability(actor, WRITE_EXPORT)
    row = lock_version(schedule, expected_version=expected_version, actor=actor)
    return close_row(row=row, actor=actor, at=at, organization_id=row.organization_id)


@transaction.atomic
def request_run(*, schedule: ExportSchedule, month: str, actor: Actor, at: datetime) -> ExportRun:
    """Export a month now, also one that was exported before: its files get names of their own.

    Args:
        schedule: An active one.
        month: Such as "2026-10".
        actor: The caller.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not write exports of the platform.
        PeriodLabelInvalidError: The month is none.
        ExportScheduleClosedError: It is closed.
    """
    label = Month.parse(month, field="month").label
    row = _locked(schedule, expected_version=None, actor=actor)
    last = row.runs.filter(month=label).aggregate(last=Max("number"))["last"]
    run = ExportRun.objects.create(
        schedule=row,
        month=label,
        number=(last or 0) + 1,
        next_at=at,
        requested_by=actor.label,
        created_at=at,
    )
    _record(run, "request", actor=actor, at=at)
    return run


@transaction.atomic
def retry_run(*, run: ExportRun, actor: Actor, at: datetime) -> ExportRun:
    """Try a failed run again: what was delivered stays, the rest follows under its names.

    Args:
        run: A failed one.
        actor: The caller.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not write exports of the platform.
        ExportRunNotFailedError: It has not failed, or its files were deleted.
    """
    require_capability(actor, WRITE_EXPORT)
    (row,) = lock_rows(ExportRun.objects.filter(pk=run.pk))
    if row.state != ExportRunState.FAILED.value or row.purged_at is not None:
        raise ExportRunNotFailedError("The run has not failed, or its files were deleted.")
    is_staged = row.staged_at is not None
    row.state = (ExportRunState.DELIVERING if is_staged else ExportRunState.PENDING).value
    row.attempts, row.next_at, row.finished_at = 0, at, None
    row.save(update_fields=["state", "attempts", "next_at", "finished_at"])
    _record(row, "retry", actor=actor, at=at)
    return row


def _locked(
    schedule: ExportSchedule, *, expected_version: int | None, actor: Actor
) -> ExportSchedule:
    require_capability(actor, WRITE_EXPORT)
    row = lock_version(schedule, expected_version=expected_version, actor=actor)
    if row.state != LifecycleState.ACTIVE:
        raise ExportScheduleClosedError("This schedule is closed.")
    return row


def _record(run: ExportRun, verb: str, *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:export_run:{verb}",
        object_kind="export_run",
        object_id=run.pk,
        organization_id=run.schedule.organization_id,
        facts={"schedule": run.schedule.slug, "month": run.month, "number": run.number},
    )
