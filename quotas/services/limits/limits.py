"""Writing limits: set, and taken away, always so that the tree of limits holds."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import (
    QuotaHierarchyBrokenError,
    QuotaLimitExistsError,
    QuotaLimitGrantedError,
)
from quotas.domain.limits.hierarchy import added_violations, find_violations
from quotas.domain.limits.input import refuse_problems, size_problems
from quotas.domain.limits.selectors import model_group_problems
from quotas.domain.limits.terms import KEEP, Keep, LimitTerms
from quotas.domain.limits.tree import LimitKey, TreeLimit
from quotas.models import QuotaLimit
from quotas.selectors.limits.limits import (
    grants_from,
    key_of,
    limit_tree,
    tree_limit_of,
    unknown_group_problems,
)
from quotas.services.enforcement.wakeups import wake_enforcement
from quotas.services.limits.places import (
    LimitHolder,
    LimitPlace,
    find_limit,
    holder_of,
    lock_counters,
    lock_holder,
    open_counter,
    place_of,
    require_open,
    require_write,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.refusals import StaleVersionError
from tenants.models import Cluster, Organization, Project
from tenants.services.audit import record


def refuse_violations(
    before: Mapping[LimitKey, TreeLimit],
    changed: Iterable[TreeLimit],
    *,
    blame: str,
    at: datetime,
) -> None:
    """Raise if the tree would break its rules after a change, now or later.

    Args:
        before: The tree as it is.
        changed: The changed or new limits.
        blame: The input field to name.
        at: Now, UTC.

    Raises:
        QuotaHierarchyBrokenError: Every violation is reported.
    """
    after = {**before, **{limit.key: limit for limit in changed}}
    found = added_violations(
        find_violations(before, from_at=at), find_violations(after, from_at=at)
    )
    if found:
        raise QuotaHierarchyBrokenError(found, field=blame)


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
        expected_version: The version the caller saw, `NOT_SET` to make a new one; None when it
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
    holder = holder_of(scope=scope, organization=organization, project=project, user=user)
    terms = LimitTerms(limit_units, burst_units, overcommit_percent, monthly_unit_hours)
    refuse_problems((*size_problems(size), *model_group_problems(model_group), *terms.problems()))
    require_write(holder=holder, actor=actor)
    place = LimitPlace(holder, GPUSize(size), model_group, cluster)
    _refuse_unknown_group(place)
    return _write(
        place,
        terms,
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
        QuotaLimitGrantedError: It has grants in force or to come.
    """
    limit = (
        QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
        .filter(pk=limit_id)
        .first()
    )
    if limit is None:
        raise NotFoundError("There is no such quota limit.")
    place = place_of(limit)
    require_write(holder=place.holder, actor=actor)
    lock_holder(place.holder)
    current = find_limit(place)
    if current is None:
        raise NotFoundError("There is no such quota limit.")
    _require_version(current, expected_version)
    _refuse_granted(current, at=at)
    lock_counters(organization_id=limit.organization_id)
    current.delete()
    _record("remove", place, current, actor=actor, at=at, before=limit_units(current), pk=limit_id)
    wake_enforcement()


def write_limit(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    holder: LimitHolder,
    size: GPUSize,
    model_group: str = "",
    cluster: Cluster | None = None,
    limit_units: int | None,
    burst_units: int | Keep = KEEP,
    blame: str,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaLimit:
    """Set a limit inside a transaction; the caller has checked permission.

    Args:
        holder: The holder it binds.
        size: Of which size.
        model_group: Of which GPU model; "" for every one.
        cluster: On which cluster; None for every one.
        limit_units: A valid number of units; None is unlimited.
        burst_units: What preemptible pods may hold beyond; kept when not said.
        blame: The input field to name when the tree would not hold.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The account that sets it.
        at: When, UTC.

    Raises:
        ProjectClosedError: The project is closed.
        StaleVersionError: The limit was changed in the meantime.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is reported.
    """
    return _write(
        LimitPlace(holder, size, model_group, cluster),
        LimitTerms(limit_units, burst_units),
        blame=blame,
        expected_version=expected_version,
        actor=actor,
        at=at,
    )


def _write(
    place: LimitPlace,
    terms: LimitTerms,
    *,
    blame: str,
    expected_version: int | None,
    actor: Actor,
    at: datetime,
) -> QuotaLimit:
    lock_holder(place.holder)
    require_open(place.holder)
    current = find_limit(place)
    _require_version(current, expected_version)
    if current is not None and _says(current, terms):
        return current
    before = None if current is None else limit_units(current)
    limit = current or QuotaLimit(scope=place.holder.scope, created_at=at, **place.columns())
    for column, value in terms.said().items():
        setattr(limit, column, value)
    _refuse_violations(limit, blame=blame, at=at)
    limit.changed_at = at
    if current is not None:
        limit.generation += 1
        limit.version += 1
    lock_counters(organization_id=limit.organization_id)
    limit.save()
    if current is None:
        open_counter(limit=limit, at=at)
    _record("set", place, limit, actor=actor, at=at, before=before, pk=limit.pk)
    wake_enforcement()
    return limit


def _refuse_unknown_group(place: LimitPlace) -> None:
    """Refuse a new limit that would bind nothing; one that is there may still be changed."""
    problems = unknown_group_problems(place.model_group)
    if problems and find_limit(place) is None:
        refuse_problems(problems)


def _require_version(limit: QuotaLimit | None, expected_version: int | None) -> None:
    version = 0 if limit is None else limit.version
    if limit is not None and expected_version == NOT_SET:
        raise QuotaLimitExistsError(
            f"The limit is set to {limit_units(limit)}.",
            facts={"limit_id": str(limit.pk), "limit_units": limit.limit_units},
        )
    if expected_version is not None and version != expected_version:
        raise StaleVersionError(
            f"The quota limit was changed: it is at version {version}, not {expected_version}.",
            facts={"version": version, "expected_version": expected_version},
        )


def _refuse_granted(limit: QuotaLimit, *, at: datetime) -> None:
    count = grants_from(at).filter(limit=limit).count()
    if count:
        raise QuotaLimitGrantedError(
            f"The limit has {count} grants in force or to come.", facts={"grants": count}
        )


def _says(limit: QuotaLimit, terms: LimitTerms) -> bool:
    return all(getattr(limit, column) == value for column, value in terms.said().items())


def _refuse_violations(limit: QuotaLimit, *, blame: str, at: datetime) -> None:
    tree = limit_tree(organization_id=limit.organization_id, sizes=[GPUSize(limit.size)], at=at)
    known = tree.get(key_of(limit))
    changed = tree_limit_of(limit, grants=() if known is None else known.grants)
    refuse_violations(tree, [changed], blame=blame, at=at)


def limit_units(limit: QuotaLimit) -> int | str:
    """Return a limit's units for a sentence or an audit entry."""
    return "unlimited" if limit.limit_units is None else limit.limit_units


def _record(  # noqa: PLR0913 - The fields of the entry; all but the first three are keyword only.
    verb: str,
    place: LimitPlace,
    limit: QuotaLimit,
    *,
    actor: Actor,
    at: datetime,
    before: int | str | None,
    pk: UUID,
) -> None:
    holder = place.holder
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
            "model_group": limit.model_group,
            "cluster": None if place.cluster is None else place.cluster.slug,
            "before_units": before,
            "after_units": limit_units(limit) if verb == "set" else None,
            "burst_units": limit.burst_units,
            "overcommit_percent": limit.overcommit_percent,
            "monthly_unit_hours": limit.monthly_unit_hours,
            "generation": limit.generation,
        },
    )
