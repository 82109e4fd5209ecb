"""Suspending and resuming: a tenant that may start nothing new; what runs keeps running."""

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction

from quotas.domain.errors import QuotaScopeError
from quotas.domain.limits.input import justification_problems, refuse_problems
from quotas.models import QuotaSuspension
from quotas.selectors.locks import lock_limit_path
from quotas.services.limits.changes import lock_counters, refuse_stale, wake_enforcement
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.models import Organization, Project
from tenants.services.audit import record

WRITE: Final = "quotas:suspension:write"
_SOURCE: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}|")


@transaction.atomic
def suspend_tenant(
    *,
    organization: Organization,
    project: Project | None = None,
    reason: str,
    source: str = "",
    actor: Actor,
    at: datetime,
) -> QuotaSuspension:
    """Deny all new workloads of a tenant from now on. Suspending again changes nothing.

    Args:
        organization: The organization; all of it when no project is named.
        project: Only this one.
        reason: Shown in denials.
        source: What asks for it, such as "budget" or "arrears"; "" for a person. Each source has
            its own suspension, and the tenant starts again when all are resumed.
        actor: The account that suspends: the platform or finance, never the tenant.
        at: When, UTC.

    Raises:
        QuotaInputError: The reason is missing or cannot be kept.
        QuotaScopeError: The project is another organization's.
        ForbiddenError: The actor may not suspend.
    """
    refuse_problems(justification_problems(reason, field="reason"))
    if not _SOURCE.fullmatch(source):
        raise ValueError("A source is a short word in lower case.")
    if project is not None and project.organization_id != organization.pk:
        raise QuotaScopeError("The project belongs to another organization.", field="project")
    require_capability(actor, WRITE)
    _lock(organization.pk, project)
    known = open_suspension(organization=organization, project=project, source=source)
    if known is not None:
        return known
    suspension = QuotaSuspension.objects.create(
        organization=organization, project=project, reason=reason, source=source, begin_at=at
    )
    _record("suspend", suspension, actor=actor, at=at)
    wake_enforcement()
    return suspension


@transaction.atomic
def resume_tenant(
    *,
    organization: Organization,
    project: Project | None = None,
    source: str = "",
    actor: Actor,
    at: datetime,
) -> QuotaSuspension | None:
    """End what one source has suspended; what others have stays suspended.

    Returns:
        The suspension that ended; None where that source had suspended nothing.

    Raises:
        ForbiddenError: The actor may not resume.
    """
    require_capability(actor, WRITE)
    _lock(organization.pk, project)
    known = open_suspension(organization=organization, project=project, source=source)
    return None if known is None else _resume(known, actor=actor, at=at)


@transaction.atomic
def resume_suspension(
    *, suspension_id: UUID, expected_version: int | None = None, actor: Actor, at: datetime
) -> QuotaSuspension:
    """End one suspension. Ending it again changes nothing.

    Args:
        suspension_id: Which one.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The account that resumes: the platform or finance, never the tenant.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such suspension.
        ForbiddenError: The actor may not resume.
        StaleVersionError: It was changed in the meantime.
    """
    require_capability(actor, WRITE)
    found = QuotaSuspension.objects.select_related("project").filter(pk=suspension_id).first()
    if found is None:
        raise NotFoundError("There is no such suspension.")
    _lock(found.organization_id, found.project)
    suspension = QuotaSuspension.objects.select_related("organization", "project").get(
        pk=suspension_id
    )
    refuse_stale("suspension", version=suspension.version, expected_version=expected_version)
    if suspension.end_at is not None:
        return suspension
    return _resume(suspension, actor=actor, at=at)


def open_suspension(
    *, organization: Organization, project: Project | None, source: str
) -> QuotaSuspension | None:
    """Return what one source has suspended now; None when it has not."""
    return (
        QuotaSuspension.objects.select_related("organization", "project")
        .filter(organization=organization, project=project, source=source, end_at=None)
        .first()
    )


def _lock(organization_id: UUID, project: Project | None) -> None:
    lock_limit_path(
        organization_id=organization_id,
        project_id=None if project is None else project.pk,
        user_id=None,
    )
    lock_counters(organization_id=organization_id)


def _resume(suspension: QuotaSuspension, *, actor: Actor, at: datetime) -> QuotaSuspension:
    suspension.end_at = at
    suspension.version += 1
    suspension.save(update_fields=["end_at", "version"])
    _record("resume", suspension, actor=actor, at=at)
    wake_enforcement()
    return suspension


def _record(verb: str, suspension: QuotaSuspension, *, actor: Actor, at: datetime) -> None:
    project = suspension.project
    record(
        actor=actor,
        at=at,
        action=f"quotas:suspension:{verb}",
        object_kind="quota_suspension",
        object_id=suspension.pk,
        organization_id=suspension.organization_id,
        facts={
            "project": None if project is None else project.slug,
            "reason": suspension.reason,
            "source": suspension.source,
        },
    )
