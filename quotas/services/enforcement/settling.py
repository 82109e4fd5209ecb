"""Writing what became of a claimed target: applied, waiting, refused, overtaken or failed.

Each outcome is written only while the target still wants what was sent.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F

from quotas.domain.enforcement.repairs import REPAIRS_MAX, REPAIRS_WITHIN, recent_repairs
from quotas.domain.enforcement.resource_quota import has_arrived, total_of
from quotas.models import EnforcementState, EnforcementTarget
from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    LiveQuota,
    QuotaConflictError,
    StaleGenerationError,
)
from tenants.domain.actors import Actor
from tenants.services.audit import record

FIRST_DELAY_SECONDS: Final = 5
DELAY_SECONDS_MAX: Final = 300
"""A quota is level-triggered and retried without end; five minutes is how stale it may stay at
most."""


def delay_after(attempt: int) -> timedelta:
    """Return the wait after an attempt, doubled each time up to the limit.

    Args:
        attempt: How many have failed in a row, 1 for the first.
    """
    doublings = min(max(attempt, 1) - 1, DELAY_SECONDS_MAX.bit_length())
    return timedelta(seconds=min(FIRST_DELAY_SECONDS << doublings, DELAY_SECONDS_MAX))


ERROR_LENGTH_MAX: Final = 1_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Claim:
    """A target one worker has to itself for a while, with what it should say."""

    target_id: int
    endpoint: EnforcementEndpoint
    desired: DesiredQuota
    attempt: int
    has_drifted: bool
    organization_id: UUID


def is_as_desired(desired: DesiredQuota, live: LiveQuota) -> bool:
    """Whether a cluster has every desired value, for every kind of pod."""
    if not desired.burst_hard:
        return has_arrived(desired.hard, live.hard)
    return (
        has_arrived(desired.hard, live.hard)
        and has_arrived(desired.burst_hard, live.burst_hard)
        and has_arrived(total_of(desired.hard, desired.burst_hard), live.total_hard)
    )


def _settle(claim: Claim, **fields: object) -> bool:
    """Write what became of a claim; False when the target wants something else by now."""
    return bool(
        EnforcementTarget.objects.filter(
            pk=claim.target_id, desired_generation=claim.desired.generation
        ).update(**fields)
    )


@transaction.atomic
def settle_applied(
    claim: Claim, live: LiveQuota, *, actor: Actor, at: datetime
) -> EnforcementState:
    """Mark a target applied: the values read back equal those sent."""
    before = EnforcementTarget.objects.values(
        "live_hard", "live_burst", "drift_managers", "repaired_at"
    ).get(pk=claim.target_id)
    repaired_at = recent_repairs(before["repaired_at"], at=at)
    if claim.has_drifted:
        repaired_at.append(at.isoformat())
    is_current = _settle(
        claim,
        state=EnforcementState.APPLIED,
        applied_generation=claim.desired.generation,
        applied_hard=claim.desired.hard,
        applied_burst=claim.desired.burst_hard,
        ceiling_hard=live.hard,
        ceiling_burst=live.burst_hard,
        attempt=0,
        last_error="",
        applied_at=at,
        drifted_at=None,
        drift_managers=[],
        drifts_repaired=F("drifts_repaired") + int(claim.has_drifted),
        repaired_at=repaired_at,
        **reported_columns(live, at=at),
    )
    if not is_current:
        return EnforcementState.PENDING
    facts = {"before": before["live_hard"], "after": live.hard}
    if live.burst_hard:
        facts |= {"before_burst": before["live_burst"], "after_burst": live.burst_hard}
    if claim.has_drifted:
        facts["managers"] = before["drift_managers"]
    verb = "drift_corrected" if claim.has_drifted else "apply"
    _record(claim, verb, facts, actor=actor, at=at)
    return EnforcementState.APPLIED


@transaction.atomic
def settle_conflict(
    claim: Claim, error: QuotaConflictError, *, actor: Actor, at: datetime
) -> EnforcementState:
    """Report the conflicting manager for review; try again later."""
    error_text = shorten_error(str(error))
    known = EnforcementTarget.objects.filter(
        pk=claim.target_id, state=EnforcementState.CONFLICT, last_error=error_text
    ).exists()
    _settle(
        claim,
        state=EnforcementState.CONFLICT,
        last_error=error_text,
        not_before=at + delay_after(claim.attempt),
    )
    if not known:
        log.error("quotas.enforcement.conflict", target=claim.target_id, managers=error.managers)
        facts = {"managers": list(error.managers), "differences": list(error.differences)}
        _record(claim, "conflict", facts, actor=actor, at=at)
    return EnforcementState.CONFLICT


def disputed_text(target: EnforcementTarget, *, retry_at: datetime) -> str:
    """Return why a quota that is deleted again and again is not restored at once."""
    minutes = REPAIRS_WITHIN // timedelta(minutes=1)
    return (
        f"The quota of {target.namespace} was deleted or changed again after {REPAIRS_MAX} repairs"
        f" within {minutes} minutes, as by a controller that prunes it. Exclude it there, then"
        f" apply it again; the next try is at {retry_at:%H:%M:%S} UTC."
    )


def record_disputed(
    target: EnforcementTarget, live: LiveQuota, *, actor: Actor, at: datetime
) -> None:
    """Report a quota that others delete or change again after each repair."""
    log.error("quotas.enforcement.conflict", target=target.pk, managers=live.managers)
    record(
        actor=actor,
        at=at,
        action="quotas:enforcement:conflict",
        object_kind="enforcement_target",
        object_id=target.pk,
        organization_id=target.project.organization_id,
        facts={
            "cluster": target.cluster.slug,
            "namespace": target.namespace,
            "generation": target.desired_generation,
            "managers": list(live.managers),
            "repaired_at": target.repaired_at,
        },
    )


@transaction.atomic
def settle_overtaken(
    claim: Claim, error: StaleGenerationError, *, actor: Actor, at: datetime
) -> EnforcementState:
    """Keep a newer quota, unless this service has no newer generation.

    Then the cluster has a newer generation than the database, as after a restored backup, and the
    database continues from it.
    """
    is_current = _settle(
        claim,
        state=EnforcementState.PENDING,
        desired_generation=error.generation + 1,
        not_before=at,
        last_error=shorten_error(str(error)),
    )
    if is_current:
        log.warning("quotas.enforcement.superseded", target=claim.target_id)
        facts = {"cluster_generation": error.generation}
        _record(claim, "overtake", facts, actor=actor, at=at)
    return EnforcementState.PENDING


def settle_waiting(claim: Claim, live: LiveQuota, *, at: datetime) -> EnforcementState:
    """Store the cluster's state so far; its controller has not caught up."""
    _settle(
        claim,
        state=EnforcementState.PENDING,
        not_before=at + delay_after(claim.attempt),
        **reported_columns(live, at=at),
        last_error="The cluster took the quota, but its status does not say so yet.",
    )
    log.info("quotas.enforcement.waiting", target=claim.target_id, attempt=claim.attempt)
    return EnforcementState.PENDING


def reported_columns(live: LiveQuota, *, at: datetime) -> dict[str, Any]:
    """Return the columns of a cluster's observed state."""
    return {
        "live_hard": live.hard,
        "live_used": live.used,
        "live_burst": live.burst_hard,
        "live_burst_used": live.burst_used,
        "foreign_quotas": live.foreign,
        "notice": live.notice,
        "checked_at": at,
    }


def settle_failure(claim: Claim, sentence: str, *, at: datetime) -> EnforcementState:
    """Store why the cluster did not accept it; it is retried later."""
    _settle(
        claim,
        state=EnforcementState.FAILED,
        last_error=shorten_error(sentence),
        not_before=at + delay_after(claim.attempt),
    )
    log.warning("quotas.enforcement.failed", target=claim.target_id, attempt=claim.attempt)
    return EnforcementState.FAILED


def shorten_error(sentence: str) -> str:
    """Return a sentence of the cluster, cut to what a row keeps."""
    return sentence[:ERROR_LENGTH_MAX]


def _record(claim: Claim, verb: str, facts: dict[str, Any], *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action=f"quotas:enforcement:{verb}",
        object_kind="enforcement_target",
        object_id=claim.target_id,
        organization_id=claim.organization_id,
        facts={
            "cluster": claim.endpoint.slug,
            "namespace": claim.desired.namespace,
            "generation": claim.desired.generation,
            **facts,
        },
    )
