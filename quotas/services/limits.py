"""Writing limits: set, and taken away, always so that the tree of limits holds."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.errors import (
    QuotaHierarchyBrokenError,
    QuotaLimitExistsError,
)
from quotas.domain.hierarchy import LimitTree, find_violations
from quotas.domain.limit_input import refuse_problems, size_problems, units_problems
from quotas.models import QuotaLimit
from quotas.selectors.limits import limit_tree
from quotas.selectors.locks import lock_limit_path
from quotas.services.holders import Holder, holder_of, require_write
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.refusals import ProjectClosedError, StaleVersionError
from tenants.models import Organization, Project
from tenants.models.organization import LifecycleState
from tenants.services.audit import record

NOT_SET = 0
"""The version of a limit that does not exist yet."""


@transaction.atomic
def set_limit(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    scope: str,
    organization: Organization,
    project: Project | None = None,
    user: User | None = None,
    size: str,
    limit_units: int,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaLimit:
    """Set how many units of a size may be held at once. Setting what already holds is nothing.

    Args:
        scope: "organization", "project" or "user".
        organization: Whose tree it is.
        project: The project, for a project's or a user's limit.
        user: The user, for a user's limit, which holds inside the project.
        size: "small", "medium" or "large".
        limit_units: Zero means that none may be held.
        expected_version: The version the caller saw, `NOT_SET` to make a new one; None when it
            does not matter.
        actor: Who sets it. An organization's own limit is the platform's to set.
        at: When, UTC.

    Raises:
        QuotaScopeError: The scope does not fit what is named.
        QuotaInputError: The size or the units can never be a limit; every problem is told.
        ForbiddenError: The actor may not write this limit.
        ProjectClosedError: The project is closed.
        QuotaLimitExistsError: It was to be new, and is not.
        StaleVersionError: The limit was changed in the meantime.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is told.
    """
    holder = holder_of(scope=scope, organization=organization, project=project, user=user)
    refuse_problems((*size_problems(size), *units_problems(limit_units, field="limit_units")))
    require_write(holder=holder, actor=actor)
    return write_limit(
        holder=holder,
        size=GPUSize(size),
        limit_units=limit_units,
        blame="limit_units",
        expected_version=expected_version,
        actor=actor,
        at=at,
    )


@transaction.atomic
def remove_limit(
    *, limit_id: UUID, expected_version: int | None = None, actor: Actor, at: datetime
) -> None:
    """Take a limit away: the level above decides again. This can never break the tree.

    Raises:
        NotFoundError: There is no such limit.
        ForbiddenError: The actor may not write it.
        StaleVersionError: It was changed in the meantime.
    """
    limit = (
        QuotaLimit.objects.select_related("organization", "project", "user")
        .filter(pk=limit_id)
        .first()
    )
    if limit is None:
        raise NotFoundError("There is no such quota limit.")
    holder = Holder(limit.organization, limit.project, limit.user)
    require_write(holder=holder, actor=actor)
    _lock(holder)
    current = _find(holder, GPUSize(limit.size))
    if current is None:
        raise NotFoundError("There is no such quota limit.")
    _require_version(current, expected_version)
    current.delete()
    _record("remove", holder, current, actor=actor, at=at, before=current.limit_units, pk=limit_id)


def write_limit(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    holder: Holder,
    size: GPUSize,
    limit_units: int,
    blame: str,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaLimit:
    """Set a limit inside a transaction, for a caller who has settled that the actor may.

    Args:
        holder: Whom it binds.
        size: Of which size.
        limit_units: A valid number of units.
        blame: The input field to name when the tree would not hold.
        expected_version: The version the caller saw; None when it does not matter.
        actor: Who sets it.
        at: When, UTC.

    Raises:
        ProjectClosedError: The project is closed.
        StaleVersionError: The limit was changed in the meantime.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is told.
    """
    _lock(holder)
    _require_open(holder)
    current = _find(holder, size)
    _require_version(current, expected_version)
    if current is not None and current.limit_units == limit_units:
        return current
    _refuse_violations(holder, size=size, limit_units=limit_units, blame=blame)
    before = None if current is None else current.limit_units
    limit = current or _new_limit(holder, size=size, at=at)
    limit.limit_units = limit_units
    limit.changed_at = at
    if current is not None:
        limit.generation += 1
        limit.version += 1
    limit.save()
    _record("set", holder, limit, actor=actor, at=at, before=before, pk=limit.pk)
    return limit


def _lock(holder: Holder) -> None:
    lock_limit_path(
        organization_id=holder.organization.pk,
        project_id=holder.project_id,
        user_id=None if holder.user is None else holder.user.pk,
    )


def _require_open(holder: Holder) -> None:
    if holder.project is None:
        return
    if Project.objects.filter(pk=holder.project.pk, state=LifecycleState.CLOSED).exists():
        raise ProjectClosedError(f"{holder.project.name} is closed.", field="project")


def _find(holder: Holder, size: GPUSize) -> QuotaLimit | None:
    return QuotaLimit.objects.filter(
        organization=holder.organization, project=holder.project, user=holder.user, size=size
    ).first()


def _require_version(limit: QuotaLimit | None, expected_version: int | None) -> None:
    version = 0 if limit is None else limit.version
    if limit is not None and expected_version == NOT_SET:
        raise QuotaLimitExistsError(
            f"The limit is set to {limit.limit_units}.",
            facts={"limit_id": str(limit.pk), "limit_units": limit.limit_units},
        )
    if expected_version is not None and version != expected_version:
        raise StaleVersionError(
            f"The quota limit was changed: it is at version {version}, not {expected_version}.",
            facts={"version": version, "expected_version": expected_version},
        )


def _refuse_violations(holder: Holder, *, size: GPUSize, limit_units: int, blame: str) -> None:
    tree = limit_tree(organization_id=holder.organization.pk, size=size)
    problems = find_violations(_with_limit(tree, holder, limit_units), blame=blame)
    if problems:
        raise QuotaHierarchyBrokenError(problems[0].message, field=blame, problems=problems)


def _with_limit(tree: LimitTree, holder: Holder, limit_units: int) -> LimitTree:
    """Return the tree as it would be with one limit set."""
    if holder.project is None:
        return replace(tree, organization_units=limit_units)
    slug = holder.project.slug
    if holder.user is None:
        return replace(tree, project_units={**tree.project_units, slug: limit_units})
    key = (slug, holder.user.username)
    return replace(tree, user_units={**tree.user_units, key: limit_units})


def _new_limit(holder: Holder, *, size: GPUSize, at: datetime) -> QuotaLimit:
    return QuotaLimit(
        scope=holder.scope,
        organization=holder.organization,
        project=holder.project,
        user=holder.user,
        size=size.value,
        created_at=at,
    )


def _record(  # noqa: PLR0913 - What the entry tells; all but the first three are keyword only.
    verb: str,
    holder: Holder,
    limit: QuotaLimit,
    *,
    actor: Actor,
    at: datetime,
    before: int | None,
    pk: UUID,
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"quotas:limit:{verb}",
        object_kind="quota_limit",
        object_id=pk,
        organization_id=holder.organization.pk,
        facts={
            "scope": limit.scope,
            "project": None if holder.project is None else holder.project.slug,
            "user_id": None if holder.user is None else holder.user.pk,
            "size": limit.size,
            "before_units": before,
            "after_units": limit.limit_units if verb == "set" else None,
            "generation": limit.generation,
        },
    )
