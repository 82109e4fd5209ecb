"""Writing limits: set, and taken away; see `changes` for what both have in common with grants."""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from quotas.domain.errors import QuotaLimitGrantedError, QuotaScopeError
from quotas.domain.limits.input import KEEP, Keep, LimitTerms, refuse_problems, size_problems
from quotas.domain.limits.selectors import model_group_problems
from quotas.models import QuotaLimit
from quotas.selectors.limits.limits import grants_from, unknown_group_problems
from quotas.services.limits.changes import (
    find_limit,
    lock_counters,
    lock_holders,
    make_key,
    record_limit,
    require_limit_version,
    units_label,
    wake_enforcement,
    write_limit,
)
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.models import Cluster, Organization, Project

WRITE: Final = "quotas:limit:write"


def require_write(limit: QuotaLimit, *, actor: Actor) -> None:
    """Raise if an actor may not write a limit.

    Raises:
        ForbiddenError: The actor lacks the role. An organization's limit needs a platform role, so
            that a tenant cannot raise its own ceiling; every limit below needs a role over the
            organization.
    """
    if limit.project_id is None:
        require_capability(actor, WRITE)
    else:
        require_capability(
            actor, WRITE, organization_id=limit.organization_id, project_id=limit.project_id
        )


@transaction.atomic
def set_limit(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    scope: str,
    organization: Organization,
    project: Project | None = None,
    user: User | None = None,
    size: str,
    model_group: str = "",
    cluster: Cluster | None = None,
    limit_units: int | None,
    burst_units: int | Keep = KEEP,
    overcommit_percent: int | Keep = KEEP,
    monthly_unit_hours: int | Keep | None = KEEP,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaLimit:
    """Set how many units of a size may be held at once. Setting what already holds is nothing.

    Args:
        scope: "organization", "project" or "user".
        organization: Organization of the tree.
        project: The project, for a project's or a user's limit.
        user: The user, for a user's limit, which holds inside the project.
        size: "small", "medium" or "large".
        model_group: Such as "H100"; "" for every model.
        cluster: None for every cluster.
        limit_units: Zero means that none may be held, None that any number may.
        burst_units: What preemptible pods may hold beyond.
        overcommit_percent: How much of it may be promised to the level below, together.
        monthly_unit_hours: What may be used in a UTC month; None for any number.
        expected_version: The version the caller read, `NOT_SET` to make a new one; None when it
            does not matter.
        actor: The account that sets it. An organization's own limit is the platform's to set.
        at: When, UTC.

    Raises:
        QuotaScopeError: The scope does not fit what is named.
        QuotaInputError: Something can never be a limit; every problem is reported.
        ForbiddenError: The actor may not write this limit.
        ProjectClosedError: The project is closed.
        QuotaLimitExistsError: It was to be new, and is not.
        StaleVersionError: The limit was changed in the meantime.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is reported.
    """
    key = make_key(
        organization=organization,
        project=project,
        user=user,
        size=size,
        model_group=model_group,
        cluster=cluster,
    )
    _refuse_other_scope(key, scope=scope)
    terms = LimitTerms(limit_units, burst_units, overcommit_percent, monthly_unit_hours)
    refuse_problems((*size_problems(size), *model_group_problems(model_group), *terms.problems()))
    require_write(key, actor=actor)
    _refuse_unknown_group(key)
    lock_holders([key])
    return write_limit(
        key, terms, blame="limit_units", expected_version=expected_version, actor=actor, at=at
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
        QuotaLimitGrantedError: It has grants in force or to come.
    """
    limit = QuotaLimit.objects.filter(pk=limit_id).first()
    if limit is None:
        raise NotFoundError("There is no such quota limit.")
    require_write(limit, actor=actor)
    lock_holders([limit])
    current = find_limit(limit)
    if current is None:
        raise NotFoundError("There is no such quota limit.")
    require_limit_version(current, expected_version)
    _refuse_granted(current, at=at)
    lock_counters(organization_id=limit.organization_id)
    record_limit("remove", current, before=units_label(current), actor=actor, at=at)
    current.delete()
    wake_enforcement()


def _refuse_other_scope(key: QuotaLimit, *, scope: str) -> None:
    if scope != key.scope or (key.user is not None and key.project is None):
        raise QuotaScopeError(
            f"A limit of scope {scope} does not fit what is named.", field="scope"
        )
    if key.project is not None and key.project.organization_id != key.organization_id:
        raise QuotaScopeError("The project belongs to another organization.", field="project")


def _refuse_unknown_group(key: QuotaLimit) -> None:
    """Refuse a new limit that would bind nothing; one that is there may still be changed."""
    problems = unknown_group_problems(key.model_group)
    if problems and find_limit(key) is None:
        refuse_problems(problems)


def _refuse_granted(limit: QuotaLimit, *, at: datetime) -> None:
    count = grants_from(at).filter(limit=limit).count()
    if count:
        raise QuotaLimitGrantedError(
            f"The limit has {count} grants in force or to come.", facts={"grants": count}
        )
