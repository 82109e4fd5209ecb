"""Months of the general ledger: what was posted in them, what is exported, and which are closed."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import connection

MONTHS_MAX: Final = 36
"""Of one page, newest first."""
BATCHES_MAX: Final = 60


@dataclass(frozen=True)
class LedgerBatch:
    """A file of a month's entries."""

    id: UUID
    number: int
    layout: str
    entries: int


@dataclass(frozen=True)
class LedgerMonth:
    """A month by posting dates.

    Attributes:
        entries: Posted in it.
        unexported: Of them, those in no batch.
        is_closed: Whether no entry can be dated in it any more.
        batches: Its files, newest first.
    """

    label: str
    entries: int
    unexported: int
    is_closed: bool
    batches: tuple[LedgerBatch, ...]


def ledger_months() -> list[LedgerMonth]:
    """Return the last MONTHS_MAX months with entries or use, newest first; two statements."""
    with connection.cursor() as cursor:
        cursor.execute(_MONTHS, {"most": MONTHS_MAX})
        months = cursor.fetchall()
        cursor.execute(_BATCHES, {"most": BATCHES_MAX})
        batches = [(month, LedgerBatch(*row)) for month, *row in cursor.fetchall()]
    return [
        LedgerMonth(
            label=label,
            entries=entries,
            unexported=unexported,
            is_closed=is_closed,
            batches=tuple(batch for month, batch in batches if month == label),
        )
        for label, entries, unexported, is_closed in months
    ]


_MONTHS: Final = """
SELECT m.label, m.entries, m.unexported,
       m.label <= (SELECT max(label) FROM billing_accountingmonth) AS is_closed
  FROM (SELECT coalesce(label, to_char(e.posting_on, 'YYYY-MM')) AS label, count(e.id) AS entries,
               count(e.id) FILTER (WHERE b.entry_id IS NULL) AS unexported
          FROM (SELECT DISTINCT label FROM billing_billingperiod) period
          FULL JOIN billing_journalentry e ON to_char(e.posting_on, 'YYYY-MM') = label
          LEFT JOIN billing_batchedentry b ON b.entry_id = e.id
         GROUP BY 1 ORDER BY 1 DESC LIMIT %(most)s) m
 ORDER BY m.label DESC
"""
_BATCHES: Final = """
SELECT month, id, number, layout, entries FROM billing_journalbatch
 ORDER BY number DESC LIMIT %(most)s
"""
