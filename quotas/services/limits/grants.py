"""Writing grants, and ending them: units on top of a limit, or taken from it, for a time.

Whatever would break the tree of limits at any instant of the range is refused when it is made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from quotas.domain.errors import QuotaGrantLentError, QuotaGrantOverError, QuotaInputError
from quotas.domain.limits.input import (
    grant_units_problems,
    note_problems,
    refuse_problems,
    span_problems,
)
from quotas.domain.limits.tree import GrantSpan, TreeLimit
from quotas.models import GrantReason, QuotaGrant, QuotaLimit
from quotas.selectors.limits.limits import key_of, span_of
from quotas.services.limits.changes import (
    GrantDraft,
    find_limits,
    grant_together,
    lock_counters,
    lock_holders,
    record_grant,
    refuse_stale,
    refuse_violations,
    tree_around,
    wake_enforcement,
)
from quotas.services.limits.limits import require_write
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError


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
    """Grant units on top of a limit.

    Args:
        limit_id: On top of which limit.
        units: Below zero takes units away.
        begin_at: UTC; None is now.
        end_at: UTC; None is until it is ended.
        note: What it is for.
        actor: An account that may write the limit.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such limit.
        ForbiddenError: The actor may not write it.
        QuotaInputError: Units, times or note cannot be used; every problem is reported.
        ProjectClosedError: The project is closed.
        QuotaLimitUnlimitedError: The limit is unlimited.
        QuotaHierarchyBrokenError: The tree would break its rules at some instant; every
            violation is reported.
    """
    limits = find_limits([limit_id])
    require_write(limits[limit_id], actor=actor)
    refuse_problems(
        (
            *grant_units_problems(units),
            *span_problems(begin_at or at, end_at, at=at),
            *note_problems(note),
        )
    )
    lock_holders(limits.values())
    draft = GrantDraft(limit_id, units, begin_at, end_at, note=note)
    (grant,) = grant_together(drafts=[draft], actor=actor, at=at)
    return grant


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
        actor: An account that may write the limit.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such grant.
        ForbiddenError: The actor may not write its limit.
        QuotaGrantLentError: It is one half of a loan.
        QuotaInputError: The end is past.
        StaleVersionError: It was changed in the meantime.
        QuotaGrantOverError: It has ended, or ends before.
        QuotaHierarchyBrokenError: The tree would not hold without it; every violation is reported.
    """
    grant = QuotaGrant.objects.filter(pk=grant_id).first()
    if grant is None:
        raise NotFoundError("There is no such quota grant.")
    if grant.limit_id is None:
        raise QuotaGrantOverError("The grant has ended, and its limit was removed.")
    limits = find_limits([grant.limit_id])
    require_write(limits[grant.limit_id], actor=actor)
    if grant.reason == GrantReason.LOAN:
        raise QuotaGrantLentError("The grant is one half of a loan.")
    lock_holders(limits.values())
    (ended,) = end_together(
        grant_ids=[grant_id], end_at=end_at, expected_version=expected_version, actor=actor, at=at
    )
    return ended


def end_together(
    *,
    grant_ids: Sequence[UUID],
    end_at: datetime | None = None,
    expected_version: int | None = None,
    blame: str = "valid_until",
    actor: Actor,
    at: datetime,
) -> tuple[QuotaGrant, ...]:
    """End several grants of one organization at one time; the holders of the limits are locked.

    Args:
        grant_ids: Whose limits belong to one organization, such as both halves of a loan.
        end_at: UTC; None is now.
        expected_version: The version the caller saw of each; None when it does not matter.
        blame: The input field to name when the tree would not hold.
        actor: The account that ends them.
        at: When, UTC.

    Returns:
        The changed grants, in the order of the ids.

    Raises:
        NotFoundError: A grant is not there.
        QuotaInputError: The end is past.
        StaleVersionError: One was changed in the meantime.
        QuotaGrantOverError: One has ended, or ends before.
        QuotaHierarchyBrokenError: The tree would break its rules without them; every violation is
            reported.
    """
    until = at if end_at is None else end_at
    if until < at:
        message = "Leave the time out to end it now, or name a time to come."
        raise QuotaInputError(message, field=blame)
    grants = {grant.pk: grant for grant in QuotaGrant.objects.filter(pk__in=grant_ids)}
    if len(grants) != len(set(grant_ids)):
        raise NotFoundError("There is no such quota grant.")
    limits = find_limits([one.limit_id for one in grants.values() if one.limit_id is not None])
    if not limits:
        raise QuotaGrantOverError("The grants have ended, and their limits were removed.")
    for grant in grants.values():
        _require_ending(grant, until=until, expected_version=expected_version)
    _refuse_violations_without(grants.values(), limits, until=until, blame=blame, at=at)
    lock_counters(organization_id=next(iter(limits.values())).organization_id)
    for grant in grants.values():
        _end(grant, until=until, actor=actor, at=at)
    wake_enforcement()
    return tuple(grants[pk] for pk in grant_ids)


def _require_ending(grant: QuotaGrant, *, until: datetime, expected_version: int | None) -> None:
    refuse_stale("quota grant", version=grant.version, expected_version=expected_version)
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
    tree = tree_around(limits.values(), at=at)
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
