"""Apply quotas to the clusters: level-triggered, fenced by generations, forced only by request.

`apply_targets` writes to clusters and marks a target applied only when its cluster confirms it;
`check_targets` reads applied quotas again. Both may run at any time, any number of times, in any
order. Clusters are called in parallel, outside any transaction; the caller's own connection writes
the results.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import DataError, IntegrityError, transaction
from django.db.models import F

from quotas.domain.enforcement.planning import ceiling_of
from quotas.domain.enforcement.repairs import next_repair_at
from quotas.models import EnforcementState, EnforcementTarget
from quotas.protocols import (
    LiveQuota,
    QuotaConflictError,
    QuotaEnforcer,
    StaleGenerationError,
)
from quotas.selectors.enforcement.targets import DRIFT_CHECK_EVERY, UNSETTLED
from quotas.services.enforcement.asking import (
    WITH_TENANT,
    ClusterAnswer,
    ask_all,
    desired_of,
    endpoint_of,
)
from quotas.services.enforcement.settling import (
    Claim,
    disputed_text,
    is_as_desired,
    record_disputed,
    reported_columns,
    settle_applied,
    settle_conflict,
    settle_failure,
    settle_overtaken,
    settle_waiting,
    shorten_error,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import record
from tenants.services.turns import report_crash

CLAIM_FOR: Final = timedelta(seconds=60)
"""How long one worker has a target to itself; longer than every time limit of an enforcer."""
CRASHED: Final = "quotas.enforcement.crashed"
log = structlog.get_logger(__name__)


def apply_targets(
    *,
    target_ids: Iterable[int],
    enforcer: QuotaEnforcer,
    actor: Actor,
    at: datetime,
    is_forced: bool = False,
) -> int:
    """Apply the desired quotas of namespaces; return how many are applied now.

    A cluster's answer is written only while the target still wants what was sent; otherwise it is
    due again. A target that crashes is logged and does not stop the others.

    Args:
        target_ids: Which targets; those not due, or that another worker has, are left alone.
        enforcer: Client of the clusters.
        actor: The account that applies; usually the service itself.
        at: When, UTC.
        is_forced: Whether other managers' values are overwritten, as `force_targets` does.
    """
    leased = (_claim(pk, at=at, is_forced=is_forced) for pk in target_ids)
    claims = [claim for claim in leased if claim is not None]
    states = [
        _settled_alone(answer, actor=actor, at=at)
        for answer in ask_all(
            claims,
            lambda one: enforcer.apply(one.endpoint, one.desired),
            slug_of=lambda one: one.endpoint.slug,
            actor=actor,
            at=at,
        )
    ]
    return states.count(EnforcementState.APPLIED)


def apply_target(
    *, target_id: int, enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> EnforcementState:
    """Apply the desired quota of one namespace, and return the outcome.

    Raises:
        EnforcementTarget.DoesNotExist: There is no such target.
    """
    apply_targets(target_ids=[target_id], enforcer=enforcer, actor=actor, at=at)
    return EnforcementState(EnforcementTarget.objects.get(pk=target_id).state)


def _settled_alone(
    answer: ClusterAnswer[Claim, LiveQuota], *, actor: Actor, at: datetime
) -> EnforcementState:
    """Write the outcome of a lease; a failed write does not stop the others."""
    try:
        with transaction.atomic():
            return _settled(answer, actor=actor, at=at)
    except (DataError, IntegrityError) as error:
        report_crash(
            error, event="quotas.enforcement.unwritable", key=answer.asked.target_id, at=at
        )
        return EnforcementState.PENDING


def _settled(
    answer: ClusterAnswer[Claim, LiveQuota], *, actor: Actor, at: datetime
) -> EnforcementState:
    """Write what became of a claim."""
    claim, error = answer.asked, answer.error
    if answer.live is not None:
        if is_as_desired(claim.desired, answer.live):
            return settle_applied(claim, answer.live, actor=actor, at=at)
        return settle_waiting(claim, answer.live, at=at)
    if isinstance(error, QuotaConflictError):
        return settle_conflict(claim, error, actor=actor, at=at)
    if isinstance(error, StaleGenerationError):
        return settle_overtaken(claim, error, actor=actor, at=at)
    if isinstance(error, SourceUnavailableError):
        return settle_failure(claim, f"{error.reason}: {error}", at=at)
    assert error is not None  # noqa: S101 - Without an answer there is an error.
    report_crash(error, event=CRASHED, key=claim.target_id, at=at)
    return EnforcementState.PENDING


def check_targets(
    *, target_ids: Iterable[int], enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> int:
    """Read again what applied namespaces say, and repair those that say something else.

    One that was repaired several times within minutes becomes a conflict. Return how many had
    drifted.
    """
    targets = EnforcementTarget.objects.select_related(*WITH_TENANT).filter(
        ~UNSETTLED, pk__in=list(target_ids)
    )
    drifted = {
        answer.asked.pk: state
        for answer in ask_all(
            list(targets),
            lambda one: enforcer.read(endpoint_of(one), one.namespace),
            slug_of=lambda one: one.cluster.slug,
            actor=actor,
            at=at,
        )
        if (state := _state_after(answer, actor=actor, at=at)) is not EnforcementState.APPLIED
    }
    repaired = [pk for pk, state in drifted.items() if state is EnforcementState.PENDING]
    apply_targets(target_ids=repaired, enforcer=enforcer, actor=actor, at=at)
    return len(drifted)


def check_target(
    *, target_id: int, enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> EnforcementState:
    """Read the quota of one applied namespace again, and return the target's new state.

    Raises:
        EnforcementTarget.DoesNotExist: There is no such target.
    """
    check_targets(target_ids=[target_id], enforcer=enforcer, actor=actor, at=at)
    return EnforcementState(EnforcementTarget.objects.get(pk=target_id).state)


@transaction.atomic
def _state_after(
    answer: ClusterAnswer[EnforcementTarget, LiveQuota], *, actor: Actor, at: datetime
) -> EnforcementState:
    """Write what was read of an applied target, and return its new state."""
    target, live = answer.asked, answer.live
    # A target that another process repaired meanwhile is left to that process.
    seen = EnforcementTarget.objects.filter(
        ~UNSETTLED,
        pk=target.pk,
        desired_generation=target.desired_generation,
        repaired_at=target.repaired_at,
    )
    if live is None:
        _note_unread(answer, seen.update, at=at)
        return EnforcementState.APPLIED
    columns = reported_columns(live, at=at)
    if is_as_desired(desired_of(target), live):
        seen.update(last_error="", **columns)
        return EnforcementState.APPLIED
    retry_at = next_repair_at(target.repaired_at, at=at)
    state = EnforcementState.CONFLICT if retry_at > at else EnforcementState.PENDING
    text = disputed_text(target, retry_at=retry_at) if retry_at > at else ""
    has_drifted = seen.update(
        state=state,
        last_error=text,
        drifted_at=at,
        drift_managers=list(live.managers),
        not_before=retry_at,
        ceiling_hard=ceiling_of(target.ceiling_hard, live.hard),
        ceiling_burst=ceiling_of(target.ceiling_burst, live.burst_hard),
        **columns,
    )
    if not has_drifted:
        return EnforcementState.APPLIED
    log.warning("quotas.enforcement.drifted", target=target.pk, managers=live.managers)
    if state is EnforcementState.CONFLICT:
        record_disputed(target, live, actor=actor, at=at)
    return state


def _note_unread(
    answer: ClusterAnswer[EnforcementTarget, LiveQuota], write: Callable[..., int], *, at: datetime
) -> None:
    error = answer.error
    if not isinstance(error, SourceUnavailableError):
        assert error is not None  # noqa: S101 - As above.
        # Behind the others: one that crashes at every reading keeps none of them waiting.
        write(not_before=at + DRIFT_CHECK_EVERY)
        report_crash(error, event=CRASHED, key=answer.asked.pk, at=at)
        return
    # `checked_at` stays: the age of a reading decides whether its caps are used.
    write(not_before=at + DRIFT_CHECK_EVERY, last_error=shorten_error(f"{error.reason}: {error}"))
    log.warning("quotas.enforcement.read_failed", target=answer.asked.pk, reason=error.reason)


@transaction.atomic
def _claim(target_id: int, *, at: datetime, is_forced: bool) -> Claim | None:
    """Lease a due target; None when it is not due, or another worker has it."""
    taken = EnforcementTarget.objects.filter(UNSETTLED, pk=target_id, not_before__lte=at).update(
        not_before=at + CLAIM_FOR, attempt=F("attempt") + 1
    )
    if not taken:
        return None
    target = EnforcementTarget.objects.select_related(*WITH_TENANT).get(pk=target_id)
    return Claim(
        target_id=target_id,
        endpoint=endpoint_of(target),
        desired=desired_of(target, is_forced=is_forced),
        attempt=target.attempt,
        has_drifted=target.drifted_at is not None,
        organization_id=target.project.organization_id,
    )


def apply_again(
    *, target_ids: Iterable[int], enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> int:
    """Apply desired quotas again, applied or not; return how many are applied.

    Args:
        target_ids: Which targets.
        enforcer: Client of the clusters.
        actor: The account that asks for it.
        at: When, UTC.
    """
    wanted = _make_due(target_ids, verb="apply_again", actor=actor, at=at)
    return apply_targets(target_ids=wanted, enforcer=enforcer, actor=actor, at=at)


def force_targets(
    *, target_ids: Iterable[int], enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> int:
    """Apply desired quotas over the values of other managers; return how many are applied.

    Args:
        target_ids: Which targets.
        enforcer: Client of the clusters.
        actor: The person that decides so.
        at: When, UTC.
    """
    wanted = _make_due(target_ids, verb="force", actor=actor, at=at)
    return apply_targets(target_ids=wanted, enforcer=enforcer, actor=actor, at=at, is_forced=True)


def read_again(
    *, target_ids: Iterable[int], enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> int:
    """Read what namespaces say now; return how many had drifted, which are repaired.

    A target that is not applied yet is only read.
    """
    rows = EnforcementTarget.objects.select_related(*WITH_TENANT).filter(pk__in=list(target_ids))
    open_rows = [row for row in rows if row.state != EnforcementState.APPLIED]
    for answer in ask_all(
        open_rows,
        lambda one: enforcer.read(endpoint_of(one), one.namespace),
        slug_of=lambda one: one.cluster.slug,
        actor=actor,
        at=at,
    ):
        _note(answer, at=at)
    settled = [row.pk for row in rows if row.state == EnforcementState.APPLIED]
    return check_targets(target_ids=settled, enforcer=enforcer, actor=actor, at=at)


@transaction.atomic
def _make_due(target_ids: Iterable[int], *, verb: str, actor: Actor, at: datetime) -> list[int]:
    """Make targets due now in any state, and audit the actor."""
    rows = EnforcementTarget.objects.select_related(*WITH_TENANT).filter(pk__in=list(target_ids))
    found = list(rows.order_by("pk"))
    wanted = [row.pk for row in found]
    EnforcementTarget.objects.filter(pk__in=wanted).update(
        state=EnforcementState.PENDING, not_before=at, attempt=0, repaired_at=[]
    )
    for row in found:
        record(
            actor=actor,
            at=at,
            action=f"quotas:enforcement:{verb}",
            object_kind="enforcement_target",
            object_id=row.pk,
            organization_id=row.project.organization_id,
            facts={
                "cluster": row.cluster.slug,
                "namespace": row.namespace,
                "state": row.state,
                "generation": row.desired_generation,
                **({"live": row.live_hard} if verb == "force" else {}),
            },
        )
    return wanted


def _note(answer: ClusterAnswer[EnforcementTarget, LiveQuota], *, at: datetime) -> None:
    """Write the observed quota of a namespace that is not applied yet."""
    if answer.live is None:
        log.warning(
            "quotas.enforcement.read_failed",
            target=answer.asked.pk,
            error=type(answer.error).__name__,
        )
        return
    EnforcementTarget.objects.filter(pk=answer.asked.pk).update(
        **reported_columns(answer.live, at=at)
    )
