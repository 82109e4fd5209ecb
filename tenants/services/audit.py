"""Writing the audit trail: one entry in the transaction of the change, or of the refusal."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.clusters import AUDITED_PROBLEMS
from tenants.domain.errors import DomainError, SourceUnavailableError
from tenants.models import AuditEntry, Cluster


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
        actor: The caller.
        at: When, UTC.
        action: `<app>:<resource>:<verb>`.
        object_kind: The table's noun, such as "invoice".
        object_id: Its primary key.
        organization_id: The audit trail it belongs to; None for the platform's.
        facts: JSON values that say what changed; never a secret.

    Raises:
        RuntimeError: Called outside a transaction: an entry could be stored without its change.
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
        actor: The caller.
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
        raise RuntimeError("An audit entry is written in the transaction of the change it records.")


def _shared(*, actor: Actor, at: datetime, action: str, object_kind: str) -> dict[str, Any]:
    return {
        "occurred_at": at,
        "actor_kind": actor.kind.value,
        "actor_id": actor.id,
        "actor_label": actor.label,
        "action": action,
        "object_kind": object_kind,
    }


SOURCE_REASONS: Final = frozenset({"credentials_forbidden", "forbidden_address"})
SOURCE_EVERY: Final = timedelta(days=1)
"""A cluster is asked every few seconds: its first refusal of a day for each reason is one entry."""


def is_noted(refusal: DomainError) -> bool:
    """Whether a refusal leaves an audit entry."""
    return refusal.is_audited or any(one.code in AUDITED_PROBLEMS for one in refusal.problems)


@transaction.atomic
def note_refusal(
    *, refusal: DomainError, noun: str, object_id: object = "", actor: Actor, at: datetime
) -> bool:
    """Audit a refusal when `is_noted`; return whether it is.

    Args:
        refusal: Raised by a service, after its transaction.
        noun: Of the table that was to be written, as `noun_of` returns it.
        object_id: Of the row; "" when a new one was to be made.
        actor: The caller.
        at: When, UTC.
    """
    if not is_noted(refusal):
        return False
    problems = {one.field: one.code for one in refusal.problems if one.code in AUDITED_PROBLEMS}
    record(
        actor=actor,
        at=at,
        action=f"tenants:{noun}:refuse",
        object_kind=noun,
        object_id=object_id,
        facts={
            "code": refusal.code,
            "fields": problems or {refusal.field: refusal.code},
            **refusal.facts,
        },
    )
    return True


@contextmanager
def audited_use(*, slug: str, actor: Actor, at: datetime) -> Iterator[None]:
    """Audit that an adapter refuses a cluster's credential or address, and re-raise the refusal.

    Every call of a cluster's adapter is made inside this context, outside transactions. An error
    returned as a value by a thread goes to `note_refused_use`.

    Args:
        slug: The cluster's.
        actor: The caller; mostly the service itself.
        at: When, UTC.

    Raises:
        SourceUnavailableError: What the adapter raised.
    """
    try:
        yield
    except SourceUnavailableError as error:
        note_refused_use(slug=slug, error=error, actor=actor, at=at)
        raise


def note_refused_use(*, slug: str, error: Exception | None, actor: Actor, at: datetime) -> bool:
    """Audit that a cluster's credential or address was refused at use; once a day for each reason.

    Args:
        slug: The cluster's.
        error: What its adapter raised, if that is such a refusal; nothing was sent.
        actor: The caller.
        at: When, UTC.
    """
    if not isinstance(error, SourceUnavailableError) or error.reason not in SOURCE_REASONS:
        return False
    with transaction.atomic():
        cluster = Cluster.objects.get(slug=slug)
        entries = AuditEntry.objects.filter(
            object_kind="cluster",
            object_id=str(cluster.pk),
            action="tenants:cluster:refuse",
            facts__code=error.reason,
            occurred_at__gt=at - SOURCE_EVERY,
        )
        if entries.exists():
            return False
        record(
            actor=actor,
            at=at,
            action="tenants:cluster:refuse",
            object_kind="cluster",
            object_id=cluster.pk,
            facts={"code": error.reason, "cluster": slug},
        )
    return True
