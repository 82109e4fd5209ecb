"""What the usage ledger holds of a sealed window, over all revisions, and what corrects it."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection

from metering.domain.allocations.timeline import EndKind
from metering.domain.collection.parts import WHOLE, Part
from metering.domain.corrections.correction import CAUSES_OF_PERSONS, Held, UsageKey
from metering.models import UsageCorrection
from metering.selectors.allocations.parts import HOLDER_UID, in_part, part_values

LINE_TYPES: Final = {
    "organization_id": "uuid",
    "project_id": "uuid",
    "owner": "text",
    "namespace": "text",
    "pod_name": "text",
    "pod_uid": "text",
    "resource": "text",
    "node": "text",
    "size": "text",
    "price_group": "text",
    "sharing_mode": "text",
    "share_numerator": "integer",
    "share_denominator": "integer",
    "units": "integer",
    "split_among": "integer",
    "begin_at": "timestamptz",
    "end_at": "timestamptz",
    "seconds": "integer",
    "unit_seconds": "bigint",
    "end_kind": "text",
    "slack_seconds": "integer",
    "catalogue_version": "integer",
}
"""Columns of a usage record in a correction's line, with their types in PostgreSQL."""

Line = dict[str, Any]
"""One record of a correction: JSON values by column, and `basis`."""

_LEDGER = f"""
SELECT DISTINCT ON (u.pod_uid, u.resource)
       sum(u.unit_seconds) OVER k AS total,
       coalesce(sum(u.unit_seconds) FILTER (WHERE NOT coalesce(c.cause = ANY(%(persons)s), false))
         OVER k, 0) AS metered,
       coalesce(bool_or(c.cause = ANY(%(persons)s)) OVER k, false) AS is_settled,
       {", ".join(f"u.{name}" for name in LINE_TYPES)}
  FROM metering_usage u
  LEFT JOIN metering_usagecorrection c ON c.id = u.correction_id
 WHERE u.window_start = %(start_at)s AND u.window_id = %(window_id)s
   AND (%(pod_uid)s::text IS NULL OR (u.pod_uid = %(pod_uid)s AND u.resource = %(resource)s))
   AND {in_part(HOLDER_UID)}
WINDOW k AS (PARTITION BY u.pod_uid, u.resource)
 ORDER BY u.pod_uid, u.resource, u.revision DESC
"""  # noqa: S608 - The statement is put together from constants only.


@dataclass(frozen=True)
class LedgerFact:
    """All revisions of one pod's one resource in one window.

    Attributes:
        unit_seconds: Their sum, which is never below 0.
        metered_unit_seconds: What sources reported, without corrections by persons.
        line: The newest revision's columns as JSON values; its `unit_seconds` is left out.
    """

    unit_seconds: int
    metered_unit_seconds: int
    is_settled_by_person: bool
    line: Line

    @property
    def held(self) -> Held:
        """Return it as comparisons need it."""
        return Held(
            metered_unit_seconds=self.metered_unit_seconds,
            is_exact=self.line["end_kind"] == EndKind.EXACT,
            is_settled_by_person=self.is_settled_by_person,
        )


def ledger_of_window(
    window_id: int, *, start_at: datetime, key: UsageKey | None = None, part: Part = WHOLE
) -> dict[UsageKey, LedgerFact]:
    """Return what the ledger holds of a window by pod and resource, in that order; one statement.

    Args:
        window_id: The window.
        start_at: Its start, so that one partition is read.
        key: Only this pod's this resource; None for all.
        part: Only what pods and claims of it hold.
    """
    pod_uid, resource = key or (None, None)
    with connection.cursor() as cursor:
        cursor.execute(
            _LEDGER,
            {
                "window_id": window_id,
                "start_at": start_at,
                "pod_uid": pod_uid,
                "resource": resource,
                "persons": sorted(cause.value for cause in CAUSES_OF_PERSONS),
                **part_values(part),
            },
        )
        facts = [_fact(row) for row in cursor.fetchall()]
    return {(fact.line["pod_uid"], fact.line["resource"]): fact for fact in facts}


def _fact(row: tuple[Any, ...]) -> LedgerFact:
    total, metered, is_settled, *columns = row
    line = {name: plain(value) for name, value in zip(LINE_TYPES, columns, strict=True)}
    del line["unit_seconds"]
    return LedgerFact(int(total), int(metered), is_settled, line)


def plain(value: object) -> object:
    """Return a column's value as JSON: keys, times and fractions as text."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID | Decimal) else value


def undone_deltas(window_id: int) -> frozenset[tuple[str, str, int]]:
    """Return pod, resource and delta of what waits for a person or was rejected in a window."""
    rows = UsageCorrection.objects.filter(window_id=window_id, state__in=["proposed", "rejected"])
    return frozenset(
        (line["pod_uid"], line["resource"], line["unit_seconds"])
        for lines in rows.values_list("lines", flat=True)
        for line in lines
    )
