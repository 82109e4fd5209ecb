"""The Celery door of quotas: ticks that derive what is due, and tasks for some targets each.

A message carries ids and only makes it sooner; the next tick would find the same work. `tick`
does all of it without Celery.
"""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final
from uuid import UUID

import structlog
from celery import Task, shared_task
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError

from metering.domain.waste_rules import thresholds_of
from quotas.adapters import quota_enforcer, workload_evictor
from quotas.selectors.enforcement import due_target_ids, unread_target_ids
from quotas.selectors.lending import LendingTerms, due_loan_ids, lending_organization_ids
from quotas.selectors.preemption import due_plan_ids
from quotas.services import (
    allowances,
    enforcement,
    lending,
    live_use,
    loans,
    preemption_running,
    preemption_stepping,
    preemption_sweep,
    request_clock,
    retention,
    target_plans,
)
from quotas.services.hints import TASK_NAME
from tenants.domain.actors import Actor, system_actor
from tenants.services.turns import take_turns

TARGETS_PER_TICK: Final = 1_000
"""As many namespaces as a minute's work can bring from nothing to applied."""
TARGETS_PER_TASK: Final = 50
"""So few that one worker's claims do not end before it comes to them, and several workers share."""
ROUNDS_MAX: Final = 4
"""Lower, read back, raise; and once more for what another worker lowered meanwhile."""
PREEMPTING_SECONDS_MAX: Final = 45
"""With the longest turn after it, a tick still ends before Celery's soft limit of 200 s."""
FORGETTING_SECONDS_MAX: Final = 60
"""No batch begins later; what is left is found by the next tick."""
PREEMPTION_CRASHED: Final = "quotas.preemption.crashed"
LOANS_CRASHED: Final = "quotas.loans.crashed"
ACTOR: Final = system_actor("quotas.tick")

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


def look_after_requests(at: datetime, actor: Actor = ACTOR) -> int:
    """Expire, escalate and remind of what is due by time; return how many. Twice does it once.

    Args:
        at: When, UTC.
        actor: Who ticks.
    """
    return (
        request_clock.expire_requests(actor=actor, at=at)
        + request_clock.escalate_requests(actor=actor, at=at)
        + request_clock.remind_of_ends(actor=actor, at=at)
    )


def preempt(
    at: datetime, actor: Actor = ACTOR, *, clock_ns: Callable[[], int] = time.monotonic_ns
) -> int:
    """Take every due step, and plan for who is over too long; return how many. See ADR 0023.

    One tenant that crashes, or whose cluster is away, does not keep the others from their turn.

    Args:
        at: When, UTC.
        actor: Who ticks.
        clock_ns: Nanoseconds that only grow: a tick begins no turn after a while.
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
    done += take_turns((owner for owner, _ in due), propose, event=PREEMPTION_CRASHED, at=at)
    unexecuted = preemption_sweep.unexecuted_plan_ids(actor=actor, at=at)
    done += take_turns(unexecuted, execute, event=PREEMPTION_CRASHED, at=at)
    evictor = workload_evictor(settings.WORKLOAD_EVICTOR)
    until_ns = clock_ns() + PREEMPTING_SECONDS_MAX * 1_000_000_000
    # Those left when time is up have been due for longest at the next tick, so they come first.
    in_time = takewhile(lambda _: clock_ns() < until_ns, due_plan_ids(at=at))
    return done + take_turns(in_time, step, event=PREEMPTION_CRASHED, at=at)


def share_fairly(at: datetime, actor: Actor = ACTOR) -> int:
    """Close loans whose time is over and propose those that would help; return how many changed.

    Args:
        at: When, UTC.
        actor: Who ticks.
    """
    terms = LendingTerms(
        burst_classes=settings.BURST_PRIORITY_CLASSES,
        thresholds=thresholds_of(settings.WASTE_THRESHOLDS),
    )

    def end(loan_id: UUID) -> int:
        loans.end_loan(loan_id=loan_id, actor=actor, at=at)
        return 1

    def refresh(organization_id: UUID) -> int:
        found = lending.refresh_loans(
            organization_id=organization_id, terms=terms, actor=actor, at=at
        )
        return found.proposed + found.lapsed

    ended = take_turns(due_loan_ids(at=at), end, event=LOANS_CRASHED, at=at)
    return ended + take_turns(lending_organization_ids(at=at), refresh, event=LOANS_CRASHED, at=at)


@shared_task(name="quotas.tick_fair_use")
def tick_fair_use() -> None:
    """Look after the loans between projects."""
    share_fairly(timezone.now())


@shared_task(name="quotas.tick_preemption")
def tick_preemption() -> None:
    """Take the next step of every running plan, and see who is over."""
    preempt(timezone.now())


@shared_task(name="quotas.tick_requests")
def tick_requests() -> None:
    """Do what time does to requests."""
    look_after_requests(timezone.now())


def look_after_live_use(at: datetime, actor: Actor = ACTOR) -> int:
    """Let reservations follow their pods, compare counters, and read what months have used.

    Returns:
        How many reservations and counters were touched.
    """
    swept = live_use.sweep_live_use(
        burst_classes=settings.BURST_PRIORITY_CLASSES, actor=actor, at=at
    )
    repairs = live_use.repair_counters(actor=actor, at=at)
    read = allowances.refresh_allowances(actor=actor, at=at)
    return swept.touched + len(repairs) + read


def forget(
    at: datetime, actor: Actor = ACTOR, *, clock_ns: Callable[[], int] = time.monotonic_ns
) -> retention.Forgotten:
    """Forget reservations released long ago, and add up old refusals; return how many of each."""
    until_ns = clock_ns() + FORGETTING_SECONDS_MAX * 1_000_000_000

    def after(days: int, forget_them: Callable[..., int]) -> int:
        has_time, kept = (lambda: clock_ns() < until_ns), timedelta(days)
        return forget_them(kept=kept, has_time=has_time, actor=actor, at=at)

    return retention.Forgotten(
        reservations=after(settings.RESERVATION_KEPT_DAYS, retention.forget_reservations),
        refusals=after(settings.REFUSALS_KEPT_DAYS, retention.fold_refusals),
    )


@shared_task(name="quotas.tick_retention")
def tick_retention() -> None:
    """Forget what is over for long."""
    forget(timezone.now())


@shared_task(name="quotas.tick_live_use")
def tick_live_use() -> None:
    """Let reservations follow their pods."""
    live_use.sweep_live_use(
        burst_classes=settings.BURST_PRIORITY_CLASSES, actor=ACTOR, at=timezone.now()
    )


@shared_task(name="quotas.tick_repair")
def tick_repair() -> None:
    """Compare counters with their reservations, and read what months have used."""
    at = timezone.now()
    live_use.repair_counters(actor=ACTOR, at=at)
    allowances.refresh_allowances(actor=ACTOR, at=at)


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
