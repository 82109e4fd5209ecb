"""People's sessions in the database (SESSION_ENGINE): begun, ended, and deleted afterwards."""

import time
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.identifiers import new_id
from tenants.models import PersonSession
from tenants.services.audit import record

PUBLIC_ID: Final = "public_id"
BEGAN_AT: Final = "began_at"
USED_AT: Final = "used_at"
"""Keys of a session's data: who it is to its person, and whole seconds since the epoch."""


class SessionStore(db.SessionStore):
    """Source: Django's documentation, "Extending database-backed session engines"."""

    @classmethod
    def get_model_class(cls) -> type[PersonSession]:
        """Return the table."""
        return PersonSession

    def create_model_instance(self, data: dict[str, Any]) -> PersonSession:
        """Return the row of a session; one that a person has just signed in to begins here."""
        holder = data.get(SESSION_KEY)
        if holder is not None and PUBLIC_ID not in data:
            now = int(time.time())
            data.update({PUBLIC_ID: str(new_id()), BEGAN_AT: now, USED_AT: now})
        row = super().create_model_instance(data)
        if not isinstance(row, PersonSession):
            raise TypeError("the table is not ours")
        row.user_id = None if holder is None else int(holder)
        row.public_id = None if holder is None else UUID(data[PUBLIC_ID])
        return row


@transaction.atomic
def end_session(*, user: User, session_id: UUID, actor: Actor, at: datetime) -> None:
    """End one session of a person; its browser has to sign in again.

    Raises:
        NotFoundError: The person has no such session.
    """
    ended, _ = PersonSession.objects.filter(user=user, public_id=session_id).delete()
    if not ended:
        raise NotFoundError("There is no such session.", remedy="It may have ended by itself.")
    _record(user, ended, actor=actor, at=at)


@transaction.atomic
def end_other_sessions(*, user: User, keep: UUID | None, actor: Actor, at: datetime) -> int:
    """End every session of a person but one; return how many.

    Args:
        user: The owner.
        keep: The session of the request; None to end all.
        actor: The caller.
        at: When, UTC.
    """
    others = PersonSession.objects.filter(user=user)
    if keep is not None:
        others = others.exclude(public_id=keep)
    ended, _ = others.delete()
    if ended:
        _record(user, ended, actor=actor, at=at)
    return ended


def delete_ended_sessions(*, actor: Actor, at: datetime) -> int:
    """Delete sessions that have ended by themselves; return how many.

    Raises:
        ValueError: The actor is a person.
    """
    if not actor.is_system:
        raise ValueError("only the service itself deletes ended sessions")
    deleted, _ = PersonSession.objects.filter(expire_date__lt=at).delete()
    return deleted


def _record(user: User, ended: int, *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action="tenants:session:end",
        object_kind="user",
        object_id=user.pk,
        facts={"username": user.get_username(), "sessions": ended},
    )
