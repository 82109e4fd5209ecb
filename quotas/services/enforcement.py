"""Making limits true in the clusters: level-triggered, fenced by generations, never forced.

`refresh_targets` says what every namespace should say; `apply_target` tells one cluster and calls
it applied only when the cluster says so; `check_target` reads again what was applied. All of them
may run at any time, any number of times, in any order.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F

from quotas.domain.planning import PlaceFacts, ceiling_of, plan_quotas
from quotas.domain.resource_quota import has_arrived
from quotas.models import EnforcementState, EnforcementTarget
from quotas.protocols import (
    DesiredQuota,
    EnforcementEndpoint,
    QuotaConflictError,
    QuotaEnforcer,
    StaleGenerationError,
)
from quotas.selectors.enforcement import (
    UNSETTLED,
    bindings_in_force,
    clusters_enforced,
    granted_limits,
    lock_targets,
    place_facts,
)
from quotas.services.settling import (
    Claim,
    settle_applied,
    settle_conflict,
    settle_failure,
    settle_overtaken,
    settle_waiting,
    told_briefly,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.selectors.locks import try_advisory_lock
from tenants.services.audit import record

CLAIM_FOR: Final = timedelta(seconds=60)
"""How long one worker has a target to itself; longer than every time limit of an enforcer."""
REFRESH_LOCK: Final = 7_020_301
"""The advisory lock of planning: one plan at a time is enough."""

log = structlog.get_logger(__name__)


@transaction.atomic
def refresh_targets(*, at: datetime, actor: Actor) -> int:
    """Derive what every governed namespace should say now; return how many say something new.

    Nothing is sent: a target whose quota changed becomes due. Another refresh that is under way
    makes this one do nothing.

    Args:
        at: When, UTC: decides whose a namespace is.
        actor: Who plans; usually the service itself.
    """
    if not try_advisory_lock(key=REFRESH_LOCK):
        return 0
    clusters = clusters_enforced()
    targets = lock_targets()
    facts = place_facts(
        clusters=clusters, bindings=bindings_in_force(at=at), targets=targets, at=at
    )
    plan = plan_quotas(facts.values(), granted_limits())
    changed = [
        _replanned(key, fact, desired=plan[fact.place], target=targets.get(key), at=at)
        for key, fact in facts.items()
        if fact.place in plan and fact.desired != plan[fact.place]
    ]
    _save_planned(changed)
    if changed:
        record(
            actor=actor,
            at=at,
            action="quotas:enforcement:plan",
            object_kind="enforcement_target",
            object_id="*",
            facts={"targets": len(changed)},
        )
    return len(changed)


def _replanned(
    key: tuple[UUID, str],
    fact: PlaceFacts,
    *,
    desired: dict[str, int],
    target: EnforcementTarget | None,
    at: datetime,
) -> EnforcementTarget:
    """Return a target, new or known, that should say something new."""
    cluster_id, namespace = key
    row = target or EnforcementTarget(cluster_id=cluster_id, namespace=namespace)
    if fact.project_id is not None:
        row.project_id = fact.project_id
    row.ceiling_hard = ceiling_of(row.ceiling_hard, desired)
    row.desired_hard = desired
    row.desired_generation += 1
    row.state = EnforcementState.PENDING
    row.attempt = 0
    row.not_before = at
    return row


def _save_planned(rows: Iterable[EnforcementTarget]) -> None:
    EnforcementTarget.objects.bulk_create(
        [_without_key(row) for row in rows],
        update_conflicts=True,
        unique_fields=["cluster", "namespace"],
        update_fields=[
            "project",
            "ceiling_hard",
            "desired_hard",
            "desired_generation",
            "state",
            "attempt",
            "not_before",
        ],
    )


def _without_key(row: EnforcementTarget) -> EnforcementTarget:
    """Return the row as an upsert writes it: found by cluster and namespace."""
    row.pk = None
    return row


def apply_target(
    *, target_id: int, enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> EnforcementState:
    """Tell a cluster what one namespace should say, and return how far that came.

    The cluster is asked outside any transaction. What it answered is written only while the
    target still wants what was sent; otherwise it is due again.

    Args:
        target_id: Which target. One that is not due, or that another worker has, is left alone.
        enforcer: Who speaks with the cluster.
        actor: Who applies; usually the service itself.
        at: When, UTC.

    Raises:
        EnforcementTarget.DoesNotExist: There is no such target.
    """
    claim = _claim(target_id, at=at)
    if claim is None:
        return EnforcementState(EnforcementTarget.objects.get(pk=target_id).state)
    try:
        live = enforcer.apply(claim.endpoint, claim.desired)
    except QuotaConflictError as error:
        return settle_conflict(claim, error, actor=actor, at=at)
    except StaleGenerationError as error:
        return settle_overtaken(claim, error, actor=actor, at=at)
    except SourceUnavailableError as error:
        return settle_failure(claim, f"{error.reason}: {error}", at=at)
    if not has_arrived(claim.desired.hard, live.hard):
        return settle_waiting(claim, live, at=at)
    return settle_applied(claim, live, actor=actor, at=at)


def check_target(
    *, target_id: int, enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> EnforcementState:
    """Read again what an applied namespace says; repair it when it says something else.

    Raises:
        EnforcementTarget.DoesNotExist: There is no such target.
    """
    target = EnforcementTarget.objects.select_related("cluster").get(pk=target_id)
    if target.state != EnforcementState.APPLIED:
        return EnforcementState(target.state)
    seen = EnforcementTarget.objects.filter(
        ~UNSETTLED, pk=target_id, desired_generation=target.desired_generation
    )
    try:
        live = enforcer.read(_endpoint_of(target), target.namespace)
    except SourceUnavailableError as error:
        seen.update(checked_at=at, last_error=told_briefly(f"{error.reason}: {error}"))
        log.warning("quotas.enforcement.unread", target=target_id, reason=error.reason)
        return EnforcementState.APPLIED
    if has_arrived(target.desired_hard, live.hard):
        seen.update(live_hard=live.hard, live_used=live.used, checked_at=at, last_error="")
        return EnforcementState.APPLIED
    drifted = seen.update(
        state=EnforcementState.PENDING,
        drifted_at=at,
        checked_at=at,
        not_before=at,
        live_hard=live.hard,
        live_used=live.used,
        ceiling_hard=ceiling_of(target.ceiling_hard, live.hard),
    )
    if drifted:
        log.warning("quotas.enforcement.drifted", target=target_id)
    return apply_target(target_id=target_id, enforcer=enforcer, actor=actor, at=at)


@transaction.atomic
def _claim(target_id: int, *, at: datetime) -> Claim | None:
    """Take a due target for a while; None when it is not due, or somebody else has it."""
    taken = EnforcementTarget.objects.filter(UNSETTLED, pk=target_id, not_before__lte=at).update(
        not_before=at + CLAIM_FOR, attempt=F("attempt") + 1
    )
    if not taken:
        return None
    target = EnforcementTarget.objects.select_related("cluster", "project").get(pk=target_id)
    return Claim(
        target_id=target_id,
        endpoint=_endpoint_of(target),
        desired=DesiredQuota(
            namespace=target.namespace,
            hard=target.desired_hard,
            generation=target.desired_generation,
        ),
        attempt=target.attempt,
        has_drifted=target.drifted_at is not None,
        organization_id=target.project.organization_id,
    )


def _endpoint_of(target: EnforcementTarget) -> EnforcementEndpoint:
    return EnforcementEndpoint(
        slug=target.cluster.slug,
        kubernetes_url=target.cluster.kubernetes_url,
        credential_reference=target.cluster.credential_reference,
    )
