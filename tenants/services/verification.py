"""Verification of the database in batches, so that another process can continue a run.

A run reads everything that is frozen and compares it with its digests. The result is stored and
logged outside the database: an attacker that changes entries, leaves and the stored digest of the
last run still differs from the log.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from django.db import OperationalError, transaction

from tenants.domain.actors import Actor
from tenants.domain.verification import DIFFERENCES_KEPT_MAX, Check, CheckedBatch
from tenants.models import Verification
from tenants.services.audit import record

logger = structlog.get_logger(__name__)

AUDIT = "audit entries"
"""The check whose last batch says count and digest of all leaves."""


def begin_verification(
    *,
    checks: Mapping[str, Check],
    cursor: Mapping[str, Any] | None = None,
    is_nightly: bool = False,
    accepted_entry_id: int = 0,
    at: datetime,
) -> Verification:
    """Return a new run, at the begin of its first check.

    Args:
        checks: By name, in their order.
        cursor: Where the first check begins; None for its own begin.
        is_nightly: Whether any worker may continue it.
        accepted_entry_id: The audit entry up to which ends of earlier runs are set aside.
        at: When, UTC; the database writes its own time instead.
    """
    run = Verification.objects.create(
        started_at=at,
        checks=list(checks),
        check_name=next(iter(checks)),
        is_nightly=is_nightly,
        accepted_entry_id=accepted_entry_id,
        cursor=dict(cursor or {}),
    )
    run.refresh_from_db()
    return run


@transaction.atomic
def accept_earlier_ends(
    *, checks: Mapping[str, Check], entry_id: int, reason: str, actor: Actor, at: datetime
) -> Verification:
    """Return a new run that, like all after it, compares no end of a run up to an audit entry.

    For the owner of the tables, after an investigation: an end that was forged cannot be deleted.

    Raises:
        IntegrityError: The database role does not own the tables.
    """
    run = begin_verification(checks=checks, accepted_entry_id=entry_id, at=at)
    record(
        actor=actor,
        at=at,
        action="tenants:verification:accept",
        object_kind="verification",
        object_id=run.pk,
        facts={"accepted_entry": entry_id, "reason": reason},
    )
    return run


def verify_batch(
    *, run: Verification, checks: Mapping[str, Check], actor: Actor, at: datetime
) -> CheckedBatch:
    """Read one batch of the run's check, store its result and return it.

    After the last batch of the last check the run is ended, logged and in the audit trail.
    """
    batch = _read(checks[run.check_name], cursor=run.cursor)
    run.counts[run.check_name] = run.counts.get(run.check_name, 0) + batch.count
    headroom = DIFFERENCES_KEPT_MAX - len(run.differences)
    run.differences += batch.differences[:headroom]
    run.difference_count += len(batch.differences)
    for sentence in batch.differences:
        logger.error(
            "tenants.verification.differences_found", check=run.check_name, sentence=sentence
        )
    if run.check_name == AUDIT and batch.facts:
        run.audit_count, run.audit_digest = batch.facts["count"], batch.facts["digest"]
    run.cursor = dict(batch.cursor or {})
    if batch.is_last:
        names = list(checks)
        following = names[names.index(run.check_name) + 1 :]
        run.check_name = following[0] if following else ""
    if run.check_name:
        run.save()
    else:
        _end(run, actor=actor, at=at)
    return batch


def _read(check: Check, *, cursor: Mapping[str, Any]) -> CheckedBatch:
    """Read one batch; where even its rows cannot be read, that differs and the next check follows.

    Raises:
        OperationalError: The database did not answer, which is no difference.
    """
    try:
        with transaction.atomic():
            return check(cursor)
    except OperationalError:
        raise
    except Exception as error:
        logger.exception("tenants.verification.unreadable", cursor=dict(cursor))
        return CheckedBatch(
            0, (f"What follows {dict(cursor)} cannot be read: {type(error).__name__}.",)
        )


@transaction.atomic
def _end(run: Verification, *, actor: Actor, at: datetime) -> None:
    run.save()
    facts = {
        "differences": run.difference_count,
        "audit_count": run.audit_count,
        "audit_digest": run.audit_digest,
    }
    record(
        actor=actor,
        at=at,
        action="tenants:verification:end",
        object_kind="verification",
        object_id=run.pk,
        facts=facts,
    )
    logger.info("tenants.verification.finished", **facts, rows=sum(run.counts.values()))
