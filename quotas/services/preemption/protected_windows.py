"""Protected windows: times in which nothing of a tenant is preempted."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from quotas.domain.errors import PreemptionInputError, ProtectedWindowClosedError
from quotas.domain.preemption.states import ProtectionState, window_state
from quotas.models import ProtectedWindow
from quotas.services.limits.changes import refuse_stale
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem, NotFoundError
from tenants.models import Organization, Project
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record

WRITE: Final = "quotas:preemption:write"
LENGTH_MAX: Final = timedelta(days=31)
"""Longer protection is a higher priority class."""
REASON_LENGTH_MAX: Final = 200


@transaction.atomic
def open_window(  # noqa: PLR0913 - A window has this many columns; all are keyword only.
    *,
    organization: Organization,
    project: Project | None = None,
    valid_from: datetime,
    valid_until: datetime,
    reason: str,
    actor: Actor,
    at: datetime,
) -> ProtectedWindow:
    """Protect an organization, or one of its projects, from preemption for a time.

    Args:
        organization: Organization of the workloads.
        project: None for the whole organization.
        valid_from: From when, UTC.
        valid_until: Up to when, UTC; at most 31 days later.
        reason: Shown in plans that spare them.
        actor: The account that protects.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not protect.
        PreemptionInputError: Times or texts that are not valid; every problem is reported.
    """
    require_capability(actor, WRITE, organization_id=organization.pk)
    problems = _problems(
        organization, project, begin_at=valid_from, end_at=valid_until, reason=reason, at=at
    )
    if problems:
        raise PreemptionInputError(
            f"That cannot be a protected window: {problems[0].field} is wrong.",
            field=problems[0].field,
            problems=problems,
        )
    window = ProtectedWindow.objects.create(
        organization=organization,
        project=project,
        valid=DateTimeTZRange(valid_from, valid_until),
        reason=reason.strip(),
        created_by=actor.label,
        created_at=at,
    )
    _record(window, "open", actor=actor, at=at)
    return window


@transaction.atomic
def close_window(
    *, window_id: UUID, expected_version: int | None = None, actor: Actor, at: datetime
) -> ProtectedWindow:
    """End a protected window now; one that has not begun is cancelled, and keeps its times.

    Args:
        window_id: Which one.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The account that ends it.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such window.
        ForbiddenError: The actor may not protect.
        StaleVersionError: It was changed in the meantime.
        ProtectedWindowClosedError: It has ended, or was cancelled.
    """
    rows = lock_rows(ProtectedWindow.objects.filter(pk=window_id))
    if not rows:
        raise NotFoundError("There is no such protected window.")
    (window,) = rows
    require_capability(actor, WRITE, organization_id=window.organization_id)
    refuse_stale("window", version=window.version, expected_version=expected_version)
    state = window_state(window.valid.lower, window.valid.upper, window.cancelled_at, at=at)
    if state is ProtectionState.CANCELLED:
        raise ProtectedWindowClosedError("The protected window was cancelled before it began.")
    if state is ProtectionState.OVER:
        raise ProtectedWindowClosedError("The protected window has ended.")
    if window.valid.lower < at:
        window.valid = DateTimeTZRange(window.valid.lower, at)
    else:
        window.cancelled_at = at
    window.version += 1
    window.save(update_fields=["valid", "cancelled_at", "version"])
    _record(window, "close", actor=actor, at=at)
    return window


def _problems(
    organization: Organization,
    project: Project | None,
    *,
    begin_at: datetime,
    end_at: datetime,
    reason: str,
    at: datetime,
) -> tuple[FieldProblem, ...]:
    checks = (
        (
            project is not None and project.organization_id != organization.pk,
            FieldProblem(
                "project", "unknown", "Name a project of the organization, or leave it out."
            ),
        ),
        (
            end_at <= max(begin_at, at),
            FieldProblem(
                "valid_until", "too_early", "Name a time after valid_from that is still to come."
            ),
        ),
        (
            end_at - begin_at > LENGTH_MAX,
            FieldProblem(
                "valid_until", "too_late", "Name a time at most 31 days after valid_from."
            ),
        ),
        (
            not 1 <= len(reason.strip()) <= REASON_LENGTH_MAX or not reason.isprintable(),
            FieldProblem("reason", "invalid", "Say why in 1 to 200 printable characters."),
        ),
    )
    return tuple(problem for is_wrong, problem in checks if is_wrong)


def _record(window: ProtectedWindow, verb: str, *, actor: Actor, at: datetime) -> None:
    valid = window.valid
    record(
        actor=actor,
        at=at,
        action=f"quotas:protected_window:{verb}",
        object_kind="protected_window",
        object_id=window.pk,
        organization_id=window.organization_id,
        facts={
            "project_id": None if window.project_id is None else str(window.project_id),
            "reason": window.reason,
            "from": None if valid.lower is None else valid.lower.isoformat(),
            "until": None if valid.upper is None else valid.upper.isoformat(),
            "cancelled_at": (
                None if window.cancelled_at is None else window.cancelled_at.isoformat()
            ),
        },
    )
