"""Indexes that are built beside the work, for migrations of every app.

A concurrent build locks nobody out, and waits for every transaction that began before it. Under
the service's `lock_timeout` it would give up after two seconds and leave an index that is not
valid, over which the next `migrate` would stumble. So it waits as long as it takes, and first
drops what an earlier try has left.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations import RunSQL
from django.db.migrations.operations.base import Operation
from django.db.models import Index

WAIT = ("SET lock_timeout = 0", "SET statement_timeout = 0")
HURRY = ("RESET lock_timeout", "RESET statement_timeout")


def add_index(model_name: str, index: Index) -> list[Operation]:
    """Return what builds an index beside the work; for migrations that are not atomic."""
    return [
        RunSQL(WAIT, HURRY),
        RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}", RunSQL.noop),
        AddIndexConcurrently(model_name, index),
        RunSQL(HURRY, WAIT),
    ]
