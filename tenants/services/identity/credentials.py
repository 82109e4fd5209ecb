"""Ending all that a person signs in with; a worker sends the link that begins anew."""

from datetime import datetime
from typing import Final

from django.contrib.auth.models import User

from tenants.domain.actors import Actor
from tenants.models import ApiToken, KnownNetwork, PasswordLinkRequest, PersonSession
from tenants.services.audit import record
from tenants.services.wakeups import wake_after_commit

LINKS_TASK: Final = "tenants.tick_password_links"


def end_credentials(*, person: User, left_address: str = "", actor: Actor, at: datetime) -> None:
    """End the password, sessions, links and tokens of a locked person, inside a transaction.

    Used when address or roles change: earlier credentials must not get the new rights. A link to
    set a password goes to the present address.

    Args:
        person: Locked, and saved except for the password.
        left_address: The address before, which gets a mail; "" when it is the same.
        actor: The caller.
        at: When, UTC.
    """
    person.set_unusable_password()
    person.save(update_fields=["password"])
    revoked = revoke_tokens(person, at=at)
    PersonSession.objects.filter(user=person).delete()
    KnownNetwork.objects.filter(user=person).delete()
    PasswordLinkRequest.objects.create(
        person=person, email=person.email, left_address=left_address, asked_at=at
    )
    wake_after_commit(LINKS_TASK)
    record(
        actor=actor,
        at=at,
        action="tenants:user:end_credentials",
        object_kind="user",
        object_id=person.pk,
        facts={"username": person.get_username(), "tokens_revoked": revoked},
    )


def revoke_tokens(person: User, *, at: datetime) -> int:
    """Revoke every token of a locked person; return how many."""
    return ApiToken.objects.filter(user=person, revoked_at=None).update(revoked_at=at)
