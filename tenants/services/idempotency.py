"""Answering a request once: key, effect and stored answer are one transaction."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.refusals import IdempotencyKeyInUseError, IdempotencyKeyReusedError
from tenants.models import IdempotencyRecord
from tenants.selectors.locks import try_advisory_lock
from tenants.services.retention import in_batches, require_service

KEPT_FOR: Final = timedelta(days=7)
"""A client that did not retry within a week does not."""


@dataclass(frozen=True)
class Answer:
    """What a request was answered: plain JSON, so that it can be stored and told again."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    is_replayed: bool = False


@transaction.atomic
def answer_once(
    *,
    key: str,
    fingerprint: bytes,
    respond: Callable[[], Answer],
    actor: Actor,
    at: datetime,
) -> Answer:
    """Return the answer to a request, making it only the first time.

    A refusal raised by `respond` takes everything back: nothing is stored, and the same request
    may be sent again. The effect leaves its own audit entry.

    Args:
        key: The client's Idempotency-Key; it belongs to the actor.
        fingerprint: SHA-256 of what was asked.
        respond: Does it; its transactions become part of this one.
        actor: Who asks.
        at: When, UTC.

    Raises:
        IdempotencyKeyInUseError: The first request is still being answered.
        IdempotencyKeyReusedError: The key stands for another request.
    """
    principal = f"{actor.kind.value}:{actor.id}"
    if not try_advisory_lock(key=_lock_number(principal, key)):
        raise IdempotencyKeyInUseError("A request with this Idempotency-Key is being answered.")
    known = IdempotencyRecord.objects.filter(principal=principal, key=key).first()
    if known is not None:
        return _told_again(known, fingerprint)
    answer = respond()
    IdempotencyRecord.objects.create(
        principal=principal,
        key=key,
        fingerprint=fingerprint,
        status=answer.status,
        body=answer.body,
        headers=dict(answer.headers),
        created_at=at,
    )
    return answer


def forget_answers(
    *, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Forget stored answers older than a week, oldest first, in batches; return how many.

    Args:
        has_time: Asked before each batch, whether another may begin.
        actor: Who cleans up; a system actor.
        at: When, UTC.

    Raises:
        ValueError: Somebody else than the service itself asks.
    """
    require_service(actor=actor)
    old = IdempotencyRecord.objects.filter(created_at__lt=at - KEPT_FOR).order_by("pk")

    def forget_batch(most: int) -> int:
        deleted, _ = IdempotencyRecord.objects.filter(pk__in=old.values("pk")[:most]).delete()
        return deleted

    return in_batches(forget_batch, has_time=has_time)


def _told_again(known: IdempotencyRecord, fingerprint: bytes) -> Answer:
    if bytes(known.fingerprint) != fingerprint:
        raise IdempotencyKeyReusedError("This Idempotency-Key was used for another request.")
    return Answer(status=known.status, body=known.body, headers=known.headers, is_replayed=True)


def _lock_number(principal: str, key: str) -> int:
    """Return a signed 64-bit number that stands for a principal's key."""
    digest = hashlib.sha256(f"idempotency\0{principal}\0{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
