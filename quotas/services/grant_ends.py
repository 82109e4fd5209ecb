"""Ending grants early: the end of the range moves; nothing is deleted."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.errors import QuotaGrantLentError, QuotaGrantOverError, QuotaInputError
from quotas.domain.limit_tree import GrantSpan, TreeLimit
from quotas.models import GrantReason, QuotaGrant, QuotaLimit
from quotas.selectors.limits import key_of, limit_tree, span_of
from quotas.services.counters import lock_counters
from quotas.services.grants import record_grant
from quotas.services.holders import require_write
from quotas.services.limit_places import holder_of_limit, lock_limits
from quotas.services.limit_trees import refuse_violations
from quotas.services.wakeups import wake_enforcement
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.refusals import StaleVersionError


@transaction.atomic
def end_grant(
    *,
    grant_id: UUID,
    end_at: datetime | None = None,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaGrant:
    """End a grant earlier than it says. One that has not begun by then is cancelled.

    Args:
        grant_id: Which one; no half of a loan.
        end_at: UTC; None is now.
        expected_version: The version the caller saw; None when it does not matter.
        actor: Who ends it: whoever may write the limit.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such grant.
        ForbiddenError: The actor may not write its limit.
        QuotaGrantLentError: It is one half of a loan.
        QuotaInputError: The end is past.
        StaleVersionError: It was changed in the meantime.
        QuotaGrantOverError: It has ended, or ends before.
        QuotaHierarchyBrokenError: The tree would not hold without it; all is told.
    """
    grant = QuotaGrant.objects.filter(pk=grant_id).first()
    if grant is None:
        raise NotFoundError("There is no such quota grant.")
    if grant.limit_id is None:
        raise QuotaGrantOverError("The grant has ended, and its limit was removed.")
    require_write(holder=holder_of_limit(grant.limit_id), actor=actor)
    if grant.reason == GrantReason.LOAN:
        raise QuotaGrantLentError("The grant is one half of a loan.")
    (ended,) = end_together(
        grant_ids=[grant_id], end_at=end_at, expected_version=expected_version, actor=actor, at=at
    )
    return ended


@transaction.atomic
def end_together(
    *,
    grant_ids: Sequence[UUID],
    end_at: datetime | None = None,
    expected_version: int | None = None,
    blame: str = "valid_until",
    actor: Actor,
    at: datetime,
) -> tuple[QuotaGrant, ...]:
    """End several grants of one organization at one time, for a caller who has settled that it may.

    Args:
        grant_ids: Whose limits belong to one organization, such as both halves of a loan.
        end_at: UTC; None is now.
        expected_version: The version the caller saw of each; None when it does not matter.
        blame: The input field to name when the tree would not hold.
        actor: Who ends them.
        at: When, UTC.

    Returns:
        The grants as they are then, in the order given.

    Raises:
        NotFoundError: A grant is not there.
        QuotaInputError: The end is past.
        StaleVersionError: One was changed in the meantime.
        QuotaGrantOverError: One has ended, or ends before.
        QuotaHierarchyBrokenError: The tree would not hold without them; all is told.
    """
    until = at if end_at is None else end_at
    if until < at:
        message = "Leave the time out to end it now, or name a time to come."
        raise QuotaInputError(message, field=blame)
    found = QuotaGrant.objects.filter(pk__in=grant_ids)
    if found.count() != len(set(grant_ids)):
        raise NotFoundError("There is no such quota grant.")
    limit_ids = list(found.filter(limit__isnull=False).values_list("limit_id", flat=True))
    if not limit_ids:
        raise QuotaGrantOverError("The grants have ended, and their limits were removed.")
    limits = lock_limits(limit_ids)
    grants = {grant.pk: grant for grant in QuotaGrant.objects.filter(pk__in=grant_ids)}
    for grant in grants.values():
        _require_ending(grant, until=until, expected_version=expected_version)
    _refuse_violations_without(grants.values(), limits, until=until, blame=blame, at=at)
    lock_counters(organization_id=next(iter(limits.values())).organization_id)
    for grant in grants.values():
        _end(grant, until=until, actor=actor, at=at)
    wake_enforcement()
    return tuple(grants[pk] for pk in grant_ids)


def _require_ending(grant: QuotaGrant, *, until: datetime, expected_version: int | None) -> None:
    if expected_version is not None and grant.version != expected_version:
        raise StaleVersionError(
            f"The quota grant was changed: it is at version {grant.version}, not "
            f"{expected_version}.",
            facts={"version": grant.version, "expected_version": expected_version},
        )
    if grant.valid.isempty:
        raise QuotaGrantOverError("The grant was cancelled before it began.")
    if grant.valid.upper is not None and grant.valid.upper <= until:
        raise QuotaGrantOverError(f"The grant ends at {grant.valid.upper.isoformat()} already.")


def _refuse_violations_without(
    grants: Iterable[QuotaGrant],
    limits: dict[UUID, QuotaLimit],
    *,
    until: datetime,
    blame: str,
    at: datetime,
) -> None:
    """Refuse an end after which the tree would not hold, as when a limit lent units away."""
    organizations = {limit.organization_id for limit in limits.values()}
    (organization_id,) = organizations
    sizes = {GPUSize(limit.size) for limit in limits.values()}
    tree = limit_tree(organization_id=organization_id, sizes=sizes, at=at)
    changed = dict(tree)
    for grant in grants:
        key = key_of(limits[grant.limit_id])  # type: ignore[index] # Only ended ones have none.
        changed[key] = _ending(changed[key], span_of(grant), until=until)
    refuse_violations(tree, changed.values(), blame=blame, at=at)


def _ending(limit: TreeLimit, span: GrantSpan, *, until: datetime) -> TreeLimit:
    """Return a limit one of whose grants ends at a time, or is not made when it begins later."""
    grants = list(limit.grants)
    grants.remove(span)
    if span.begin_at < until:
        grants.append(replace(span, end_at=until))
    return replace(limit, grants=tuple(grants))


def _end(grant: QuotaGrant, *, until: datetime, actor: Actor, at: datetime) -> None:
    begin_at = grant.valid.lower
    is_begun = begin_at < until
    grant.valid = DateTimeTZRange(begin_at, until) if is_begun else DateTimeTZRange(empty=True)
    grant.version += 1
    grant.save(update_fields=["valid", "version"])
    record_grant("end" if is_begun else "cancel", grant, actor=actor, at=at)
