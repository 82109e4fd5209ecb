"""Counters of limits: opened with the sum of what counts already, and kept apart from admission.

Admission holds its organization's lock shared; whoever opens, closes or recomputes counters holds
it alone. It is taken after every row lock of `lock_limit_path` (docs/adr/0020).
"""

from datetime import datetime
from uuid import UUID

from django.db import connection

from quotas.models import QuotaCounter, QuotaLimit


def open_counter(*, limit: QuotaLimit, at: datetime) -> QuotaCounter:
    """Open the counter of a limit with what counts against it now; an open one stays as it is.

    Called in the transaction that makes the limit. It leaves no audit entry: the limit's tells it.

    Args:
        limit: A saved limit.
        at: When, UTC.

    Raises:
        RuntimeError: Called outside a transaction, where the lock would end at once.
    """
    _require_transaction()
    _call("SELECT quotas_open_counters(%s)", limit.organization_id)
    counter = QuotaCounter.objects.get(pk=limit.pk)
    counter.checked_at = at
    counter.save(update_fields=["checked_at"])
    return counter


def lock_counters(*, organization_id: UUID) -> None:
    """Keep admission out of an organization until the transaction ends.

    Taken before what is in force changes, so that whoever is let in afterwards saw the change; and
    before a limit is deleted, whose counter goes with it.

    Raises:
        RuntimeError: Called outside a transaction, where the lock would end at once.
    """
    _require_transaction()
    _call("SELECT pg_advisory_xact_lock(quotas_lock_key(%s))", organization_id)


def _require_transaction() -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("Counters are locked inside a transaction.")


def _call(statement: str, organization_id: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, [organization_id])
