"""Live use: reservations follow what the watch has told of their pods, and counters follow them.

A reserved pod that was seen no longer expires; a bound one holds what it really got; one that is
gone gives its units back; a bound one that nobody let in is found. Namespaces that moved and owners
that changed are followed. Every function is a fixed number of statements.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from quotas.domain.live_use import Repair, Sweep, repairs_of, sweep_of
from tenants.domain.actors import Actor
from tenants.services.audit import record

NAMESPACES_TOLD = 50
"""So many namespaces with bypasses an audit entry names; the rest are in the ledger."""


@transaction.atomic
def sweep_live_use(*, burst_classes: Sequence[str], actor: Actor, at: datetime) -> Sweep:
    """Bring every reservation and counter to what the allocation ledger says now.

    Only organizations where something changes are kept from admitting meanwhile. Pods that went
    around admission leave one audit entry a sweep.

    Args:
        burst_classes: PriorityClasses whose pods count as burst.
        actor: Who sweeps.
        at: When, UTC: decides whose a namespace is, and what has expired.

    Raises:
        django.db.OperationalError: A lock was held longer than `lock_timeout`; nothing changed.
    """
    swept = sweep_of(_answer("SELECT quotas_sweep(%s, %s)", at, list(burst_classes)))
    if swept.bypasses:
        record(
            actor=actor,
            at=at,
            action="quotas:admission:bypassed",
            object_kind="reservation",
            object_id=at.isoformat(),
            facts={
                "pods": sum(bypass.pods for bypass in swept.bypasses),
                "units": sum(bypass.units for bypass in swept.bypasses),
                "namespaces": [
                    f"{bypass.cluster}/{bypass.namespace}"
                    for bypass in swept.bypasses[:NAMESPACES_TOLD]
                ],
            },
        )
    return swept


@transaction.atomic
def repair_counters(*, actor: Actor, at: datetime) -> tuple[Repair, ...]:
    """Compare every counter with its reservations, and set right what is off, by organization.

    The comparison reads one snapshot and keeps nobody waiting; only an organization that is off is
    locked. One audit entry tells a repair.

    Args:
        actor: Who repairs.
        at: When, UTC.

    Raises:
        django.db.OperationalError: A lock was held longer than `lock_timeout`; nothing changed.
    """
    repairs = repairs_of(_answer("SELECT quotas_repair(%s)", at))
    if repairs:
        record(
            actor=actor,
            at=at,
            action="quotas:counter:repaired",
            object_kind="quota_counter",
            object_id=at.isoformat(),
            facts={
                "drift_units": sum(repair.drift_units for repair in repairs),
                "limits": [str(repair.limit_id) for repair in repairs],
            },
        )
    return repairs


def _answer(statement: str, *given: datetime | list[str]) -> Any:  # noqa: ANN401 - JSON of the ledger.
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        (answer,) = cursor.fetchone()
    return json.loads(answer)
