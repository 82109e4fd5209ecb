"""Live use: reservations follow the pods that the watch reported, and counters follow them.

A reserved pod that was seen no longer expires; a bound one holds what it really got; one that is
gone gives its units back; a bound one that nobody let in is found. Namespaces that moved and owners
that changed are followed. A sweep takes a few statements a turn, and as many turns as what changed
needs, whoever it belongs to.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import structlog
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from metering.selectors.collection.usage import month_use
from quotas.domain.admission.live_use import Bypass, Repair, Sweep, repairs_of, sweep_of, together
from quotas.models import QuotaLimit
from tenants.domain.actors import Actor
from tenants.services.audit import record
from tenants.services.turns import run_isolated

CRASHED: Final = "quotas.live_use.crashed"
NAMESPACES_TOLD: Final = 50
"""So many namespaces with bypasses an audit entry names; the rest are in the ledger."""
KEYS_PER_TURN: Final = 50
"""So few that a pod that asks beside hardly notices a turn (docs/adr/0020)."""

log = structlog.get_logger(__name__)


def sweep_live_use(*, burst_classes: Sequence[str], actor: Actor, at: datetime) -> Sweep:
    """Bring every reservation and counter to what the allocation ledger says now.

    One look, which locks nothing, makes short turns; each is a transaction of its own and keeps
    only its own organizations from admitting meanwhile. A turn whose organizations somebody else
    has locked too long is left to the next sweep, and so is one that crashes: that is counted, and
    the others are taken. Pods that went around admission are told in the audit trail with the turn
    that finds them, so that nothing is lost between two turns.

    Args:
        burst_classes: PriorityClasses whose pods count as burst.
        actor: Who sweeps.
        at: When, UTC: decides whose a namespace is, and what has expired.
    """
    given = at, list(burst_classes)
    with connection.cursor() as cursor:
        cursor.execute("SELECT keys::text FROM quotas_turns(%s, %s, %s)", [*given, KEYS_PER_TURN])
        turns = [keys for (keys,) in cursor.fetchall()]
    return together(
        run_isolated(
            partial(_turn, *given, keys, actor=actor),
            otherwise=Sweep(turns_crashed=1),
            event=CRASHED,
            key=_begin_of(keys),
            at=at,
        )
        for keys in turns
    )


def _begin_of(keys: str) -> str:
    """Return whose reservation comes first in a turn: the id of an organization, or ""."""
    first = json.loads(keys)[0]
    return first["organization_id"] or first["organization_before"] or ""


def _turn(at: datetime, burst_classes: list[str], keys: str, *, actor: Actor) -> Sweep:
    """Sweep some keys, and tell what went around admission with them."""
    try:
        with transaction.atomic():
            statement = "SELECT quotas_sweep(%s, %s, %s::jsonb)"
            swept = sweep_of(_answer(statement, at, burst_classes, keys))
            _tell(swept.bypasses, actor=actor, at=at)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        log.warning("quotas.live_use.batch_skipped", reason=str(error).strip())
        return Sweep(turns_left=1)
    return swept


def _tell(bypasses: Sequence[Bypass], *, actor: Actor, at: datetime) -> None:
    """Leave one audit entry of what one turn found; units of nobody knows which size are no sum."""
    if not bypasses:
        return
    facts: dict[str, Any] = {
        "pods": sum(bypass.pods for bypass in bypasses),
        "units": sum(bypass.units for bypass in bypasses if bypass.size),
        "namespaces": list(
            dict.fromkeys(f"{bypass.cluster}/{bypass.namespace}" for bypass in bypasses)
        )[:NAMESPACES_TOLD],
    }
    if unsized := sum(bypass.pods for bypass in bypasses if not bypass.size):
        facts["pods_of_unknown_size"] = unsized
    record(
        actor=actor,
        at=at,
        action="quotas:admission:bypassed",
        object_kind="reservation",
        object_id=at.isoformat(),
        facts=facts,
    )


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


def _answer(statement: str, *given: datetime | list[str] | str) -> Any:  # noqa: ANN401 - JSON of the ledger.
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        (answer,) = cursor.fetchone()
    return json.loads(answer)


@transaction.atomic
def refresh_allowances(*, actor: Actor, at: datetime) -> int:
    """Set what this UTC month has used on every limit with an allowance; return how many.

    Three statements, or one when nobody has an allowance. It is a reading of the usage ledger, not
    a decision, and leaves no audit entry.

    Args:
        actor: Who refreshes.
        at: When, UTC: decides which month it is.
    """
    del actor
    if not QuotaLimit.objects.filter(monthly_unit_hours__isnull=False).exists():
        return 0
    begin = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    used = [
        {
            "organization_id": str(row.organization_id),
            "project_id": str(row.project_id),
            "username": row.username,
            "cluster_id": str(row.cluster_id),
            "size": row.size,
            "model_groups": [row.model_group],
            "unit_seconds": row.unit_seconds,
        }
        for row in month_use(month_begin=begin, at=at)
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quotas_count_months(%s, %s::jsonb)", [begin.date(), json.dumps(used)]
        )
        (written,) = cursor.fetchone()
    return int(written)
