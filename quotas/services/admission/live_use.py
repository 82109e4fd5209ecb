"""Live use: reservations follow the pods that the watch reported, and counters the reservations.

The reservation of an observed pod does not expire; that of a bound pod gets the devices it really
has; that of a deleted pod is released; a bound pod that was not admitted gets one. Moved namespaces
and changed owners are updated. A sweep takes a few statements per batch, and as many batches as the
changes need.
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
from quotas.domain.admission.live_use import (
    Bypass,
    LiveUseSweep,
    Repair,
    repairs_of,
    sweep_of,
    together,
)
from quotas.models import QuotaLimit
from tenants.domain.actors import Actor
from tenants.services.audit import record
from tenants.services.turns import run_isolated

CRASHED: Final = "quotas.live_use.crashed"
NAMESPACES_TOLD: Final = 50
"""So many namespaces with bypasses an audit entry names; the rest are in the ledger."""
KEYS_PER_TURN: Final = 50
"""Small enough that a batch hardly delays concurrent admission (docs/adr/0020)."""

log = structlog.get_logger(__name__)


def sweep_live_use(*, burst_classes: Sequence[str], actor: Actor, at: datetime) -> LiveUseSweep:
    """Reconcile every reservation and counter with the allocation ledger.

    One query without locks divides the changes into short batches; each is its own transaction and
    blocks admission only in its own organizations. A batch that waits too long for a lock or that
    crashes is counted and left to the next sweep; the others go on. Pods that bypassed admission
    are written to the audit trail in the transaction of the batch that finds them.

    Args:
        burst_classes: PriorityClasses whose pods count as burst.
        actor: The account that sweeps.
        at: When, UTC: decides whose a namespace is, and what has expired.
    """
    given = at, list(burst_classes)
    with connection.cursor() as cursor:
        cursor.execute("SELECT keys::text FROM quotas_batches(%s, %s, %s)", [*given, KEYS_PER_TURN])
        turns = [keys for (keys,) in cursor.fetchall()]
    return together(
        run_isolated(
            partial(_turn, *given, keys, actor=actor),
            otherwise=LiveUseSweep(turns_crashed=1),
            event=CRASHED,
            key=_begin_of(keys),
            at=at,
        )
        for keys in turns
    )


def _begin_of(keys: str) -> str:
    """Return the first organization of a batch: its id, or ""."""
    first = json.loads(keys)[0]
    return first["organization_id"] or first["organization_before"] or ""


def _turn(at: datetime, burst_classes: list[str], keys: str, *, actor: Actor) -> LiveUseSweep:
    """Sweep some keys, and audit the pods that bypassed admission."""
    try:
        with transaction.atomic():
            statement = "SELECT quotas_sweep(%s, %s, %s::jsonb)"
            swept = sweep_of(_answer(statement, at, burst_classes, keys))
            _tell(swept.bypasses, actor=actor, at=at)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        log.warning("quotas.live_use.batch_skipped", reason=str(error).strip())
        return LiveUseSweep(turns_left=1)
    return swept


def _tell(bypasses: Sequence[Bypass], *, actor: Actor, at: datetime) -> None:
    """Write one audit entry for one batch; units of unknown size are left out of the sum."""
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
    """Compare every counter with its reservations, and repair differences by organization.

    The comparison reads one snapshot without locks; only an organization with a difference is
    locked. A repair leaves one audit entry.

    Args:
        actor: The account that repairs.
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

    Three statements, or one without allowances. It is a reading of the usage ledger, not a
    decision, and leaves no audit entry.

    Args:
        actor: The account that refreshes.
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
