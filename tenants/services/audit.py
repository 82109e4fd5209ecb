"""Writing the audit trail: one entry in the transaction of what it tells."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from tenants.domain.actors import Actor
from tenants.models import AuditEntry


def record(  # noqa: PLR0913 - An entry has this many columns; all are keyword only.
    *,
    actor: Actor,
    at: datetime,
    action: str,
    object_kind: str,
    object_id: object,
    organization_id: UUID | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Add one audit entry.

    Args:
        actor: Who does it.
        at: When, UTC.
        action: `<app>:<resource>:<verb>`.
        object_kind: The table's noun, such as "invoice".
        object_id: Its primary key.
        organization_id: Whose trail it belongs to; None for platform matters.
        facts: JSON values that say what changed; never a secret.

    Raises:
        RuntimeError: Called outside a transaction, where the entry could outlive its deed.
    """
    _require_transaction()
    AuditEntry.objects.create(
        **_shared(actor=actor, at=at, action=action, object_kind=object_kind),
        object_id=str(object_id),
        organization_id=organization_id,
        facts=dict(facts or {}),
    )


def record_each(
    *,
    actor: Actor,
    at: datetime,
    action: str,
    object_kind: str,
    facts: Mapping[Any, Mapping[str, Any]],
) -> None:
    """Add one audit entry for each of many objects of the platform, in one statement.

    Args:
        actor: Who does it.
        at: When, UTC.
        action: `<app>:<resource>:<verb>`.
        object_kind: The table's noun.
        facts: By each object's primary key, JSON values that say what changed; never a secret.

    Raises:
        RuntimeError: Called outside a transaction.
    """
    _require_transaction()
    shared = _shared(actor=actor, at=at, action=action, object_kind=object_kind)
    AuditEntry.objects.bulk_create(
        AuditEntry(**shared, object_id=str(key), organization_id=None, facts=dict(values))
        for key, values in facts.items()
    )


def _require_transaction() -> None:
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("An audit entry is written in the transaction of what it tells.")


def _shared(*, actor: Actor, at: datetime, action: str, object_kind: str) -> dict[str, Any]:
    return {
        "occurred_at": at,
        "actor_kind": actor.kind.value,
        "actor_id": actor.id,
        "actor_label": actor.label,
        "action": action,
        "object_kind": object_kind,
    }
