"""Links sent by mail: to set a password, and to confirm a new address.

The requester never sees the link. A link to set a password is Django's own: it ends when it is
used, at the next sign-in, and after `PASSWORD_RESET_TIMEOUT`.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.urls import reverse

from tenants.adapters.mail import (
    public_link,
    send_link,
    send_set_password,
    shown_end,
)
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.identity.account_changes import ChangeKind
from tenants.domain.identity.refusals import LinkInvalidError
from tenants.models import AccountChange
from tenants.services.identity.people import note_password_link

_ADDRESS_SALT: Final = "tenants.address"


def send_password_link(person: User, *, actor: Actor, at: datetime) -> bool:
    """Send a person a link to set a password, once this is committed.

    Returns:
        False when the person has no address, or got a link just now.
    """
    if not note_password_link(user=person, actor=actor, at=at):
        return False
    transaction.on_commit(lambda: send_set_password(person))
    return True


def send_address_link(change: AccountChange) -> None:
    """Ask the owner of the old address to confirm the new one, once this is committed."""
    if change.kind != ChangeKind.EMAIL.value or not change.email:
        return
    owner = [str(change.subject_id), change.subject.get_username()]
    signed = signing.dumps([str(change.pk), change.email, *owner], salt=_ADDRESS_SALT)
    transaction.on_commit(
        lambda: send_link(
            address=change.email,
            subject="Confirm another mail address",
            text=f"{change.requested_by.get_username()} asks to change the mail address of the "
            f"account {change.username} from {change.email} to {change.value}. If that is right, "
            f"confirm it with this link, or another platform admin approves it. "
            f"{shown_end(change.expires_at)} The account's password, sessions and API tokens end "
            "then, and a link to set a password goes to the new address.",
            link=public_link(reverse("address_confirm", args=(signed,))),
            unexpected="leave the link alone and write to your platform admins at once.",
        )
    )


def read_address_link(signed: str) -> tuple[UUID, str, Actor]:
    """Return the change that a link confirms, the address it was sent to, and the person.

    Use and expiry are checked on the change.

    Raises:
        LinkInvalidError: The signature is not valid.
    """
    try:
        change_id, email, pk, name = signing.loads(signed, salt=_ADDRESS_SALT)
    except signing.BadSignature as error:
        raise LinkInvalidError("This link is not valid.", field="link") from error
    return UUID(change_id), str(email), Actor(kind=ActorKind.PERSON, id=pk, label=name)
