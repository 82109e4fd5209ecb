"""Ticks of enforcement: limits become true in the clusters, and are read again.

`tick` does at once what the tasks spread over workers. A message carries ids and only makes it
sooner; the next tick would find the same targets.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from celery import Task, shared_task
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError

from quotas.adapters import quota_enforcer
from quotas.selectors.enforcement import due_target_ids, unread_target_ids
from quotas.services import enforcement, target_plans
from quotas.services.hints import TASK_NAME
from quotas.tasks.ticking import ACTOR
from tenants.domain.actors import Actor

TARGETS_PER_TICK: Final = 1_000
"""As many namespaces as a minute's work can bring from nothing to applied."""
TARGETS_PER_TASK: Final = 50
"""So few that one worker's claims do not end before it comes to them, and several workers share."""
ROUNDS_MAX: Final = 4
"""Lower, read back, raise; and once more for what another worker lowered meanwhile."""

log = structlog.get_logger(__name__)


def tick(at: datetime, actor: Actor = ACTOR) -> int:
    """Plan, apply everything due, and check what was not read for a while; return how many.

    One target that crashes does not keep the others from their turn.

    Args:
        at: When, UTC.
        actor: Who ticks.
    """
    refresh_targets(at=at, actor=actor)
    due = due_target_ids(at=at, limit=TARGETS_PER_TICK)
    unread = unread_target_ids(at=at, limit=TARGETS_PER_TICK)
    enforcer = quota_enforcer(settings.QUOTA_ENFORCER)
    enforcement.apply_targets(target_ids=due, enforcer=enforcer, actor=actor, at=at)
    enforcement.check_targets(target_ids=unread, enforcer=enforcer, actor=actor, at=at)
    return len(due) + len(unread)


def refresh_targets(*, at: datetime, actor: Actor, organization_id: UUID | None = None) -> int:
    """Plan with the settings' burst classes; see `target_plans.refresh_targets`."""
    return target_plans.refresh_targets(
        at=at,
        actor=actor,
        burst_classes=settings.BURST_PRIORITY_CLASSES,
        organization_id=organization_id,
    )


@shared_task(name="quotas.tick_enforcement")
def tick_enforcement() -> None:
    """Plan, and send messages for all targets that are due or unread for a while."""
    at = timezone.now()
    refresh_targets(at=at, actor=ACTOR)
    _announce(apply_targets, due_target_ids(at=at, limit=TARGETS_PER_TICK))
    _announce(check_targets, unread_target_ids(at=at, limit=TARGETS_PER_TICK))


@shared_task(name="quotas.apply_targets")
def apply_targets(target_ids: list[int]) -> None:
    """Tell clusters what some namespaces should say, where that is due."""
    enforcement.apply_targets(
        target_ids=target_ids,
        enforcer=quota_enforcer(settings.QUOTA_ENFORCER),
        actor=ACTOR,
        at=timezone.now(),
    )


@shared_task(name="quotas.check_targets")
def check_targets(target_ids: list[int]) -> None:
    """Read again what some namespaces say, and repair it."""
    enforcement.check_targets(
        target_ids=target_ids,
        enforcer=quota_enforcer(settings.QUOTA_ENFORCER),
        actor=ACTOR,
        at=timezone.now(),
    )


@shared_task(name=TASK_NAME)
def enforce_organization(organization_id: str) -> None:
    """Plan one organization and apply it at once: what was changed is live within seconds.

    A share that waits until another was seen lowered is raised in the next round.
    """
    owner = UUID(organization_id)
    for _ in range(ROUNDS_MAX):
        refresh_targets(at=timezone.now(), actor=ACTOR, organization_id=owner)
        due = due_target_ids(at=timezone.now(), limit=TARGETS_PER_TICK, organization_id=owner)
        if not due:
            return
        for batch in _batches(due):
            apply_targets(batch)


def _batches(target_ids: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(target_ids), TARGETS_PER_TASK):
        yield target_ids[start : start + TARGETS_PER_TASK]


def _announce(task: Task, target_ids: list[int]) -> None:
    for batch in _batches(target_ids):
        try:
            task.delay(batch)
        except OperationalError:
            # The broker is away; the next tick finds the same targets.
            log.warning("quotas.enforcement.unannounced", targets=len(batch))
            return
