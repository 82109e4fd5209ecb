"""Isolated steps of a sweep: a fault of one item stops no other.

What crashed is logged with its traceback, and counted in a table: a fault that recurs at every
tick must not be visible in the log only. `gpu_ledger_sweep_crashes_total` shows it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection

Key = TypeVar("Key")
Result = TypeVar("Result")

TEXT_LENGTH_MAX: Final = 200
"""As wide as the columns; keys are ids and shorter."""
COUNT: Final = """
INSERT INTO tenants_sweepcrash AS known (event, count, first_at, last_at, last_key, last_error)
VALUES (%(event)s, 1, %(at)s, %(at)s, %(key)s, %(error)s)
ON CONFLICT (event) DO UPDATE
   SET count = known.count + 1, last_at = greatest(known.last_at, excluded.last_at),
       last_key = excluded.last_key, last_error = excluded.last_error
"""

log = structlog.get_logger(__name__)


def for_each_isolated(
    keys: Iterable[Key], handler: Callable[[Key], int], *, event: str, at: datetime
) -> int:
    """Call the handler for each key, and return the sum of its results; see `run_isolated`.

    Args:
        keys: The items, in this order.
        handler: Called with each; in a transaction of its own if it writes.
        event: As a crash is logged and counted.
        at: When the sweep is made, UTC.
    """
    return sum(
        run_isolated(partial(handler, key), otherwise=0, event=event, key=key, at=at)
        for key in keys
    )


def run_isolated(
    handler: Callable[[], Result], *, otherwise: Result, event: str, key: object, at: datetime
) -> Result:
    """Call the handler for one item; a fault is logged and counted, and the sweep continues.

    Refusals that are expected are caught by the handler itself: whatever comes here is a mistake.

    Args:
        handler: What is done, in a transaction of its own if it writes.
        otherwise: Returned after a fault.
        event: As a crash is logged and counted, such as "quotas.loans.crashed".
        key: The item: an id, never a name.
        at: When the sweep is made, UTC.

    Raises:
        celery.exceptions.SoftTimeLimitExceeded: The task's time is over, which is no fault of
            the item: the task fails, and is counted under its own name.
        django.db.DatabaseError: A crash cannot be counted, since the database is away: then
            no other item would succeed either.
    """
    try:
        return handler()
    except SoftTimeLimitExceeded:
        raise
    except Exception as error:  # noqa: BLE001 - A sweep's item edge: it is reported, not swallowed.
        report_crash(error, event=event, key=key, at=at)
        return otherwise


def with_readings(
    keys: Sequence[Key],
    read: Callable[[Sequence[Key]], Mapping[Key, Result]],
    *,
    together: int,
    event: str,
    at: datetime,
) -> Iterator[tuple[Key, Result | None]]:
    """Yield items, in their order, with what was read of each: of many in one go.

    Items that cannot be read together have nothing: each is read by itself when its turn comes.

    Args:
        keys: The items.
        read: Returns what was read of each, by its key; what is missing has nothing.
        together: How many are read in one go, just before the first of them has its turn.
        event: As a crash of reading is logged and counted.
        at: When, UTC.
    """
    for first in range(0, len(keys), together):
        chunk = keys[first : first + together]
        none: Mapping[Key, Result] = {}
        reading = partial(read, chunk)
        readings = run_isolated(reading, otherwise=none, event=event, key=chunk[0], at=at)
        for key in chunk:
            yield key, readings.get(key)


def report_crash(error: BaseException, *, event: str, key: object, at: datetime) -> None:
    """Log a fault with its traceback, and count it; for faults that were caught elsewhere.

    Args:
        error: The fault.
        event: As it is logged and counted.
        key: The item.
        at: When, UTC.
    """
    log.error(event, key=str(key), exc_info=error)
    count_crash(error, event=event, key=key, at=at)


def count_crash(error: BaseException, *, event: str, key: object, at: datetime) -> None:
    """Count a fault that is logged elsewhere; one statement.

    The fault may be a lost connection: outside a transaction it is replaced first. Inside, the code
    that began the transaction closes it.

    Args:
        error: The fault; its class is stored, not its message.
        event: As it is counted.
        key: The item.
        at: When, UTC.
    """
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
    with connection.cursor() as cursor:
        cursor.execute(
            COUNT,
            {
                "event": event,
                "at": at,
                "key": str(key)[:TEXT_LENGTH_MAX],
                "error": type(error).__qualname__[:TEXT_LENGTH_MAX],
            },
        )
