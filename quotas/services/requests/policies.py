"""Write request policies; needs a platform role, since policies name the deciders."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from quotas.domain.errors import RequestPolicyExistsError
from quotas.domain.limits.input import refuse_problems
from quotas.domain.requests.input import policy_problems
from quotas.models import RequestPolicy
from quotas.services.limits.limits import WRITE
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.models import Organization
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record
from tenants.services.changing import require_version

DEFAULTS: Final[Mapping[str, Any]] = {
    "currency": "",
    "steps": [{"level": "organization_admin"}],
    "automatic_units": {},
    "automatic_cost": None,
    "escalate_after_hours": None,
    "expire_after_days": 30,
    "remind_days": 7,
}
"""Every column that can be set, with its default."""


@transaction.atomic
def make_policy(
    *, organization: Organization | None, fields: Mapping[str, Any], actor: Actor, at: datetime
) -> RequestPolicy:
    """Make the policy of an organization, or of all that have none.

    Args:
        organization: None for all others.
        fields: Of `DEFAULTS`; a missing field gets its default.
        actor: The account that makes it: a role of the platform.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor holds no such role.
        QuotaInputError: A field is not valid; every problem is reported.
        RequestPolicyExistsError: There is one.
    """
    require_capability(actor, WRITE)
    wanted = _wanted(DEFAULTS, fields)
    policy = RequestPolicy(organization=organization, created_at=at, **wanted)
    made = RequestPolicy.objects.bulk_create([policy], ignore_conflicts=True)
    if not RequestPolicy.objects.filter(pk=made[0].pk).exists():
        raise RequestPolicyExistsError("There is a policy for this already.", field="organization")
    _record(policy, "create", actor=actor, at=at)
    return policy


@transaction.atomic
def change_policy(
    *,
    policy: RequestPolicy,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> RequestPolicy:
    """Change a policy; open requests keep their steps.

    Raises:
        ForbiddenError: The actor holds no role of the platform that allows it.
        StaleVersionError: It was changed in the meantime.
        QuotaInputError: A field is not valid; every problem is reported.
    """
    require_capability(actor, WRITE)
    (row,) = lock_rows(RequestPolicy.objects.filter(pk=policy.pk))
    require_version(row=row, expected_version=expected_version, actor=actor)
    wanted = _wanted({name: getattr(row, name) for name in DEFAULTS}, changes)
    for name, value in wanted.items():
        setattr(row, name, value)
    row.version += 1
    row.save(update_fields=[*wanted, "version"])
    _record(row, "update", actor=actor, at=at)
    return row


def _wanted(held: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    if not set(said) <= set(DEFAULTS):
        raise ValueError("A field is not editable.")
    wanted = {**held, **said}
    refuse_problems(policy_problems(wanted))
    return wanted


def _record(policy: RequestPolicy, verb: str, *, actor: Actor, at: datetime) -> None:
    cost = policy.automatic_cost
    record(
        actor=actor,
        at=at,
        action=f"quotas:request_policy:{verb}",
        object_kind="request_policy",
        object_id=policy.pk,
        organization_id=policy.organization_id,
        facts={
            **{name: getattr(policy, name) for name in DEFAULTS},
            "automatic_cost": None if cost is None else str(cost),
            "version": policy.version,
        },
    )
