"""Looking at everything metering wrote, so that two runs can be compared row by row."""

from django.db.models import Model

from metering.models import (
    CapacityRecord,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    UsageRecord,
)

Rows = dict[str, list[tuple[object, ...]]]

_COUNTERS = frozenset(
    {"id", "window", "fact_id", "fence", "attempt", "lease_owner", "lease_until", "sealed_at"}
)
"""Surrogate keys, and what only shows how often and when work was done."""
_KEYS = {"label_set": "label_set__digest"}
"""What stands for a surrogate key."""


def everything() -> Rows:
    """Return every row metering wrote, in the order of its content."""
    tables: tuple[type[Model], ...] = (
        UsageRecord,
        PodAllocation,
        CapacityRecord,
        MeteringException,
        MeteringWindow,
    )
    return {table.__name__: _rows(table) for table in tables}


def _rows(table: type[Model]) -> list[tuple[object, ...]]:
    fields = table._meta.concrete_fields  # noqa: SLF001 - Django's documented model meta.
    columns = [
        _KEYS.get(field.name, field.attname) for field in fields if field.name not in _COUNTERS
    ]
    return sorted(table._default_manager.values_list(*columns), key=repr)  # noqa: SLF001 - As above.
