"""Ticks of preemption: take due steps, and plan for organizations over their limits too long."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final
from uuid import UUID

from celery import shared_task
from django.conf import settings

from quotas.adapters import workload_evictor
from quotas.selectors.preemption import due_plan_ids
from quotas.services.preemption import running as preemption_running
from quotas.services.preemption import stepping as preemption_stepping
from quotas.services.preemption import sweep as preemption_sweep
from quotas.tasks.ticking import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.turns import for_each_isolated
from tenants.services.wakeups import WakeUp

PREEMPTING_SECONDS_MAX: Final = 45
"""With the longest turn after it, a tick still ends before Celery's soft limit of 200 s."""
PREEMPTION_CRASHED: Final = "quotas.preemption.crashed"


def preempt(
    at: datetime, actor: Actor = ACTOR, *, clock_ns: Callable[[], int] = time.monotonic_ns
) -> int:
    """Take every due step, and plan for overages that last too long; return how many. See ADR 0023.

    A tenant that crashes, or whose cluster is unavailable, does not stop the others.

    Args:
        at: When, UTC.
        actor: The account that ticks.
        clock_ns: Monotonic clock in nanoseconds: a tick has a deadline for new turns.
    """

    def propose(organization_id: UUID) -> int:
        preemption_sweep.propose(organization_id=organization_id, actor=actor, at=at)
        return 1

    def execute(plan_id: UUID) -> int:
        preemption_sweep.execute_own_plan(
            plan_id=plan_id,
            grace=timedelta(seconds=settings.PREEMPTION_GRACE_SECONDS),
            burst_classes=tuple(settings.BURST_PRIORITY_CLASSES),
            actor=actor,
            at=at,
        )
        return 1

    def step(plan_id: UUID) -> int:
        preemption_stepping.step_plan(plan_id=plan_id, evictor=evictor, actor=actor, at=at)
        return 1

    done = preemption_running.expire_plans(at=at, actor=actor)
    over_for = timedelta(seconds=settings.PREEMPTION_AFTER_SECONDS)
    due = preemption_sweep.note_overage(over_for=over_for, actor=actor, at=at)
    done += for_each_isolated((owner for owner, _ in due), propose, event=PREEMPTION_CRASHED, at=at)
    unexecuted = preemption_sweep.unexecuted_plan_ids(actor=actor, at=at)
    done += for_each_isolated(unexecuted, execute, event=PREEMPTION_CRASHED, at=at)
    evictor = workload_evictor(settings.WORKLOAD_EVICTOR)
    until_ns = clock_ns() + PREEMPTING_SECONDS_MAX * 1_000_000_000
    # Those left when time is up have been due for longest at the next tick, so they come first.
    in_time = takewhile(lambda _: clock_ns() < until_ns, due_plan_ids(at=at))
    return done + for_each_isolated(in_time, step, event=PREEMPTION_CRASHED, at=at)


@shared_task(base=WakeUp, name="quotas.tick_preemption")
def tick_preemption() -> None:
    """Take the next step of every running plan, and check for overages."""
    preempt(database_now())
