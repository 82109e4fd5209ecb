"""The Celery door of quotas: ticks that derive what is due, and one task per target.

A message carries an id and only makes it sooner; the next tick would find the same work. `tick`
does all of it without Celery.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
from celery import Task, shared_task
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError

from quotas.adapters import quota_enforcer
from quotas.models import EnforcementState
from quotas.selectors.enforcement import due_target_ids, unread_target_ids
from quotas.services import enforcement
from tenants.domain.actors import Actor, system_actor

TARGETS_PER_TICK: Final = 1_000
"""As many namespaces as a minute's work can bring from nothing to applied."""
ACTOR: Final = system_actor("quotas.tick")

log = structlog.get_logger(__name__)


def tick(at: datetime, actor: Actor = ACTOR) -> int:
    """Plan, apply everything due, and check what was not read for a while; return how many.

    One target that crashes does not keep the others from their turn.

    Args:
        at: When, UTC.
        actor: Who ticks.
    """
    enforcement.refresh_targets(at=at, actor=actor)
    due = due_target_ids(at=at, limit=TARGETS_PER_TICK)
    unread = unread_target_ids(at=at, limit=TARGETS_PER_TICK)
    for target_id in due:
        _go_on(enforcement.apply_target, target_id, actor=actor, at=at)
    for target_id in unread:
        _go_on(enforcement.check_target, target_id, actor=actor, at=at)
    return len(due) + len(unread)


@shared_task(name="quotas.tick_enforcement")
def tick_enforcement() -> None:
    """Plan, and send one message for every target that is due or unread for a while."""
    at = timezone.now()
    enforcement.refresh_targets(at=at, actor=ACTOR)
    _announce(apply_target, due_target_ids(at=at, limit=TARGETS_PER_TICK))
    _announce(check_target, unread_target_ids(at=at, limit=TARGETS_PER_TICK))


@shared_task(name="quotas.apply_target")
def apply_target(target_id: int) -> None:
    """Tell the cluster what one namespace should say, when that is due."""
    _go_on(enforcement.apply_target, target_id, actor=ACTOR, at=timezone.now())


@shared_task(name="quotas.check_target")
def check_target(target_id: int) -> None:
    """Read again what one namespace says, and repair it."""
    _go_on(enforcement.check_target, target_id, actor=ACTOR, at=timezone.now())


def _go_on(
    call: Callable[..., EnforcementState], target_id: int, *, actor: Actor, at: datetime
) -> None:
    try:
        call(
            target_id=target_id,
            enforcer=quota_enforcer(settings.QUOTA_ENFORCER),
            actor=actor,
            at=at,
        )
    except Exception:
        # The edge of the sweep: a fault in one target is told, and the others have their turn.
        log.exception("quotas.enforcement.crashed", target=target_id)


def _announce(task: Task, target_ids: list[int]) -> None:
    for target_id in target_ids:
        try:
            task.delay(target_id)
        except OperationalError:
            # The broker is away; the next tick finds the same targets.
            log.warning("quotas.enforcement.unannounced", target=target_id)
            return
