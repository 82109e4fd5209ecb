"""Locks of metering, in the order every caller follows: a window, then its cluster's ledger.

Every function must be called inside a transaction.
"""

from uuid import UUID

from django.db import connection

from metering.domain.collection.parts import Part

LEDGER_LOCK_CLASS = 0x6D650001
TICK_LOCK_CLASS = 0x6D650002
DEVICE_LOCK_CLASS = 0x6D650003
PART_LOCK_CLASS = 0x6D650004
"""First keys of the product's advisory locks, so that they do not collide with others."""


def holds_claim(window_id: int, *, fence: int) -> bool:
    """Lock a window and return whether a claim on it still holds, by the database's clock."""
    return _is_true(
        "SELECT state = 'collecting' AND fence = %s AND lease_until > clock_timestamp()"
        " FROM metering_meteringwindow WHERE id = %s FOR NO KEY UPDATE",
        fence,
        window_id,
    )


def holds_part(part_id: int, *, fence: int) -> bool:
    """Lock a part of a divided window and return whether a lease on it is still valid.

    Lock it before the cluster's ledger, and never lock its window afterwards.
    """
    return _is_true(
        "SELECT fence = %s AND state = 'leased' AND lease_until > clock_timestamp()"
        " FROM metering_windowpart WHERE id = %s FOR NO KEY UPDATE",
        fence,
        part_id,
    )


def holds_lease(cluster_id: UUID, *, holder: str, fence: int) -> bool:
    """Lock a cluster's watch and return whether a lease is still valid, by the database's clock.

    Lock it before the cluster's ledger, and never while holding a window's lock.
    """
    return _is_true(
        "SELECT fence = %s AND lease_owner = %s"
        " AND COALESCE(lease_until > clock_timestamp(), false)"
        " FROM metering_clusterwatch WHERE cluster_id = %s FOR UPDATE",
        fence,
        holder,
        cluster_id,
    )


def holds_recheck(recheck_id: int, *, fence: int) -> bool:
    """Lock a recheck and return whether a claim on it still holds; take it before its window."""
    return _is_true(
        "SELECT state = 'checking' AND fence = %s AND lease_until > clock_timestamp()"
        " FROM metering_windowrecheck WHERE id = %s FOR UPDATE",
        fence,
        recheck_id,
    )


def holds_device_figures(window_id: int, *, fence: int) -> bool:
    """Lock a window's device figures and return whether a lease on them is still valid."""
    return _is_true(
        "SELECT fence = %s AND state = 'collecting' AND lease_until > clock_timestamp()"
        " FROM metering_devicewindow WHERE window_id = %s FOR NO KEY UPDATE",
        fence,
        window_id,
    )


def lock_cluster_ledger(cluster_id: UUID) -> None:
    """Let one window of a cluster at a time write into the allocation ledger.

    Windows of one cluster share its pods; running one at a time, for some milliseconds, prevents
    deadlocks.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LEDGER_LOCK_CLASS, str(cluster_id)]
        )


def lock_ledger_part(cluster_id: UUID, *, part: Part) -> None:
    """Let one worker at a time write the pods of a part into the allocation ledger.

    Parts of hours that were divided differently overlap, so each first digit is locked, in order.
    """
    names = [f"{cluster_id} {digit}" for digit in part.first_digits or "-"]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock_shared(%s, hashtext(%s))",
            [LEDGER_LOCK_CLASS, str(cluster_id)],
        )
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(name)) FROM unnest(%s::text[]) AS name",
            [PART_LOCK_CLASS, names],
        )


def lock_device_events(cluster_id: UUID) -> None:
    """Let one hour of a cluster at a time write device events: a level may continue from before."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [DEVICE_LOCK_CLASS, str(cluster_id)]
        )


def try_tick_lock(name: str) -> bool:
    """Return whether this transaction may do a tick's work; False when another does it now."""
    return _is_true("SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", TICK_LOCK_CLASS, name)


def _is_true(statement: str, *parameters: int | str | UUID) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        row = cursor.fetchone()
    return bool(row and row[0])
