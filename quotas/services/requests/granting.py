"""Effect of an approval: the limit is set to the requested total, or grants are added to it.

A requested total is reached, and not exceeded: for a time, units are granted only where they are
missing. Grants that are in force stay on top of a limit that is raised, so `peak_units`, the
highest total of the request, is what is routed, shown, and compared at the approval.
"""

from collections.abc import Iterator
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
from quotas.domain.limits.hierarchy import LimitVisibility, seen_once
from quotas.domain.limits.terms import KEEP
from quotas.domain.limits.tree import GrantSpan, TreeLimit
from quotas.domain.requests.reach import (
    HeldLimit,
    HoldableUnits,
    TermInterval,
    lowest_units,
    missing_spans,
    peak_units,
    raised_reach,
    units_at,
)
from quotas.models import GrantReason, QuotaRequest
from quotas.selectors.requests import key_asked, limits_around
from quotas.services.limits.grants import GrantDraft, grant_together
from quotas.services.limits.limits import write_limit
from quotas.services.limits.places import LimitHolder, LimitPlace, find_limit
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
    around = limits_around(request, at=at)
    key = key_asked(request)
    held = around.get(key)
    asked = _with_it(request, held, at=at)
    span = _span(request, at=at)
    after = {**around, key: asked}
    is_unlimited = held is not None and held.limit.limit_units is None
    return Before(
        units=_units(request, held, at=at),
        burst_units=None if held is None else held.burst_units,
        is_unlimited=is_unlimited,
        peak_units=peak_units(asked.limit, span),
        is_lowering=_is_lowering(request, held, span),
        reach=raised_reach(around.values(), after.values(), span),
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
    around = limits_around(request, at=at)
    held = around.get(key_asked(request))
    _refuse_other_units(request, held, at=at)
    _refuse_other_burst(request, held)
    peak = peak_units(_with_it(request, held, at=at).limit, _span(request, at=at))
    if request.peak_units is not None and peak > request.peak_units:
        raise QuotaRequestOutdatedError(
            f"It would come to {peak} units at most; it was {request.peak_units} when this was "
            "asked.",
            facts={"peak_before": request.peak_units, "peak_now": peak},
        )


def grant_request(request: QuotaRequest, *, actor: Actor, at: datetime) -> None:
    """Put a request into force, if the tree of limits keeps its rules at every instant.

    Raises:
        ProjectClosedError: The project is closed.
        QuotaRequestWithoutLimitError: Units for a time are requested where no number is set.
        QuotaRequestNothingMoreError: They are not more than what is in force then.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is reported.
    """
    if is_dated(request):
        grant_together(
            drafts=list(_drafts(request, at=at)), blame="requested_units", actor=actor, at=at
        )
        return
    place = _place(request)
    write_limit(
        holder=place.holder,
        size=place.size,
        model_group=place.model_group,
        cluster=place.cluster,
        limit_units=request.requested_units,
        burst_units=KEEP if request.burst_units is None else request.burst_units,
        blame="requested_units",
        actor=actor,
        at=at,
    )


def as_seen(
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
    return QuotaHierarchyBrokenError(seen_once(error.violations, visibility), field=error.field)


def _drafts(request: QuotaRequest, *, at: datetime) -> Iterator[GrantDraft]:
    """Yield one grant for each stretch of the wanted time that lacks as many units."""
    held = limits_around(request, at=at).get(key_asked(request))
    missing = _missing(request, held, at=at)
    row = find_limit(_place(request))
    limit_ids = [] if row is None else [row.pk] * len(missing)
    for limit_id, span in zip(limit_ids, missing, strict=False):
        yield GrantDraft(
            limit_id=limit_id,
            units=span.units,
            begin_at=span.begin_at,
            end_at=span.end_at,
            reason=GrantReason.REQUEST,
            reference=str(request.pk),
        )


def _with_it(request: QuotaRequest, held: HeldLimit | None, *, at: datetime) -> HeldLimit:
    """Return the limit that a request changes, as it would be after it."""
    if is_dated(request):
        missing = _missing(request, held, at=at)
        limit = _finite(held)
        return HeldLimit(limit.limit.with_grants(*missing), limit.burst_units)
    current = held or HeldLimit(TreeLimit(key_asked(request), None))
    burst = current.burst_units if request.burst_units is None else request.burst_units
    return HeldLimit(replace(current.limit, limit_units=request.requested_units), burst)


def _missing(
    request: QuotaRequest, held: HeldLimit | None, *, at: datetime
) -> tuple[GrantSpan, ...]:
    """Return what is missing to the wanted total, for the wanted time: never nothing."""
    limit, span = _finite(held).limit, _span(request, at=at)
    missing = missing_spans(limit, total=request.requested_units, span=span)
    if not missing:
        in_force = lowest_units(limit, span)
        raise QuotaRequestNothingMoreError(
            f"{in_force} units are in force then, and {request.requested_units} are asked in all.",
            field="requested_units",
            facts={"units_in_force": in_force, "requested_units": request.requested_units},
        )
    return missing


def _finite(held: HeldLimit | None) -> HeldLimit:
    if held is None or held.limit.limit_units is None:
        state = "no limit is set" if held is None else "the limit is unlimited"
        raise QuotaRequestWithoutLimitError(
            f"Units for a time come on top of a limit, and {state} there.", field="begin_at"
        )
    return held


def _units(request: QuotaRequest, held: HeldLimit | None, *, at: datetime) -> int | None:
    if held is None or held.limit.limit_units is None:
        return None
    if not is_dated(request):
        return held.limit.limit_units
    return units_at(held.limit, _span(request, at=at).begin_at)


def _is_lowering(request: QuotaRequest, held: HeldLimit | None, span: TermInterval) -> bool:
    """Whether a request takes something away; for a time units are only ever added."""
    if is_dated(request):
        return False
    if held is None:
        return request.requested_units == 0
    if held.limit.limit_units is None:
        return True
    is_less_burst = request.burst_units is not None and request.burst_units < held.burst_units
    return is_less_burst or request.requested_units < peak_units(held.limit, span)


def _refuse_other_units(request: QuotaRequest, held: HeldLimit | None, *, at: datetime) -> None:
    units_now = _units(request, held, at=at)
    is_unlimited = held is not None and held.limit.limit_units is None
    if (units_now, is_unlimited) != (request.units_before, request.is_unlimited_before):
        now = _units_label(units_now, is_unlimited=is_unlimited)
        then = _units_label(request.units_before, is_unlimited=request.is_unlimited_before)
        raise QuotaRequestOutdatedError(
            f"The limit is {now} now; it was {then} when this was asked.",
            facts={"units_before": request.units_before, "units_now": units_now},
        )


def _refuse_other_burst(request: QuotaRequest, held: HeldLimit | None) -> None:
    """Refuse to overwrite burst units that were changed since the request."""
    burst_now = None if held is None else held.burst_units
    if request.burst_units is not None and burst_now != request.burst_before:
        now, then = _units_label(burst_now), _units_label(request.burst_before)
        raise QuotaRequestOutdatedError(
            f"Burst units are {now} now; they were {then} when this was asked.",
            facts={"burst_before": request.burst_before, "burst_now": burst_now},
        )


def _span(request: QuotaRequest, *, at: datetime) -> TermInterval:
    begin_at = at if request.begin_at is None else max(request.begin_at, at)
    return TermInterval(begin_at, request.end_at)


def _place(request: QuotaRequest) -> LimitPlace:
    holder = LimitHolder(request.organization, request.project, request.user)
    return LimitPlace(holder, GPUSize(request.size), request.model_group, request.cluster)


def _units_label(units: int | None, *, is_unlimited: bool = False) -> str:
    if is_unlimited:
        return "unlimited"
    return "not set" if units is None else str(units)
