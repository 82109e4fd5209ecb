"""What a list or some events came to in the ledger, and the version they end at."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from metering.protocols.watch import WatchedKind


@dataclass(frozen=True)
class Ledgered:
    """What one list or batch of events changed.

    Attributes:
        states: Objects that concern the ledger, each once however often it was told.
        opened: Rows that were new.
        closed: Rows that ended, or whose end became better known.
        resource_version: Where the stream goes on; "" when nothing was told.
    """

    kind: WatchedKind
    states: int
    opened: int
    closed: int
    resource_version: str


@dataclass(frozen=True)
class Changed:
    """Rows that one step opened and closed."""

    opened: int = 0
    closed: int = 0


_LISTED = """
INSERT INTO metering_watchcursor AS c (cluster_id, kind, resource_version, listed_at, is_afresh)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (cluster_id, kind) DO UPDATE
   SET resource_version = EXCLUDED.resource_version, listed_at = EXCLUDED.listed_at,
       is_afresh = c.is_afresh OR EXCLUDED.is_afresh
"""
_READ_ON = """
INSERT INTO metering_watchcursor (cluster_id, kind, resource_version, listed_at)
VALUES (%s, %s, %s, %s)
ON CONFLICT (cluster_id, kind) DO UPDATE SET resource_version = EXCLUDED.resource_version
"""


def keep_version(
    cluster_id: UUID, *, kind: WatchedKind, resource_version: str, at: datetime
) -> None:
    """Keep how far a kind was read, in the transaction of the rows that were written with it."""
    with connection.cursor() as cursor:
        cursor.execute(_READ_ON, [cluster_id, kind.value, resource_version, at])


def keep_list(
    cluster_id: UUID, *, kind: WatchedKind, resource_version: str, at: datetime, is_afresh: bool
) -> None:
    """Keep the version of a list, and whether what was before it is unknown, with its rows."""
    with connection.cursor() as cursor:
        cursor.execute(_LISTED, [cluster_id, kind.value, resource_version, at, is_afresh])
