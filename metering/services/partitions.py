"""Partitions of the usage table: one per month, made before anything is written into it."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import structlog
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from metering.domain.errors import PartitionRangeError

logger = structlog.get_logger(__name__)

MONTHS_MAX: Final = 24
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
        PartitionRangeError: Fewer than 1 month or more than 24.
    """
    if not 1 <= months <= MONTHS_MAX:
        raise PartitionRangeError(
            f"{months} months of partitions cannot be made at once.", field="months"
        )
    if not _is_missing(from_month=from_month, months=months):
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, %s)", [from_month, months])
        return int(cursor.fetchone()[0])


def ensure_each_month(moments: Iterable[datetime]) -> frozenset[datetime]:
    """Make the partition of each month that has none, newest first; return the months that have.

    Once the lock is not free, the other months that have none are left for the next call as well.
    """
    ready = set()
    is_free = True
    for month in sorted({month_of(moment) for moment in moments}, reverse=True):
        if _is_missing(from_month=month, months=1):
            is_free = is_free and try_partitions(from_month=month, months=1)
            if not is_free:
                continue
        ready.add(month)
    return frozenset(ready)


def try_partitions(*, from_month: datetime, months: int) -> bool:
    """Make the months' partitions that are missing, unless the lock is not free in time.

    A query or a backup that reads usage for long only puts it off.

    Args:
        from_month: Any moment of the first month.
        months: How many months, the first included.

    Raises:
        PartitionRangeError: Fewer than 1 month or more than 24.
    """
    try:
        ensure_partitions(from_month=from_month, months=months)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        logger.warning("metering.partitions.postponed", reason=str(error).partition("\n")[0])
        return False
    return True


def month_of(moment: datetime) -> datetime:
    """Return the begin of a moment's month, UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _is_missing(*, from_month: datetime, months: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_IS_MISSING, {"from_month": from_month, "months": months})
        return bool(cursor.fetchone()[0])
