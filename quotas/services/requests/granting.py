"""Effect of an approval: the limit is set to the requested total, or grants are added to it.

A requested total is reached, and not exceeded: for a time, units are granted only where they are
missing. Grants that are in force stay on top of a limit that is raised, so `peak_units`, the
highest total of the request, is what is routed, shown, and compared at the approval.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import (
    QuotaHierarchyBrokenError,
    QuotaRequestNothingMoreError,
    QuotaRequestOutdatedError,
    QuotaRequestWithoutLimitError,
)
from quotas.domain.limits.input import KEEP, LimitTerms
from quotas.domain.limits.tree import (
    GrantSpan,
    TermInterval,
    TreeLimit,
    lowest_units,
    missing_spans,
    peak_units,
    units_at,
)
from quotas.domain.limits.visibility import LimitVisibility, visible_violations
from quotas.domain.requests.routing import HoldableUnits, raised_reach
from quotas.models import GrantReason, QuotaLimit, QuotaRequest
from quotas.selectors.limits.limits import key_of, limit_tree, tree_limits_of
from quotas.services.limits.changes import (
    GrantDraft,
    find_limit,
    grant_together,
    make_key,
    write_limit,
)
from tenants.domain.actors import Actor

READ_LIMIT: Final = "quotas:limit:read"


@dataclass(frozen=True)
class Before:
    """The limit that a request changes, before the change.

    Attributes:
        units: In force at its begin; for one without times the limit itself; None when unset or
            unlimited.
        burst_units: None when unset.
        peak_units: The most that would be in force at some instant of its time, with it.
        is_lowering: Whether it takes something away: units, burst units, or being unlimited.
        reach: The most its project may hold of the size where the request lets it hold more.
    """

    units: int | None
    burst_units: int | None
    is_unlimited: bool
    peak_units: int
    is_lowering: bool
    reach: HoldableUnits


def is_dated(request: QuotaRequest) -> bool:
    """Whether a request becomes grants for a time, rather than the limit itself."""
    return request.begin_at is not None or request.end_at is not None


def before(request: QuotaRequest, *, at: datetime) -> Before:
    """Return the limit before a request, and the total with it; two statements.

    Raises:
        QuotaRequestWithoutLimitError: Units for a time are requested where no number is set.
        QuotaRequestNothingMoreError: They are not more than what is in force then.
    """
    around = limit_tree(
        organization_id=request.organization_id,
        project_id=request.project_id,
        sizes=[GPUSize(request.size)],
        at=at,
    )
    key = key_of(_key_of(request))
    current = around.get(key)
    after = _after(request, current, at=at)
    span = _span(request, at=at)
    return Before(
        units=_units(request, current, at=at),
        burst_units=None if current is None else current.burst_units,
        is_unlimited=_is_unlimited(current),
        peak_units=peak_units(after, span),
        is_lowering=_is_lowering(request, current, span),
        reach=raised_reach(around.values(), {**around, key: after}.values(), span),
    )


def note_before(request: QuotaRequest, found: Before) -> None:
    """Store the basis of a request's number at submission."""
    request.units_before = found.units
    request.burst_before = found.burst_units
    request.is_unlimited_before = found.is_unlimited
    request.peak_units = found.peak_units


def refuse_outdated(request: QuotaRequest, *, at: datetime) -> None:
    """Raise if the basis of a request has changed since it was made.

    Raises:
        QuotaRequestOutdatedError: The limit has changed, or the time asked for is over.
        QuotaRequestWithoutLimitError: Units for a time are requested where no number is set now.
        QuotaRequestNothingMoreError: As many are in force by now.
    """
    if request.end_at is not None and request.end_at <= at:
        raise QuotaRequestOutdatedError(
            "The time it was asked for is over.", facts={"end_at": request.end_at.isoformat()}
        )
    _, current = _current(request, at=at)
    _refuse_other_units(request, current, at=at)
    _refuse_other_burst(request, current)
    peak = peak_units(_after(request, current, at=at), _span(request, at=at))
    if request.peak_units is not None and peak > request.peak_units:
        raise QuotaRequestOutdatedError(
            f"It would come to {peak} units at most; it was {request.peak_units} when this was "
            "asked.",
            facts={"peak_before": request.peak_units, "peak_now": peak},
        )


def grant_request(request: QuotaRequest, *, actor: Actor, at: datetime) -> None:
    """Put a request into force, if the tree of limits keeps its rules at every instant.

    The limit's organization, project and user are locked.

    Raises:
        ProjectClosedError: The project is closed.
        QuotaRequestWithoutLimitError: Units for a time are requested where no number is set.
        QuotaRequestNothingMoreError: They are not more than what is in force then.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is reported.
    """
    blame = "requested_units"
    if not is_dated(request):
        burst = KEEP if request.burst_units is None else request.burst_units
        terms = LimitTerms(request.requested_units, burst)
        write_limit(_key_of(request), terms, blame=blame, actor=actor, at=at)
        return
    limit, current = _current(request, at=at)
    missing = _missing(request, current, at=at)
    drafts = [_draft(request, limit, span) for span in missing if limit is not None]
    grant_together(drafts=drafts, blame=blame, actor=actor, at=at)


def _draft(request: QuotaRequest, limit: QuotaLimit, span: GrantSpan) -> GrantDraft:
    return GrantDraft(
        limit_id=limit.pk,
        units=span.units,
        begin_at=span.begin_at,
        end_at=span.end_at,
        reason=GrantReason.REQUEST,
        reference=str(request.pk),
    )


def as_visible_to(
    error: QuotaHierarchyBrokenError, *, request: QuotaRequest, actor: Actor
) -> QuotaHierarchyBrokenError:
    """Return why a request cannot be granted, as far as the actor may read the limits in the way.

    A lead reads the limits of their project, not those of the organization above it.
    """
    organization_id = request.organization_id
    reads_project = actor.may(
        READ_LIMIT, organization_id=organization_id, project_id=request.project_id
    )
    visibility = LimitVisibility(
        reads_organization=actor.may(READ_LIMIT, organization_id=organization_id),
        project=request.project.slug if reads_project else "",
    )
    return QuotaHierarchyBrokenError(
        visible_violations(error.violations, visibility), field=error.field
    )


def _key_of(request: QuotaRequest) -> QuotaLimit:
    """Return the limit that a request changes, unsaved."""
    return make_key(
        organization=request.organization,
        project=request.project,
        user=request.user,
        size=request.size,
        model_group=request.model_group,
        cluster=request.cluster,
    )


def _current(request: QuotaRequest, *, at: datetime) -> tuple[QuotaLimit | None, TreeLimit | None]:
    """Return the limit that a request changes, and its value with its grants; None when not set."""
    limit = find_limit(_key_of(request))
    if limit is None:
        return None, None
    return limit, tree_limits_of([limit], at=at)[0]


def _after(request: QuotaRequest, current: TreeLimit | None, *, at: datetime) -> TreeLimit:
    """Return the limit that a request changes, as it would be after it."""
    if is_dated(request):
        return _finite(current).with_grants(*_missing(request, current, at=at))
    limit = current or TreeLimit(key_of(_key_of(request)), None)
    burst_units = limit.burst_units if request.burst_units is None else request.burst_units
    return replace(limit, limit_units=request.requested_units, burst_units=burst_units)


def _missing(
    request: QuotaRequest, current: TreeLimit | None, *, at: datetime
) -> tuple[GrantSpan, ...]:
    """Return what is missing to the wanted total, for the wanted time: never nothing."""
    limit, span = _finite(current), _span(request, at=at)
    missing = missing_spans(limit, total=request.requested_units, span=span)
    if not missing:
        in_force = lowest_units(limit, span)
        raise QuotaRequestNothingMoreError(
            f"{in_force} units are in force then, and {request.requested_units} are asked in all.",
            field="requested_units",
            facts={"units_in_force": in_force, "requested_units": request.requested_units},
        )
    return missing


def _finite(current: TreeLimit | None) -> TreeLimit:
    if current is None or current.limit_units is None:
        state = "no limit is set" if current is None else "the limit is unlimited"
        raise QuotaRequestWithoutLimitError(
            f"Units for a time come on top of a limit, and {state} there.", field="begin_at"
        )
    return current


def _units(request: QuotaRequest, current: TreeLimit | None, *, at: datetime) -> int | None:
    if current is None or current.limit_units is None:
        return None
    if not is_dated(request):
        return current.limit_units
    return units_at(current, _span(request, at=at).begin_at)


def _is_unlimited(current: TreeLimit | None) -> bool:
    return current is not None and current.limit_units is None


def _is_lowering(request: QuotaRequest, current: TreeLimit | None, span: TermInterval) -> bool:
    """Whether a request takes something away; for a time units are only ever added."""
    if is_dated(request):
        return False
    if current is None:
        return request.requested_units == 0
    if current.limit_units is None:
        return True
    is_less_burst = request.burst_units is not None and request.burst_units < current.burst_units
    return is_less_burst or request.requested_units < peak_units(current, span)


def _refuse_other_units(request: QuotaRequest, current: TreeLimit | None, *, at: datetime) -> None:
    units_now = _units(request, current, at=at)
    is_unlimited = _is_unlimited(current)
    if (units_now, is_unlimited) != (request.units_before, request.is_unlimited_before):
        now = _units_label(units_now, is_unlimited=is_unlimited)
        then = _units_label(request.units_before, is_unlimited=request.is_unlimited_before)
        raise QuotaRequestOutdatedError(
            f"The limit is {now} now; it was {then} when this was requested.",
            facts={"units_before": request.units_before, "units_now": units_now},
        )


def _refuse_other_burst(request: QuotaRequest, current: TreeLimit | None) -> None:
    """Refuse to overwrite burst units that were changed since the request."""
    burst_now = None if current is None else current.burst_units
    if request.burst_units is not None and burst_now != request.burst_before:
        now, then = _units_label(burst_now), _units_label(request.burst_before)
        raise QuotaRequestOutdatedError(
            f"Burst units are {now} now; they were {then} when this was requested.",
            facts={"burst_before": request.burst_before, "burst_now": burst_now},
        )


def _span(request: QuotaRequest, *, at: datetime) -> TermInterval:
    begin_at = at if request.begin_at is None else max(request.begin_at, at)
    return TermInterval(begin_at, request.end_at)


def _units_label(units: int | None, *, is_unlimited: bool = False) -> str:
    if is_unlimited:
        return "unlimited"
    return "not set" if units is None else str(units)
