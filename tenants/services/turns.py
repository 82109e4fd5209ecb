"""Turns: a sweep does something for one after the other, and a fault of one stops no other.

What crashed is logged with its traceback, and counted in a table: a fault that comes back at every
tick must not be a line in a log alone. `gpu_ledger_sweep_crashes_total` shows it.
"""

from collections.abc import Callable, Iterable
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


def take_turns(keys: Iterable[Key], deed: Callable[[Key], int], *, event: str, at: datetime) -> int:
    """Do something for each, and return the sum of what was returned; see `take_turn`.

    Args:
        keys: Whose turn it is, in this order.
        deed: Called with each; in a transaction of its own if it writes.
        event: As a crash is logged and counted.
        at: When the sweep is made, UTC.
    """
    return sum(
        take_turn(partial(deed, key), otherwise=0, event=event, key=key, at=at) for key in keys
    )


def take_turn(
    deed: Callable[[], Result], *, otherwise: Result, event: str, key: object, at: datetime
) -> Result:
    """Do something for one; a fault is told and counted, and the others have their turn.

    Refusals that are expected are caught by the deed itself: whatever comes here is a mistake.

    Args:
        deed: What is done, in a transaction of its own if it writes.
        otherwise: Returned after a fault.
        event: As a crash is logged and counted, such as "quotas.loans.crashed".
        key: Whose turn it is: an id, never a name.
        at: When the sweep is made, UTC.

    Raises:
        celery.exceptions.SoftTimeLimitExceeded: The task's time is over, which is no fault of whose
            turn it just was: the task fails, and is counted under its own name.
        django.db.DatabaseError: A crash cannot be counted, since the database is away: then nobody
            else's turn would come to anything.
    """
    try:
        return deed()
    except SoftTimeLimitExceeded:
        raise
    except Exception as error:  # noqa: BLE001 - A sweep's item edge: it is told, not swallowed.
        tell_crash(error, event=event, key=key, at=at)
        return otherwise


def tell_crash(error: BaseException, *, event: str, key: object, at: datetime) -> None:
    """Log a fault with its traceback, and count it; for faults that were caught elsewhere.

    Args:
        error: The fault.
        event: As it is logged and counted.
        key: Whose turn it was.
        at: When, UTC.
    """
    log.error(event, key=str(key), exc_info=error)
    count_crash(error, event=event, key=key, at=at)


def count_crash(error: BaseException, *, event: str, key: object, at: datetime) -> None:
    """Count a fault that is logged elsewhere; one statement.

    The fault may be that the server has ended this connection: outside a transaction a new one is
    made then. Inside, whoever began it closes it.

    Args:
        error: The fault; its class is kept, and not what it says.
        event: As it is counted.
        key: Whose turn it was.
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
