"""Writing grants: units on top of a limit, or taken from it, for a range of time.

Whatever would break the tree of limits at any instant of the range is refused when it is made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.errors import QuotaLimitUnlimitedError
from quotas.domain.grant_input import grant_units_problems, span_problems
from quotas.domain.limit_input import note_problems, refuse_problems
from quotas.domain.limit_tree import GrantSpan
from quotas.models import GrantReason, QuotaGrant, QuotaLimit
from quotas.selectors.limits import key_of, limit_tree
from quotas.services.counters import lock_counters
from quotas.services.holders import require_write
from quotas.services.limit_places import (
    holder_of_limit,
    lock_limits,
    place_of,
    require_open,
)
from quotas.services.limit_trees import refuse_violations
from quotas.services.wakeups import wake_enforcement
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem
from tenants.services.audit import record


@dataclass(frozen=True)
class GrantDraft:
    """A grant that is to be made.

    Attributes:
        limit_id: On top of which limit.
        units: Below zero takes units away.
        begin_at: UTC; None is now.
        end_at: UTC; None is until it is ended.
        reference: Id of the request or loan it comes from.
    """

    limit_id: UUID
    units: int
    begin_at: datetime | None = None
    end_at: datetime | None = None
    reason: GrantReason = GrantReason.MANUAL
    reference: str = ""
    note: str = ""


@transaction.atomic
def grant_units(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    limit_id: UUID,
    units: int,
    begin_at: datetime | None = None,
    end_at: datetime | None = None,
    note: str = "",
    actor: Actor,
    at: datetime,
) -> QuotaGrant:
    """Grant units on top of a limit by hand.

    Args:
        limit_id: On top of which limit.
        units: Below zero takes units away.
        begin_at: UTC; None is now.
        end_at: UTC; None is until it is ended.
        note: What it is for.
        actor: Who grants: whoever may write the limit.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such limit.
        ForbiddenError: The actor may not write it.
        QuotaInputError: Units, times or note cannot be used; every problem is told.
        ProjectClosedError: The project is closed.
        QuotaLimitUnlimitedError: The limit is unlimited.
        QuotaHierarchyBrokenError: The tree would not hold at some instant; all is told.
    """
    require_write(holder=holder_of_limit(limit_id), actor=actor)
    draft = GrantDraft(limit_id, units, begin_at, end_at, note=note)
    (grant,) = grant_together(drafts=[draft], actor=actor, at=at)
    return grant


@transaction.atomic
def grant_together(
    *, drafts: Sequence[GrantDraft], blame: str = "units", actor: Actor, at: datetime
) -> tuple[QuotaGrant, ...]:
    """Make several grants of one organization or none, for a caller who has settled that it may.

    The tree is held to its rules once, with all of them: a loan is minus at one limit and plus at
    another, and neither stands alone.

    Args:
        drafts: At least one; all of limits of one organization.
        blame: The input field to name when the tree would not hold.
        actor: Who grants.
        at: When, UTC.

    Returns:
        One per draft, in their order.

    Raises:
        NotFoundError: A limit is not there.
        QuotaInputError: Units, times or note cannot be used; every problem is told.
        ProjectClosedError: A project is closed.
        QuotaLimitUnlimitedError: A limit is unlimited.
        QuotaHierarchyBrokenError: The tree would not hold at some instant; all is told.
    """
    refuse_problems(problem for draft in drafts for problem in _problems(draft, at=at))
    limits = lock_limits([draft.limit_id for draft in drafts])
    for limit in limits.values():
        require_open(place_of(limit).holder)
        _refuse_unlimited(limit)
    pairs = [(limits[draft.limit_id], draft) for draft in drafts]
    _refuse_violations(pairs, blame=blame, at=at)
    lock_counters(organization_id=pairs[0][0].organization_id)
    grants = tuple(_make(limit, draft, actor=actor, at=at) for limit, draft in pairs)
    wake_enforcement()
    return grants


def _problems(draft: GrantDraft, *, at: datetime) -> Iterator[FieldProblem]:
    yield from grant_units_problems(draft.units)
    yield from span_problems(draft.begin_at or at, draft.end_at, at=at)
    yield from note_problems(draft.note)


def _refuse_unlimited(limit: QuotaLimit) -> None:
    if limit.limit_units is None:
        raise QuotaLimitUnlimitedError("The limit is unlimited.", field="limit")


def _refuse_violations(
    pairs: Sequence[tuple[QuotaLimit, GrantDraft]], *, blame: str, at: datetime
) -> None:
    sizes = {GPUSize(limit.size) for limit, _ in pairs}
    tree = limit_tree(organization_id=pairs[0][0].organization_id, sizes=sizes, at=at)
    changed = dict(tree)
    for limit, draft in pairs:
        key = key_of(limit)
        span = GrantSpan(draft.units, begin_at=draft.begin_at or at, end_at=draft.end_at)
        changed[key] = changed[key].with_grants(span)
    refuse_violations(tree, changed.values(), blame=blame, at=at)


def _make(limit: QuotaLimit, draft: GrantDraft, *, actor: Actor, at: datetime) -> QuotaGrant:
    grant = QuotaGrant.objects.create(
        limit=limit,
        organization=limit.organization,
        project=limit.project,
        units=draft.units,
        valid=DateTimeTZRange(draft.begin_at or at, draft.end_at),
        reason=draft.reason,
        reference=draft.reference,
        note=draft.note,
        created_at=at,
    )
    record_grant("make", grant, actor=actor, at=at)
    return grant


def record_grant(verb: str, grant: QuotaGrant, *, actor: Actor, at: datetime) -> None:
    """Leave the entry of what happened to a grant."""
    record(
        actor=actor,
        at=at,
        action=f"quotas:grant:{verb}",
        object_kind="quota_grant",
        object_id=grant.pk,
        organization_id=grant.organization_id,
        facts={
            "limit_id": str(grant.limit_id),
            "units": grant.units,
            "valid_from": _told(grant.valid.lower),
            "valid_until": _told(grant.valid.upper),
            "reason": grant.reason,
            "reference": grant.reference,
        },
    )


def _told(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
