"""Queries of the audit trail: entries of an object, and entries that were altered."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from tenants.models import AuditEntry

HISTORY_MAX: Final = 500
"""More than a person reads; older entries are in the list of all."""
FETCH_ROWS: Final = 2_000

_LEAVES = """
SELECT id, leaf, ARRAY[
         id::text,
         to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
         actor_kind, actor_id, actor_label, action, object_kind, object_id,
         coalesce(organization_id::text, ''), facts::text]
         || CASE WHEN recorded_at IS NULL THEN '{}' ELSE ARRAY[
         to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
         transaction_id::text] END
FROM tenants_auditentry WHERE id > %s ORDER BY id LIMIT %s
"""


@dataclass(frozen=True)
class AuditFact:
    """One thing that was done to an object."""

    occurred_at: datetime
    actor_label: str
    action: str
    facts: dict[str, Any]


def history_of(*, object_kind: str, object_id: object) -> list[AuditFact]:
    """Return the entries of an object, newest first, at most 500."""
    entries = AuditEntry.objects.filter(object_kind=object_kind, object_id=str(object_id)).order_by(
        "-id"
    )[:HISTORY_MAX]
    return [AuditFact(e.occurred_at, e.actor_label, e.action, e.facts) for e in entries]


def is_noted_since(moment: datetime, *, action: str, object_kind: str, object_id: object) -> bool:
    """Whether the trail has an entry of an action on an object after a moment."""
    return AuditEntry.objects.filter(
        object_kind=object_kind, object_id=str(object_id), action=action, occurred_at__gt=moment
    ).exists()


def leaf_mismatches() -> list[int]:
    """Return the ids of entries with a leaf that is not the hash of their content, ascending.

    The whole table is read, 2,000 rows a statement.
    """
    return [entry_id for entry_id, leaf, parts in _leaves() if audit_leaf(parts) != bytes(leaf)]


def _leaves() -> Iterator[tuple[int, bytes, list[str]]]:
    last_id = 0
    while rows := _page_after(last_id):
        yield from rows
        last_id = rows[-1][0]


def _page_after(last_id: int) -> list[tuple[int, bytes, list[str]]]:
    with connection.cursor() as cursor:
        cursor.execute(_LEAVES, [last_id, FETCH_ROWS])
        return list(cursor.fetchall())


LEAF_PREFIX = b"\x00"


def audit_leaf(parts: Iterable[str]) -> bytes:
    """Return the hash of a row's parts, 32 bytes.

    Args:
        parts: In order: id, time, actor kind, actor id, actor label, action, object kind, object
            id, organization id or "", facts, and the time and transaction of the database where the
            entry has them; as the database writes them.
    """
    digest = hashlib.sha256(LEAF_PREFIX)
    for part in parts:
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode())
        digest.update(encoded)
    return digest.digest()
