"""Usage records that a test or a bench writes by SQL, without metering them."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from metering.models import UsageRecord
from metering.selectors.collection.usage_facts import usage_statements
from metering.selectors.corrections.ledger import LINE_TYPES, plain

_METERED = """
SELECT r.*, 0 AS revision, 1 AS split_among, 0 AS slack_seconds, NULL::uuid AS correction_id
  FROM ({rows}) r
"""


def insert_usage(cursor: CursorWrapper, rows: str, values: Mapping[str, Any]) -> None:
    """Write metered records.

    Args:
        cursor: Of the database.
        rows: A query with their columns by name, each time the same.
        values: Its parameters.
    """
    cursor.execute("SET enable_nestloop = off")  # There are no statistics of facts yet.
    for statement in usage_statements(_METERED.format(rows=rows)):
        cursor.execute(statement, values)
    cursor.execute("RESET enable_nestloop")


_TYPES = LINE_TYPES | {
    "window_id": "bigint",
    "window_start": "timestamptz",
    "cluster_id": "uuid",
    "correction_id": "uuid",
    "revision": "integer",
}
_RECORD = (
    f"SELECT * FROM jsonb_to_record(%s) AS r({', '.join(f'{n} {t}' for n, t in _TYPES.items())})"  # noqa: S608 - Constants.
)


def write_record(record: UsageRecord) -> None:
    """Write a record of an instance, which Django cannot save: its table is a view."""
    values = json.dumps({name: plain(getattr(record, name)) for name in _TYPES})
    with connection.cursor() as cursor:
        for statement in usage_statements(_RECORD):
            cursor.execute(statement, [values])
