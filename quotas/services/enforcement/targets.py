"""Plan targets: compute the desired quota of every namespace and store it.

Nothing is sent from here: a target whose desired quota changed becomes due.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction

from quotas.domain.enforcement.planning import PlaceFacts, PlannedQuota, ceiling_of, plan_quotas
from quotas.models import EnforcementState, EnforcementTarget
from quotas.selectors.enforcement.coverage import counted_by_cluster
from quotas.selectors.enforcement.namespaces import ground_of, place_facts
from quotas.selectors.enforcement.targets import (
    Key,
    bindings_in_force,
    clusters_enforced,
    granted_limits,
    lock_targets,
)
from tenants.domain.actors import Actor
from tenants.selectors.locks import wait_advisory_lock
from tenants.services.audit import record

REFRESH_LOCK: Final = 7_020_301
"""The advisory lock of planning: one plan at a time."""
PLANNED_FIELDS: Final = (
    "project",
    "ceiling_hard",
    "ceiling_burst",
    "desired_hard",
    "desired_burst",
    "desired_generation",
    "is_held",
    "state",
    "attempt",
    "not_before",
)


@dataclass(frozen=True)
class _DesiredQuota:
    """Desired quota of one namespace, and the one stored before."""

    key: Key
    fact: PlaceFacts
    quota: PlannedQuota
    target: EnforcementTarget | None

    @property
    def is_new(self) -> bool:
        """Whether it differs from what the target wants already."""
        target = self.target
        if target is None:
            return True
        return (target.desired_hard, target.desired_burst, target.is_held) != (
            self.quota.hard,
            self.quota.burst,
            self.fact.is_suspended,
        )


@transaction.atomic
def refresh_targets(
    *,
    at: datetime,
    actor: Actor,
    burst_classes: Iterable[str] = (),
    organization_id: UUID | None = None,
) -> int:
    """Plan the quota of every managed namespace; return how many changed.

    Args:
        at: When, UTC: decides which bindings, limits, grants and suspensions are in force.
        actor: The account that plans; usually the service itself.
        burst_classes: Names of the priority classes of preemptible pods.
        organization_id: Only this organization; None for all.

    Waits for a running plan: it may have read the limits before they changed.

    Raises:
        django.db.OperationalError: Another plan took longer than `lock_timeout`.
    """
    wait_advisory_lock(key=REFRESH_LOCK)
    desired_quotas = _desired_quotas(
        at=at, burst_classes=burst_classes, organization_id=organization_id
    )
    changed = [_replanned(desired, at=at) for desired in desired_quotas if desired.is_new]
    if changed:
        _save(changed)
        record(
            actor=actor,
            at=at,
            action="quotas:enforcement:plan",
            object_kind="enforcement_target",
            object_id="*",
            organization_id=organization_id,
            facts={"targets": len(changed)},
        )
    return len(changed)


def _desired_quotas(
    *, at: datetime, burst_classes: Iterable[str], organization_id: UUID | None
) -> list[_DesiredQuota]:
    clusters = clusters_enforced()
    targets = lock_targets(at=at, organization_id=organization_id)
    facts = place_facts(
        clusters=clusters,
        bindings=bindings_in_force(at=at, organization_id=organization_id),
        targets=targets,
        ground=ground_of(clusters.values(), at=at, burst_classes=burst_classes),
        counted=counted_by_cluster(clusters, at=at),
    )
    mine = {
        key: fact
        for key, fact in facts.items()
        if organization_id is None or fact.organization_id in {None, organization_id}
    }
    limits = granted_limits(at=at, clusters=clusters, organization_id=organization_id)
    plan = plan_quotas(mine.values(), limits)
    return [
        _DesiredQuota(key, fact, plan[fact.place], targets.get(key))
        for key, fact in mine.items()
        if fact.place in plan
    ]


def _replanned(desired: _DesiredQuota, *, at: datetime) -> EnforcementTarget:
    """Return a target, new or known, that should say something new."""
    cluster_id, namespace = desired.key
    row = desired.target or EnforcementTarget(cluster_id=cluster_id, namespace=namespace)
    if desired.fact.project_id is not None:
        row.project_id = desired.fact.project_id
    row.ceiling_hard = ceiling_of(row.ceiling_hard, desired.quota.hard)
    row.ceiling_burst = ceiling_of(row.ceiling_burst, desired.quota.burst)
    row.desired_hard = desired.quota.hard
    row.desired_burst = desired.quota.burst
    row.is_held = desired.fact.is_suspended
    row.desired_generation += 1
    row.state = EnforcementState.PENDING
    row.attempt = 0
    row.not_before = at
    return row


def _save(rows: Iterable[EnforcementTarget]) -> None:
    EnforcementTarget.objects.bulk_create(
        [_without_key(row) for row in rows],
        update_conflicts=True,
        unique_fields=["cluster", "namespace"],
        update_fields=PLANNED_FIELDS,
    )


def _without_key(row: EnforcementTarget) -> EnforcementTarget:
    """Return the row as an upsert writes it: found by cluster and namespace."""
    row.pk = None
    return row
