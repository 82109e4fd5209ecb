"""Ending one's own sessions, and deleting those that have ended."""

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.models import PersonSession
from tenants.services.audit import record


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
