"""What an approval does: the limit becomes what was asked, or a grant comes on top of it."""

from datetime import datetime

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.errors import (
    QuotaRequestNothingMoreError,
    QuotaRequestOutdatedError,
    QuotaRequestWithoutLimitError,
)
from quotas.domain.limit_terms import KEEP
from quotas.models import GrantReason, QuotaRequest
from quotas.selectors.in_force import LimitInForce
from quotas.selectors.requests import limit_at
from quotas.services.grants import GrantDraft, grant_together
from quotas.services.holders import Holder
from quotas.services.limit_places import LimitPlace, find_limit
from quotas.services.limits import write_limit
from tenants.domain.actors import Actor


def is_dated(request: QuotaRequest) -> bool:
    """Whether a request becomes a grant for a time, rather than the limit itself."""
    return request.begin_at is not None or request.end_at is not None


def units_without(request: QuotaRequest, *, at: datetime) -> int | None:
    """Return what holds where a request asks, without it; None when unset or unlimited.

    For a time it is what is in force at its begin, grants included; else it is the limit itself.
    """
    if is_dated(request):
        limit = limit_at(request, at=_begin(request, at=at))
        return None if limit is None else limit.nominal_units
    row = find_limit(_place(request))
    return None if row is None else row.limit_units


def refuse_impossible(request: QuotaRequest, *, at: datetime) -> None:
    """Refuse what no approval could grant, as things stand.

    Raises:
        QuotaRequestWithoutLimitError: Units for a time are asked where no number is set.
        QuotaRequestNothingMoreError: They are not more than what is in force then.
    """
    if is_dated(request):
        _added_units(request, _limit(request, at=at))


def refuse_outdated(request: QuotaRequest, *, at: datetime) -> None:
    """Refuse to approve a request whose number meant something else when it was asked.

    Raises:
        QuotaRequestOutdatedError: The limit has changed, or the time asked for is over.
    """
    units_now = units_without(request, at=at)
    if units_now != request.units_before:
        raise QuotaRequestOutdatedError(
            f"The limit is {_told(units_now)} now; it was {_told(request.units_before)} when this "
            "was asked.",
            facts={"units_before": request.units_before, "units_now": units_now},
        )
    if request.end_at is not None and request.end_at <= at:
        raise QuotaRequestOutdatedError(
            "The time it was asked for is over.", facts={"end_at": request.end_at.isoformat()}
        )


def grant_request(request: QuotaRequest, *, actor: Actor, at: datetime) -> None:
    """Make a request true, so that the tree of limits holds at every instant.

    Raises:
        ProjectClosedError: The project is closed.
        QuotaRequestWithoutLimitError: Units for a time are asked where no number is set.
        QuotaRequestNothingMoreError: They are not more than what is in force then.
        QuotaHierarchyBrokenError: The tree would not hold; every violation is told.
    """
    if is_dated(request):
        _grant(request, actor=actor, at=at)
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


def _grant(request: QuotaRequest, *, actor: Actor, at: datetime) -> None:
    limit = _limit(request, at=at)
    draft = GrantDraft(
        limit_id=limit.limit_id,
        units=_added_units(request, limit),
        begin_at=_begin(request, at=at),
        end_at=request.end_at,
        reason=GrantReason.REQUEST,
        reference=str(request.pk),
    )
    grant_together(drafts=[draft], blame="requested_units", actor=actor, at=at)


def _limit(request: QuotaRequest, *, at: datetime) -> LimitInForce:
    limit = limit_at(request, at=_begin(request, at=at))
    if limit is None or limit.nominal_units is None:
        state = "no limit is set" if limit is None else "the limit is unlimited"
        raise QuotaRequestWithoutLimitError(
            f"Units for a time come on top of a limit, and {state} there.", field="begin_at"
        )
    return limit


def _added_units(request: QuotaRequest, limit: LimitInForce) -> int:
    """Return by how much the wanted total exceeds what is in force."""
    in_force = limit.nominal_units or 0
    if request.requested_units <= in_force:
        raise QuotaRequestNothingMoreError(
            f"{in_force} units are in force then, and {request.requested_units} are asked in all.",
            field="requested_units",
            facts={"units_in_force": in_force, "requested_units": request.requested_units},
        )
    return request.requested_units - in_force


def _begin(request: QuotaRequest, *, at: datetime) -> datetime:
    return at if request.begin_at is None else max(request.begin_at, at)


def _place(request: QuotaRequest) -> LimitPlace:
    holder = Holder(request.organization, request.project, request.user)
    return LimitPlace(holder, GPUSize(request.size), request.model_group, request.cluster)


def _told(units: int | None) -> str:
    return "not set" if units is None else str(units)
