"""Writing people: let in, kept out. Nobody is deleted: the audit trail names them."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor
from tenants.models import ApiToken
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record
from tenants.services.memberships import refuse_last_platform_admin


@transaction.atomic
def deactivate_user(*, user: User, actor: Actor, at: datetime) -> User:
    """Keep a person out: no sign-in, and every API token revoked. Twice changes nothing.

    Raises:
        LastPlatformAdminError: Nobody active would be platform admin.
    """
    refuse_last_platform_admin(leaving=user.pk, actor=actor)
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    if not person.is_active:
        return person
    person.is_active = False
    person.save(update_fields=["is_active"])
    revoked = ApiToken.objects.filter(user=person, revoked_at=None).update(revoked_at=at)
    record(
        actor=actor,
        at=at,
        action="tenants:user:deactivate",
        object_kind="user",
        object_id=person.pk,
        facts={"username": person.get_username(), "tokens_revoked": revoked},
    )
    return person


@transaction.atomic
def activate_user(*, user: User, actor: Actor, at: datetime) -> User:
    """Let a person in again; revoked tokens stay revoked. Twice changes nothing."""
    (person,) = lock_rows(User.objects.filter(pk=user.pk))
    if person.is_active:
        return person
    person.is_active = True
    person.save(update_fields=["is_active"])
    record(
        actor=actor,
        at=at,
        action="tenants:user:activate",
        object_kind="user",
        object_id=person.pk,
        facts={"username": person.get_username()},
    )
    return person


@transaction.atomic
def note_user_saved(
    *, user: User, verb: str, fields: list[str], actor: Actor, at: datetime
) -> None:
    """Leave the audit entry of a person who was made or changed through a form.

    Args:
        user: Who.
        verb: "create" or "update".
        fields: Names of what was filled in; never the values, one of them is the password.
        actor: Who did it.
        at: When, UTC.
    """
    record(
        actor=actor,
        at=at,
        action=f"tenants:user:{verb}",
        object_kind="user",
        object_id=user.pk,
        facts={"username": user.get_username(), "fields": sorted(fields)},
    )
