"""Row locks: taken here only, in one order, so that two transactions never wait for each other.

The order is billing period -> organization -> project -> people -> cluster -> window, then any
other row, and within one table by primary key. Numbers (invoice sequences) are taken last. Locks
are FOR NO KEY UPDATE: they keep other writers out, but not rows that merely point here.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from django.db import models, transaction
from django.db.models import QuerySet

LOCK_ORDER: Final = (
    "billing.billingperiod",
    "tenants.organization",
    "tenants.project",
    "auth.user",
    "tenants.serviceaccount",
    "tenants.membership",
    "tenants.cluster",
    "tenants.namespacebinding",
    "metering.meteringwindow",
)
"""Tables in the order in which a transaction locks their rows; unnamed ones come after."""

METERED_HOURS_LOCK: Final = 0x7465_0001_0000_0002
"""Of which hours of clusters are metered: no month is detached while they change."""

Row = TypeVar("Row", bound=models.Model)


def lock_rows(rows: QuerySet[Row]) -> list[Row]:
    """Lock rows until the transaction ends and return them as they are now, by primary key.

    Args:
        rows: Which rows of one table; its order is replaced, rows of joined tables stay free.

    Raises:
        RuntimeError: Called outside a transaction, where the lock would end at once.
        django.db.OperationalError: Another transaction kept a row longer than `lock_timeout`.
    """
    _require_transaction(rows.db)
    return list(rows.order_by("pk").select_for_update(of=("self",), no_key=True))


def lock_in_order(*tables: QuerySet[Any]) -> tuple[list[Any], ...]:
    """Lock rows of several tables; one list of rows per table, in the order of the arguments.

    Raises:
        ValueError: The tables are not in `LOCK_ORDER`.
        RuntimeError: Called outside a transaction.
    """
    ranks = [_rank(table.model) for table in tables]
    if ranks != sorted(ranks):
        raise ValueError(f"Lock tables in the order {', '.join(LOCK_ORDER)}.")
    return tuple(lock_rows(table) for table in tables)


def try_advisory_lock(*, key: int, using: str = "default") -> bool:
    """Take a lock on a number until the transaction ends; False when another transaction has it.

    Args:
        key: A signed 64-bit number.
        using: The database.

    Raises:
        RuntimeError: Called outside a transaction.
    """
    _require_transaction(using)
    with transaction.get_connection(using).cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
        answer: Sequence[bool] = cursor.fetchone()
    return answer[0]


def wait_advisory_lock(*, key: int, using: str = "default") -> None:
    """Take a lock on a number until the transaction ends, and wait until it is free.

    Args:
        key: A signed 64-bit number.
        using: The database.

    Raises:
        RuntimeError: Called outside a transaction.
        django.db.OperationalError: Another transaction kept it longer than `lock_timeout`.
    """
    _require_transaction(using)
    with transaction.get_connection(using).cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])


def lock_metered_hours() -> None:
    """Wait until no other transaction changes which hours are metered, or detaches a month.

    Raises:
        RuntimeError: Called outside a transaction.
        django.db.OperationalError: Another transaction kept it longer than `lock_timeout`.
    """
    wait_advisory_lock(key=METERED_HOURS_LOCK)


def _require_transaction(using: str) -> None:
    if not transaction.get_connection(using).in_atomic_block:
        raise RuntimeError("Rows are locked inside a transaction.")


def _rank(model: type[models.Model]) -> int:
    label = model._meta.label_lower  # noqa: SLF001 - Django's documented model meta.
    return LOCK_ORDER.index(label) if label in LOCK_ORDER else len(LOCK_ORDER)
