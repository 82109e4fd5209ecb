"""Writing grants, and ending them: units on top of a limit, or taken from it, for a time.

Whatever would break the tree of limits at any instant of the range is refused when it is made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import (
    QuotaGrantLentError,
    QuotaGrantOverError,
    QuotaInputError,
    QuotaLimitUnlimitedError,
)
from quotas.domain.limits.input import (
    grant_units_problems,
    note_problems,
    refuse_problems,
    span_problems,
)
from quotas.domain.limits.tree import GrantSpan, TreeLimit
from quotas.models import GrantReason, QuotaGrant, QuotaLimit
from quotas.selectors.limits.limits import key_of, limit_tree, span_of
from quotas.services.enforcement.wakeups import wake_enforcement
from quotas.services.limits.limits import refuse_violations
from quotas.services.limits.places import (
    holder_of_limit,
    lock_counters,
    lock_limits,
    place_of,
    require_open,
    require_write,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem, NotFoundError
from tenants.domain.refusals import StaleVersionError
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
    require_write(holder=holder_of_limit(limit_id), actor=actor)
    draft = GrantDraft(limit_id, units, begin_at, end_at, note=note)
    (grant,) = grant_together(drafts=[draft], actor=actor, at=at)
    return grant


@transaction.atomic
def grant_together(
    *, drafts: Sequence[GrantDraft], blame: str = "units", actor: Actor, at: datetime
) -> tuple[QuotaGrant, ...]:
    """Make several grants of one organization or none; the caller has checked permission.

    The tree is checked once, with all of them: a loan lowers one limit and raises another, and
    neither is valid alone.

    Args:
        drafts: At least one; all of limits of one organization.
        blame: The input field to name when the tree would not hold.
        actor: The account that grants.
        at: When, UTC.

    Returns:
        One per draft, in their order.

    Raises:
        NotFoundError: A limit is not there.
        QuotaInputError: Units, times or note cannot be used; every problem is reported.
        ProjectClosedError: A project is closed.
        QuotaLimitUnlimitedError: A limit is unlimited.
        QuotaHierarchyBrokenError: The tree would break its rules at some instant; every
            violation is reported.
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
            "valid_from": _moment_text(grant.valid.lower),
            "valid_until": _moment_text(grant.valid.upper),
            "reason": grant.reason,
            "reference": grant.reference,
        },
    )


def _moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


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
    """End several grants of one organization at one time; the caller has checked permission.

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
