"""Writing isolation policies: set, changed, and taken away."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from quotas.domain.errors import IsolationPolicyExistsError, QuotaScopeError
from quotas.domain.isolation.policy import ServingMode
from quotas.models import IsolationPolicy
from quotas.services.limits.changes import refuse_stale
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem, NotFoundError
from tenants.models import Organization, Project
from tenants.selectors.locks import lock_rows
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record

WRITE: Final = "quotas:isolation:write"
EDITABLE: Final = ("modes", "allow_shared_with_other_tenants", "default_kind")


@transaction.atomic
def set_isolation_policy(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    organization: Organization,
    project: Project | None = None,
    work_kind: str = "",
    modes: Sequence[str],
    allow_shared_with_other_tenants: bool = False,
    default_kind: str = "",
    actor: Actor,
    at: datetime,
) -> IsolationPolicy:
    """Set which device modes may serve an organization or project, for a kind of work or any.

    Args:
        organization: Its organization.
        project: None for all its projects.
        work_kind: "training", "development", "inference", or "" for any.
        modes: Allowed modes; with none, no GPU pod is admitted.
        allow_shared_with_other_tenants: Whether its pods may share a device with pods of other
            organizations.
        default_kind: What pods without the label are for; "" leaves it to what is wider.
        actor: The account that sets it.
        at: When, UTC.

    Raises:
        QuotaScopeError: The project is another organization's.
        ForbiddenError: The actor may not write it.
        InvalidInputError: Fields are wrong; every problem is reported.
        IsolationPolicyExistsError: There is one for that already.
    """
    if project is not None and project.organization_id != organization.pk:
        raise QuotaScopeError("The project belongs to another organization.", field="project")
    policy = IsolationPolicy(
        organization=organization,
        project=project,
        work_kind=work_kind,
        modes=_sorted(modes),
        allow_shared_with_other_tenants=allow_shared_with_other_tenants,
        default_kind=default_kind,
        created_at=at,
        changed_at=at,
    )
    _require_write(policy, actor=actor)
    refuse_invalid(policy, further=_problems(policy))
    lock_rows(Organization.objects.filter(pk=organization.pk))
    if IsolationPolicy.objects.filter(
        organization=organization, project=project, work_kind=work_kind
    ).exists():
        raise IsolationPolicyExistsError(f"There is a policy for {policy}.", field="work_kind")
    policy.save(force_insert=True)
    _record("set", policy, actor=actor, at=at, facts=_facts(policy))
    return policy


@transaction.atomic
def change_isolation_policy(
    *,
    policy_id: UUID,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> IsolationPolicy:
    """Change what a policy allows. A change to what already holds is nothing.

    Args:
        policy_id: Which one.
        changes: New values by field, of `EDITABLE`.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The account that changes it.
        at: When, UTC.

    Raises:
        ValueError: A field is not editable.
        NotFoundError: There is no such policy.
        ForbiddenError: The actor may not write it.
        StaleVersionError: It was changed in the meantime.
        InvalidInputError: Fields are wrong; every problem is reported.
    """
    if not set(changes) <= set(EDITABLE):
        raise ValueError("A field is not editable.")
    policy = _lock(policy_id, expected_version=expected_version, actor=actor)
    before = _facts(policy)
    for name, value in changes.items():
        setattr(policy, name, _sorted(value) if name == "modes" else value)
    refuse_invalid(policy, further=_problems(policy))
    after = _facts(policy)
    changed = {
        name: [before[name], after[name]] for name in EDITABLE if before[name] != after[name]
    }
    if not changed:
        return policy
    policy.version += 1
    policy.changed_at = at
    policy.save(update_fields=[*changed, "version", "changed_at"])
    _record("change", policy, actor=actor, at=at, facts={"changed": changed})
    return policy


@transaction.atomic
def remove_isolation_policy(
    *, policy_id: UUID, expected_version: int | None = None, actor: Actor, at: datetime
) -> None:
    """Take a policy away: what is wider, or the default of the kind, holds again.

    Raises:
        NotFoundError: There is no such policy.
        ForbiddenError: The actor may not write it.
        StaleVersionError: It was changed in the meantime.
    """
    policy = _lock(policy_id, expected_version=expected_version, actor=actor)
    _record("remove", policy, actor=actor, at=at, facts=_facts(policy))
    policy.delete()


def _lock(policy_id: UUID, *, expected_version: int | None, actor: Actor) -> IsolationPolicy:
    rows = IsolationPolicy.objects.select_related("organization", "project")
    locked = lock_rows(rows.filter(pk=policy_id))
    if not locked:
        raise NotFoundError("There is no such isolation policy.")
    (policy,) = locked
    _require_write(policy, actor=actor)
    refuse_stale("isolation policy", version=policy.version, expected_version=expected_version)
    return policy


def _require_write(policy: IsolationPolicy, *, actor: Actor) -> None:
    require_capability(
        actor, WRITE, organization_id=policy.organization_id, project_id=policy.project_id
    )


def _problems(policy: IsolationPolicy) -> tuple[FieldProblem, ...]:
    if policy.work_kind and policy.default_kind:
        message = "Only a policy for any kind of work has a default kind."
        return (FieldProblem("default_kind", "not_for_any_kind", message),)
    return ()


def _sorted(modes: Sequence[str]) -> list[str]:
    """Return each mode once, known ones from the strictest to the loosest, unknown ones last."""
    order = [mode.value for mode in ServingMode]
    return sorted(set(modes), key=lambda mode: (order.index(mode) if mode in order else 99, mode))


def _facts(policy: IsolationPolicy) -> dict[str, Any]:
    return {
        "project": None if policy.project is None else policy.project.slug,
        "work_kind": policy.work_kind,
        "modes": list(policy.modes),
        "allow_shared_with_other_tenants": policy.allow_shared_with_other_tenants,
        "default_kind": policy.default_kind,
    }


def _record(
    verb: str, policy: IsolationPolicy, *, actor: Actor, at: datetime, facts: Mapping[str, Any]
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"quotas:isolation:{verb}",
        object_kind="isolation_policy",
        object_id=policy.pk,
        organization_id=policy.organization_id,
        facts=facts,
    )
