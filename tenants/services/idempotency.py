"""Idempotent requests: key, effect and stored response are one transaction.

A stored response is replayed only if the scopes are the same and every role held at the first
request is still held. Permissions depend on these two only (Actor.may, tenants/access.py), so
this covers the checks of views, `access_*` and services.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.domain.refusals import (
    IdempotencyKeyInUseError,
    IdempotencyKeyReusedError,
    IdempotencyRoleLostError,
)
from tenants.models import IdempotencyRecord
from tenants.selectors.locks import try_advisory_lock
from tenants.services.audit import record
from tenants.services.retention import in_batches, require_service

KEPT_FOR: Final = timedelta(days=7)
"""A client that did not retry within a week does not."""


@dataclass(frozen=True)
class StoredResponse:
    """The response to a request: plain JSON, so that it can be stored and replayed."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    is_replayed: bool = False


def answer_once(
    *,
    key: str,
    fingerprint: bytes,
    respond: Callable[[], StoredResponse],
    actor: Actor,
    at: datetime,
) -> StoredResponse:
    """Return the response to a request; execute it only the first time.

    A refusal raised by `respond` rolls everything back: nothing is stored, and the same request
    may be sent again. The effect has its own audit entry; so has the first refused replay of a
    key, but no further one.

    Args:
        key: The client's Idempotency-Key; it belongs to the actor.
        fingerprint: SHA-256 of the request.
        respond: Executes the request; its transactions become part of this one.
        actor: The caller.
        at: When, UTC.

    Raises:
        IdempotencyKeyInUseError: The first request is still being answered.
        IdempotencyKeyReusedError: The key was used for another request, or with other token scopes.
        IdempotencyRoleLostError: A role held at the first request is no longer held.
    """
    principal = f"{actor.kind.value}:{actor.id}"
    with transaction.atomic():
        if not try_advisory_lock(key=_lock_number(principal, key)):
            raise IdempotencyKeyInUseError("A request with this Idempotency-Key is being answered.")
        known = IdempotencyRecord.objects.filter(principal=principal, key=key).first()
        if known is None:
            answer = respond()
            IdempotencyRecord.objects.create(
                principal=principal,
                key=key,
                fingerprint=_bound_to_scopes(fingerprint, actor),
                roles=_roles_of(actor),
                status=answer.status,
                body=answer.body,
                headers=dict(answer.headers),
                created_at=at,
            )
            return answer
        refusal = _refusal_of(known, fingerprint=fingerprint, actor=actor)
        if refusal is not None:
            _note_refusal(known, refusal, actor=actor, at=at)
    if refusal is not None:
        raise refusal
    return StoredResponse(
        status=known.status, body=known.body, headers=known.headers, is_replayed=True
    )


def purge_responses(
    *, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Delete stored responses older than a week, oldest first, in batches; return how many.

    Args:
        has_time: Called before each batch; whether another may begin.
        actor: A system actor.
        at: When, UTC.

    Raises:
        ValueError: The actor is not the service itself.
    """
    require_service(actor=actor)
    old = IdempotencyRecord.objects.filter(created_at__lt=at - KEPT_FOR).order_by("pk")

    def purge_batch(most: int) -> int:
        deleted, _ = IdempotencyRecord.objects.filter(pk__in=old.values("pk")[:most]).delete()
        return deleted

    return in_batches(purge_batch, has_time=has_time)


def _refusal_of(
    known: IdempotencyRecord, *, fingerprint: bytes, actor: Actor
) -> DomainError | None:
    """Return why an actor does not get a stored answer, None when it does."""
    if bytes(known.fingerprint) != _bound_to_scopes(fingerprint, actor):
        return IdempotencyKeyReusedError(
            "This Idempotency-Key was used for another request, or with another token's scopes.",
            field="Idempotency-Key",
        )
    held = _roles_of(actor)
    if any(role not in held for role in known.roles):
        return IdempotencyRoleLostError(
            "A role under which this Idempotency-Key was answered is no longer yours.",
            field="Idempotency-Key",
        )
    return None


def _note_refusal(
    known: IdempotencyRecord, refusal: DomainError, *, actor: Actor, at: datetime
) -> None:
    """Audit a key's first refused replay; its lock is held, so no other request is doing it."""
    if known.refused_at is not None:
        return
    known.refused_at = at
    known.save(update_fields=["refused_at"])
    record(
        actor=actor,
        at=at,
        action="tenants:idempotency_key:refuse",
        object_kind="idempotency_key",
        object_id=known.pk,
        facts={"code": refusal.code},
    )


def _bound_to_scopes(fingerprint: bytes, actor: Actor) -> bytes:
    """Return the digest of a request and of the scopes it came with."""
    scopes = "*" if actor.scopes is None else "\n".join(sorted(actor.scopes))
    return hashlib.sha256(fingerprint + scopes.encode()).digest()


def _roles_of(actor: Actor) -> list[list[str | None]]:
    """Return the roles an actor holds as plain JSON: role, organization, project."""
    return [
        [grant.role.value, _text(grant.organization_id), _text(grant.project_id)]
        for grant in actor.grants
    ]


def _text(identifier: UUID | None) -> str | None:
    return None if identifier is None else str(identifier)


def _lock_number(principal: str, key: str) -> int:
    """Return a signed 64-bit number that stands for a principal's key."""
    digest = hashlib.sha256(f"idempotency\0{principal}\0{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
