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
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("An audit entry is written in the transaction of what it tells.")
    AuditEntry.objects.create(
        occurred_at=at,
        actor_kind=actor.kind.value,
        actor_id=actor.id,
        actor_label=actor.label,
        action=action,
        object_kind=object_kind,
        object_id=str(object_id),
        organization_id=organization_id,
        facts=dict(facts or {}),
    )
