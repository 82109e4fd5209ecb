"""Staging: sights of pods loaded by COPY into a table of this connection, page by page.

A list of any length is read in flat memory: its pages go in while they come, outside any
transaction, and are compared with the ledger only when the last one has come.
"""

import json
from collections.abc import Iterable
from dataclasses import fields

from django.db import connection

from metering.domain.pod_life import PodSight

_TABLES = (
    """
CREATE TEMPORARY TABLE IF NOT EXISTS watch_sight (
  uid text NOT NULL, namespace text NOT NULL, name text NOT NULL, node text NOT NULL,
  owner text NOT NULL, controller text NOT NULL, priority_class text NOT NULL, priority integer,
  requests jsonb NOT NULL, reason text NOT NULL, created_at timestamptz NOT NULL,
  bound_at timestamptz, started_at timestamptz, deletion_at timestamptz, finished_at timestamptz,
  alive_at timestamptz, gone_at timestamptz, is_prompt boolean NOT NULL,
  defects jsonb NOT NULL)
""",
    """
CREATE TEMPORARY TABLE IF NOT EXISTS watch_hold (
  uid text NOT NULL, resource text NOT NULL, units integer NOT NULL, labels jsonb NOT NULL)
""",
)
_COLUMNS = tuple(field.name for field in fields(PodSight))
_JSON = frozenset({"requests", "defects"})
_COPY = f"COPY watch_sight ({', '.join(_COLUMNS)}) FROM STDIN"
# A page that was told twice counts once: the later copy of a pod stands.
_ONCE = """
DELETE FROM watch_sight s USING watch_sight later WHERE s.uid = later.uid AND s.ctid < later.ctid
"""


def clear_stage() -> None:
    """Make the tables of this connection, or empty them."""
    with connection.cursor() as cursor:
        for table in _TABLES:
            cursor.execute(table)
        cursor.execute("TRUNCATE watch_sight, watch_hold")


def stage_sights(sights: Iterable[PodSight]) -> None:
    """Load some sights."""
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        for sight in sights:
            copy.write_row(_values(sight))


def settle_stage() -> int:
    """Keep one sight per pod; return how many.

    The planner is told first how many there are: without that it once joined them one by one.
    """
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE watch_sight")
        cursor.execute(_ONCE)
        cursor.execute("SELECT count(*) FROM watch_sight")
        return int(cursor.fetchone()[0])


def _values(sight: PodSight) -> tuple[object, ...]:
    return tuple(
        json.dumps(getattr(sight, name)) if name in _JSON else getattr(sight, name)
        for name in _COLUMNS
    )
