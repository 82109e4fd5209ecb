"""Partitions of the usage table: one per month, made before anything is written into it."""

from datetime import UTC, datetime
from typing import Final

from django.db import connection, transaction

from metering.domain.errors import PartitionRangeError

MONTHS_MAX = 120
MONTHS_AHEAD = 3
# Looking for a name takes no lock. Names are those that the owner's function gives.
_IS_MISSING: Final = """
SELECT EXISTS (
  SELECT FROM generate_series(0, %(months)s - 1) AS step
   WHERE to_regclass('public.metering_usagerecord_' || to_char(
     date_trunc('month', %(from_month)s::timestamptz AT TIME ZONE 'UTC')
       + make_interval(months => step), 'YYYY_MM')) IS NULL)
"""


def ensure_partitions(*, from_month: datetime, months: int) -> int:
    """Make the months' partitions that are missing; return how many were made.

    The runtime role owns no table, so a function of the owner's does it. It locks all usage, and
    is not called where nothing is missing.

    Args:
        from_month: Any moment of the first month.
        months: How many months, the first included.

    Raises:
        PartitionRangeError: Fewer than 1 month or more than 120.
    """
    if not 1 <= months <= MONTHS_MAX:
        raise PartitionRangeError(
            f"{months} months of partitions cannot be made at once.", field="months"
        )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_IS_MISSING, {"from_month": from_month, "months": months})
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute("SELECT metering_ensure_partitions(%s, %s)", [from_month, months])
        return int(cursor.fetchone()[0])


def ensure_partitions_between(*, first: datetime, last: datetime) -> int:
    """Make the partitions of every month from one moment to a later one; return how many."""
    begin, end = first.astimezone(UTC), last.astimezone(UTC)
    months = (end.year - begin.year) * 12 + end.month - begin.month + 1
    return ensure_partitions(from_month=begin, months=min(months, MONTHS_MAX))
