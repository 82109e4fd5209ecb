"""Enforcement: limits become true in the clusters, and are read again.

`tick` does at once what the task does in slices. A wake-up names no namespace: what is due stands
in the tables.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from celery import shared_task
from django.conf import settings

from quotas.adapters import quota_enforcer
from quotas.protocols import QuotaEnforcer
from quotas.selectors.enforcement.targets import due_target_ids, unread_target_ids
from quotas.services.enforcement import applying as enforcement
from quotas.services.enforcement import targets as target_plans
from quotas.services.enforcement.coverage import refresh_coverage
from quotas.services.enforcement.refused_pods import refresh_refused_pods
from quotas.services.enforcement.selectors import follow_bindings
from quotas.services.limits.changes import ENFORCEMENT
from quotas.tasks.ticking import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.wakeups import WakeUp

TARGETS_PER_TICK: Final = 1_000
"""As many namespaces as a minute's work can bring from nothing to applied."""
TARGETS_PER_BATCH: Final = 50
"""So few that one worker's leases do not end before it comes to them."""
ROUNDS_MAX: Final = 4
"""Lower, read back, raise; and once more for what another worker lowered meanwhile."""


def tick(at: datetime, actor: Actor = ACTOR) -> int:
    """Plan, apply everything due, and check what was not read for a while; return how many.

    A target that crashes does not stop the others.

    Args:
        at: When, UTC.
        actor: The account that ticks.
    """
    enforcer = quota_enforcer(settings.QUOTA_ENFORCER)
    follow_bindings(enforcer=enforcer, actor=actor, at=at)
    refresh_coverage(enforcer=enforcer, actor=actor, at=at)
    refresh_refused_pods(enforcer=enforcer, actor=actor, at=at)
    refresh_targets(at=at, actor=actor)
    due = due_target_ids(at=at, limit=TARGETS_PER_TICK)
    unread = unread_target_ids(at=at, limit=TARGETS_PER_TICK)
    enforcement.apply_targets(target_ids=due, enforcer=enforcer, actor=actor, at=at)
    enforcement.check_targets(target_ids=unread, enforcer=enforcer, actor=actor, at=at)
    return len(due) + len(unread)


def refresh_targets(*, at: datetime, actor: Actor) -> int:
    """Plan with the settings' burst classes; see `target_plans.refresh_targets`."""
    return target_plans.refresh_targets(
        at=at, actor=actor, burst_classes=settings.BURST_PRIORITY_CLASSES
    )


@shared_task(base=WakeUp, name=ENFORCEMENT)
def tick_enforcement() -> Iterator[int]:
    """Plan, apply what is due, and read again what was not read for a while, batch by batch.

    After each applied batch one batch is read again, so that a slice that an unresponsive cluster
    ends early still finds drift elsewhere. A share that waits until another was read back lowered
    is raised in the next run.
    """
    enforcer = quota_enforcer(settings.QUOTA_ENFORCER)
    unread = _batches(unread_target_ids(at=database_now(), limit=TARGETS_PER_TICK))
    follow_bindings(enforcer=enforcer, actor=ACTOR, at=database_now())
    refresh_coverage(enforcer=enforcer, actor=ACTOR, at=database_now())
    refresh_refused_pods(enforcer=enforcer, actor=ACTOR, at=database_now())
    for _ in range(ROUNDS_MAX):
        refresh_targets(at=database_now(), actor=ACTOR)
        due = due_target_ids(at=database_now(), limit=TARGETS_PER_TICK)
        for batch in _batches(due):
            applied = enforcement.apply_targets(
                target_ids=batch, enforcer=enforcer, actor=ACTOR, at=database_now()
            )
            yield applied + _check(next(unread, []), enforcer=enforcer)
        if not due:
            break
    for batch in unread:
        yield _check(batch, enforcer=enforcer)


def _check(target_ids: list[int], *, enforcer: QuotaEnforcer) -> int:
    """Read a batch of namespaces again; return how many had drifted."""
    if not target_ids:
        return 0
    return enforcement.check_targets(
        target_ids=target_ids, enforcer=enforcer, actor=ACTOR, at=database_now()
    )


def _batches(target_ids: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(target_ids), TARGETS_PER_BATCH):
        yield target_ids[start : start + TARGETS_PER_BATCH]
