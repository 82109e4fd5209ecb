"""Changes of limits and grants inside a caller's transaction: the tree of limits always holds.

Callers check permission and lock the holders first; see `lock_holders`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import (
    QuotaHierarchyBrokenError,
    QuotaLimitExistsError,
    QuotaLimitUnlimitedError,
)
from quotas.domain.limits.input import KEEP, LimitTerms
from quotas.domain.limits.tree import (
    GrantSpan,
    LimitKey,
    TreeLimit,
    added_violations,
    find_violations,
)
from quotas.models import GrantReason, LimitScope, QuotaCounter, QuotaGrant, QuotaLimit
from quotas.selectors.limits.limits import key_of, limit_tree, tree_limit_of
from quotas.selectors.locks import lock_limit_paths
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.refusals import ProjectClosedError, StaleVersionError
from tenants.models import Cluster, Organization, Project
from tenants.models.organization import LifecycleState
from tenants.services.audit import record
from tenants.services.wakeups import wake_after_commit

ENFORCEMENT: Final = "quotas.tick_enforcement"
NOT_SET: Final = 0
"""The version of a limit that does not exist yet."""


def make_key(
    *,
    organization: Organization,
    project: Project | None = None,
    user: User | None = None,
    size: str,
    model_group: str = "",
    cluster: Cluster | None = None,
) -> QuotaLimit:
    """Return an unsaved limit of a holder and a selector, whether or not one is set there."""
    scope = LimitScope.ORGANIZATION if project is None else LimitScope.PROJECT
    return QuotaLimit(
        scope=scope if user is None else LimitScope.USER,
        organization=organization,
        project=project,
        user=user,
        size=size,
        model_group=model_group,
        cluster=cluster,
    )


def find_limit(key: QuotaLimit) -> QuotaLimit | None:
    """Return the limit that is set there; None when it is not."""
    rows = QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
    return rows.filter(
        organization=key.organization_id,
        project=key.project_id,
        user=key.user_id,
        size=key.size,
        model_group=key.model_group,
        cluster=key.cluster_id,
    ).first()


def find_limits(limit_ids: Collection[UUID]) -> dict[UUID, QuotaLimit]:
    """Return limits by primary key.

    Raises:
        NotFoundError: One is not there.
    """
    rows = QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
    found = {row.pk: row for row in rows.filter(pk__in=limit_ids)}
    if len(found) != len(set(limit_ids)):
        raise NotFoundError("There is no such quota limit.", field="limit")
    return found


def lock_holders(limits: Collection[QuotaLimit]) -> None:
    """Lock the holders of limits of one organization, and those above, until the transaction ends.

    Raises:
        ValueError: They are not of one organization.
    """
    lock_limit_paths(
        organization_id=_organization_of(limits),
        project_ids=[row.project_id for row in limits if row.project_id is not None],
        user_ids=[row.user_id for row in limits if row.user_id is not None],
    )


def write_limit(
    key: QuotaLimit,
    terms: LimitTerms,
    *,
    blame: str,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaLimit:
    """Set a limit whose holder is locked. Setting what already holds changes nothing.

    Args:
        key: As `make_key` returns it; it becomes the new limit where none is set.
        terms: Valid ones.
        blame: The input field to name when the tree would not hold.
        expected_version: The version the caller read; None when it does not matter.
        actor: The account.
        at: When, UTC.

    Raises:
        ProjectClosedError: The project is closed.
        QuotaLimitExistsError: It was to be new, and is not.
        StaleVersionError: The limit was changed in the meantime.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is reported.
    """
    _require_open(key)
    current = find_limit(key)
    require_limit_version(current, expected_version)
    stated = {name: value for name, value in vars(terms).items() if value is not KEEP}
    if current is not None and all(getattr(current, name) == stated[name] for name in stated):
        return current
    before = None if current is None else units_label(current)
    limit = current or key
    for column, value in stated.items():
        setattr(limit, column, value)
    tree = tree_around([limit], at=at)
    known = tree.get(key_of(limit))
    changed = tree_limit_of(limit, grants=() if known is None else known.grants)
    refuse_violations(tree, [changed], blame=blame, at=at)
    limit.changed_at = at
    if current is None:
        limit.created_at = at
    else:
        limit.generation += 1
        limit.version += 1
    lock_counters(organization_id=limit.organization_id)
    limit.save()
    if current is None:
        open_counter(limit=limit, at=at)
    record_limit("set", limit, before=before, actor=actor, at=at)
    wake_enforcement()
    return limit


@dataclass(frozen=True)
class GrantDraft:
    """A grant that is to be made.

    Attributes:
        limit_id: On top of which limit.
        units: Below zero takes units away.
        begin_at: UTC; None is now.
        end_at: UTC; None is until it is ended.
        reference: Id of the request or loan it comes from.
    """

    limit_id: UUID
    units: int
    begin_at: datetime | None = None
    end_at: datetime | None = None
    reason: GrantReason = GrantReason.MANUAL
    reference: str = ""
    note: str = ""


def grant_together(
    *, drafts: Sequence[GrantDraft], blame: str = "units", actor: Actor, at: datetime
) -> tuple[QuotaGrant, ...]:
    """Make a grant for each draft, or none; the holders of the limits are locked.

    The tree is checked once, with all of them: a loan lowers one limit and raises another, and
    neither is valid alone.

    Args:
        drafts: At least one, with valid units, times and notes; of limits of one organization.
        blame: The input field to name when the tree would not hold.
        actor: The account that grants.
        at: When, UTC.

    Raises:
        NotFoundError: A limit is not there.
        ProjectClosedError: A project is closed.
        QuotaLimitUnlimitedError: A limit is unlimited.
        QuotaHierarchyBrokenError: The tree would break its rules at some instant; every
            violation is reported.
    """
    limits = find_limits([draft.limit_id for draft in drafts])
    for limit in limits.values():
        _require_open(limit)
        if limit.limit_units is None:
            raise QuotaLimitUnlimitedError("The limit is unlimited.", field="limit")
    tree = tree_around(limits.values(), at=at)
    changed = dict(tree)
    for draft in drafts:
        key = key_of(limits[draft.limit_id])
        span = GrantSpan(draft.units, begin_at=draft.begin_at or at, end_at=draft.end_at)
        changed[key] = changed[key].with_grants(span)
    refuse_violations(tree, changed.values(), blame=blame, at=at)
    lock_counters(organization_id=limits[drafts[0].limit_id].organization_id)
    grants = tuple(_make(limits[draft.limit_id], draft, actor=actor, at=at) for draft in drafts)
    wake_enforcement()
    return grants


def _make(limit: QuotaLimit, draft: GrantDraft, *, actor: Actor, at: datetime) -> QuotaGrant:
    grant = QuotaGrant.objects.create(
        limit=limit,
        organization=limit.organization,
        project=limit.project,
        units=draft.units,
        valid=DateTimeTZRange(draft.begin_at or at, draft.end_at),
        reason=draft.reason,
        reference=draft.reference,
        note=draft.note,
        created_at=at,
    )
    record_grant("make", grant, actor=actor, at=at)
    return grant


def tree_around(limits: Collection[QuotaLimit], *, at: datetime) -> dict[LimitKey, TreeLimit]:
    """Return the tree of the one organization of some limits, of their sizes."""
    sizes = {GPUSize(limit.size) for limit in limits}
    return limit_tree(organization_id=_organization_of(limits), sizes=sizes, at=at)


def _organization_of(limits: Iterable[QuotaLimit]) -> UUID:
    organizations = {limit.organization_id for limit in limits}
    if len(organizations) != 1:
        raise ValueError("Change the limits of one organization at a time.")
    return organizations.pop()


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
        at: UTC.

    Raises:
        QuotaHierarchyBrokenError: Every violation is reported.
    """
    after = {**before, **{limit.key: limit for limit in changed}}
    found = added_violations(
        find_violations(before, from_at=at), find_violations(after, from_at=at)
    )
    if found:
        raise QuotaHierarchyBrokenError(found, field=blame)


def require_limit_version(limit: QuotaLimit | None, expected_version: int | None) -> None:
    """Refuse a change of a limit made from an older version of it.

    Raises:
        QuotaLimitExistsError: It was to be new, and is not.
        StaleVersionError: It was changed in the meantime.
    """
    if limit is not None and expected_version == NOT_SET:
        raise QuotaLimitExistsError(
            f"The limit is set to {units_label(limit)}.",
            facts={"limit_id": str(limit.pk), "limit_units": limit.limit_units},
        )
    version = NOT_SET if limit is None else limit.version
    refuse_stale("quota limit", version=version, expected_version=expected_version)


def refuse_stale(noun: str, *, version: int, expected_version: int | None) -> None:
    """Refuse a change made from an older version of a row.

    Raises:
        StaleVersionError: It has another version now.
    """
    if expected_version is not None and version != expected_version:
        raise StaleVersionError(
            f"The {noun} was changed: it is at version {version}, not {expected_version}.",
            facts={"version": version, "expected_version": expected_version},
        )


def _require_open(limit: QuotaLimit) -> None:
    project = limit.project
    if project is None:
        return
    if Project.objects.filter(pk=project.pk, state=LifecycleState.CLOSED).exists():
        raise ProjectClosedError(f"{project.name} is closed.", field="project")


def units_label(limit: QuotaLimit) -> int | str:
    """Return a limit's units for a sentence or an audit entry."""
    return "unlimited" if limit.limit_units is None else limit.limit_units


def record_limit(
    verb: str, limit: QuotaLimit, *, before: int | str | None, actor: Actor, at: datetime
) -> None:
    """Leave the entry of what happened to a limit."""
    record(
        actor=actor,
        at=at,
        action=f"quotas:limit:{verb}",
        object_kind="quota_limit",
        object_id=limit.pk,
        organization_id=limit.organization_id,
        facts={
            "scope": limit.scope,
            "project": None if limit.project is None else limit.project.slug,
            "user_id": limit.user_id,
            "size": limit.size,
            "model_group": limit.model_group,
            "cluster": None if limit.cluster is None else limit.cluster.slug,
            "before_units": before,
            "after_units": units_label(limit) if verb == "set" else None,
            "burst_units": limit.burst_units,
            "overcommit_percent": limit.overcommit_percent,
            "monthly_unit_hours": limit.monthly_unit_hours,
            "generation": limit.generation,
        },
    )


def record_grant(verb: str, grant: QuotaGrant, *, actor: Actor, at: datetime) -> None:
    """Leave the entry of what happened to a grant."""
    span = grant.valid
    record(
        actor=actor,
        at=at,
        action=f"quotas:grant:{verb}",
        object_kind="quota_grant",
        object_id=grant.pk,
        organization_id=grant.organization_id,
        facts={
            "limit_id": str(grant.limit_id),
            "units": grant.units,
            "valid_from": None if span.lower is None else span.lower.isoformat(),
            "valid_until": None if span.upper is None else span.upper.isoformat(),
            "reason": grant.reason,
            "reference": grant.reference,
        },
    )


def open_counter(*, limit: QuotaLimit, at: datetime) -> QuotaCounter:
    """Open the counter of a limit with what counts against it now; an open one stays as it is.

    It leaves no audit entry: that of the limit, made in the same transaction, covers it.

    Raises:
        RuntimeError: Called outside a transaction, where the lock would end at once.
    """
    _execute("SELECT quotas_open_counters(%s)", limit.organization_id)
    counter = QuotaCounter.objects.get(pk=limit.pk)
    counter.checked_at = at
    counter.save(update_fields=["checked_at"])
    return counter


def lock_counters(*, organization_id: UUID) -> None:
    """Block admission in an organization until the transaction ends.

    Taken before a change takes effect, so that later admissions see it; and before a limit is
    deleted, whose counter is deleted with it. Raises as `open_counter`.
    """
    _execute("SELECT pg_advisory_xact_lock(quotas_lock_key(%s))", organization_id)


def _execute(statement: str, organization_id: UUID) -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("Counters are locked inside a transaction.")
    with connection.cursor() as cursor:
        cursor.execute(statement, [organization_id])


def wake_enforcement() -> None:
    """Have what changed planned and applied soon after the transaction commits."""
    wake_after_commit(ENFORCEMENT)
