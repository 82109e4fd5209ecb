"""Staging: observations of pods that one transaction loads into tables of its own and writes.

A list of any length is read in flat memory: its pages go to a file while they come, outside any
transaction. Nothing outlives the transaction, so that a pooler may give each one another session.
"""

import json
from collections.abc import Iterable
from dataclasses import fields
from tempfile import SpooledTemporaryFile
from typing import Final, Self

from django.db import connection

from metering.domain.pod_life import PodSnapshot

SPOOL_BYTES_IN_MEMORY: Final = 4_000_000
"""Some 8,000 pods; a longer list goes to a file without a name in the temporary folder."""

_TABLES = (
    """
CREATE TEMPORARY TABLE IF NOT EXISTS watch_sight (
  uid text NOT NULL, namespace text NOT NULL, name text NOT NULL, node text NOT NULL,
  owner text NOT NULL, controller text NOT NULL, priority_class text NOT NULL, priority integer,
  requests jsonb NOT NULL, reason text NOT NULL, created_at timestamptz NOT NULL,
  bound_at timestamptz, started_at timestamptz, deletion_at timestamptz, finished_at timestamptz,
  alive_at timestamptz, gone_at timestamptz, is_prompt boolean NOT NULL,
  defects jsonb NOT NULL) ON COMMIT DROP
""",
    """
CREATE TEMPORARY TABLE IF NOT EXISTS watch_hold (
  uid text NOT NULL, resource text NOT NULL, units integer NOT NULL, labels jsonb NOT NULL)
  ON COMMIT DROP
""",
)
_COLUMNS = tuple(field.name for field in fields(PodSnapshot))
_JSON = frozenset({"requests", "defects"})
_COPY = f"COPY watch_sight ({', '.join(_COLUMNS)}) FROM STDIN"
# A page that was told twice counts once: the later copy of a pod stands.
_ONCE = """
DELETE FROM watch_sight s USING watch_sight later WHERE s.uid = later.uid AND s.ctid < later.ctid
"""


class ObservationSpool:
    """Observations that wait, outside any transaction, for the one that loads them."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._file = SpooledTemporaryFile(max_size=SPOOL_BYTES_IN_MEMORY)  # noqa: SIM115 - Closed by `__exit__`.

    def __enter__(self) -> Self:
        """Return the spool, which is empty after the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of everything."""
        self._file.close()

    def add(self, sights: Iterable[PodSnapshot]) -> None:
        """Keep some observations."""
        for sight in sights:
            self._file.write(json.dumps(_values(sight), default=str).encode() + b"\n")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was kept."""
        return self._file.tell() == 0

    def load(self) -> int:
        """Stage what was kept, one observation per pod, until the transaction ends.

        Returns:
            How many pods there are.

        Raises:
            RuntimeError: Called outside a transaction: the tables would be gone at once.
        """
        if not connection.in_atomic_block:
            raise RuntimeError("Observations are staged inside a transaction.")
        self._file.seek(0)
        with connection.cursor() as cursor:
            for table in _TABLES:
                cursor.execute(table)
            # Within one transaction a second batch finds the tables of the first.
            cursor.execute("TRUNCATE watch_sight, watch_hold")
            with cursor.copy(_COPY) as copy:
                for line in self._file:
                    copy.write_row(json.loads(line))
            # The planner is told how many there are: it once joined them one by one.
            cursor.execute("ANALYZE watch_sight")
            cursor.execute(_ONCE)
            cursor.execute("SELECT count(*) FROM watch_sight")
            return int(cursor.fetchone()[0])


def _values(sight: PodSnapshot) -> tuple[object, ...]:
    return tuple(
        json.dumps(getattr(sight, name)) if name in _JSON else getattr(sight, name)
        for name in _COLUMNS
    )
