"""Enforcement by hand: a person has namespaces applied again, or read again, at once."""

from collections.abc import Iterable
from datetime import datetime

import structlog
from django.db import transaction

from quotas.models import EnforcementState, EnforcementTarget
from quotas.protocols import QuotaEnforcer
from quotas.services.asking import WITH_TENANT, Answer, ask_all, endpoint_of
from quotas.services.enforcement import apply_targets, check_targets
from quotas.services.settling import said_columns
from tenants.domain.actors import Actor
from tenants.services.audit import record

log = structlog.get_logger(__name__)


def apply_again(
    *, target_ids: Iterable[int], enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> int:
    """Tell clusters again what namespaces should say, applied or not; return how many say so.

    Args:
        target_ids: Which targets.
        enforcer: Who speaks with the clusters.
        actor: Who asks for it.
        at: When, UTC.
    """
    wanted = _make_due(target_ids, actor=actor, at=at)
    return apply_targets(target_ids=wanted, enforcer=enforcer, actor=actor, at=at)


def read_again(
    *, target_ids: Iterable[int], enforcer: QuotaEnforcer, actor: Actor, at: datetime
) -> int:
    """Read what namespaces say now; return how many had drifted, which are repaired.

    What is not applied yet is only looked at.
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
def _make_due(target_ids: Iterable[int], *, actor: Actor, at: datetime) -> list[int]:
    """Make targets due now, whatever they were, and write down who asked for it."""
    rows = EnforcementTarget.objects.select_related(*WITH_TENANT).filter(pk__in=list(target_ids))
    found = list(rows.order_by("pk"))
    wanted = [row.pk for row in found]
    EnforcementTarget.objects.filter(pk__in=wanted).update(
        state=EnforcementState.PENDING, not_before=at, attempt=0
    )
    for row in found:
        record(
            actor=actor,
            at=at,
            action="quotas:enforcement:apply_again",
            object_kind="enforcement_target",
            object_id=row.pk,
            organization_id=row.project.organization_id,
            facts={
                "cluster": row.cluster.slug,
                "namespace": row.namespace,
                "state": row.state,
                "generation": row.desired_generation,
            },
        )
    return wanted


def _note(answer: Answer[EnforcementTarget], *, at: datetime) -> None:
    """Write what a namespace says that is not applied yet."""
    if answer.live is None:
        log.warning(
            "quotas.enforcement.read_failed",
            target=answer.asked.pk,
            error=type(answer.error).__name__,
        )
        return
    EnforcementTarget.objects.filter(pk=answer.asked.pk).update(**said_columns(answer.live, at=at))
