"""Input of routing: the total of a request, and its cost."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from metering.domain.catalogue.units import GPUSize
from quotas.domain.requests.routing import Cost, RequestedQuota
from quotas.models import QuotaRequest
from quotas.protocols.costs import CostEstimate, CostEstimator, sum_of
from quotas.services.requests.granting import Before
from quotas.services.requests.steps import highest_level
from tenants.domain.actors import Actor


@dataclass(frozen=True)
class CostLot:
    """Units that are priced alike, and what they would cost in a month."""

    units: int
    is_burst: bool
    cost: CostEstimate


def cost_facts(cost: CostEstimate) -> dict[str, Any]:
    """Return an estimate as JSON: amounts as text, None where unknown."""
    document = asdict(cost)
    for name in ("at_full_use", "at_last_use"):
        amount = document[name]
        document[name] = None if amount is None else str(amount)
    return document


def estimate_cost(
    request: QuotaRequest, estimator: CostEstimator | None, *, at: datetime
) -> CostEstimate:
    """Return what the wanted total would cost in a month: nominal units, and burst ones."""
    cost = _cost_of(
        request,
        estimator,
        model_group=request.model_group,
        units=request.requested_units,
        burst_units=request.burst_units or 0,
        at=at,
    )
    return note_on_use(cost, request)


def requested_quota_of(
    request: QuotaRequest,
    found: Before,
    cost: CostEstimate,
    *,
    estimator: CostEstimator | None,
    actor: Actor,
    at: datetime,
) -> RequestedQuota:
    """Return the total for routing: the requested one, or the project's total with it.

    Several requests for models, clusters or users count as the one that they come to together.
    """
    own_units = request.requested_units + (request.burst_units or 0)
    if found.reach.units > own_units:
        cost = _cost_of(
            request,
            estimator,
            model_group="",
            units=found.reach.nominal_units,
            burst_units=found.reach.burst_units,
            at=at,
        )
    return RequestedQuota(
        size=GPUSize(request.size),
        units=max(own_units, found.reach.units),
        cost=Cost(cost.at_full_use, cost.currency),
        asked_by=highest_level(actor=actor, request=request),
        is_lowering=found.is_lowering,
    )


def _cost_of(
    request: QuotaRequest,
    estimator: CostEstimator | None,
    *,
    model_group: str,
    units: int,
    burst_units: int,
    at: datetime,
) -> CostEstimate:
    if estimator is None:
        return CostEstimate("", None, None, note="Nobody here knows prices.")
    lots = price_lots(
        request, estimator, model_group=model_group, units=units, burst_units=burst_units, at=at
    )
    return reduce(sum_of, [lot.cost for lot in lots])


def price_lots(
    request: QuotaRequest,
    estimator: CostEstimator,
    *,
    model_group: str,
    units: int,
    burst_units: int,
    at: datetime,
) -> tuple[CostLot, ...]:
    """Return what units of a request's size would cost its project: nominal ones, then burst.

    Nominal units are priced even where there are none; burst ones only where there are some.
    """
    return tuple(
        CostLot(
            units=count,
            is_burst=is_burst,
            cost=estimator.estimate(
                organization_id=request.organization_id,
                project_id=request.project_id,
                size=GPUSize(request.size),
                model_group=model_group,
                units=count,
                is_burst=is_burst,
                at=at,
            ),
        )
        for count, is_burst in ((units, False), (burst_units, True))
        if count or not is_burst
    )


def note_on_use(cost: CostEstimate, request: QuotaRequest) -> CostEstimate:
    """Return an estimate that says whose use it looks at where less than a project asks."""
    parts = [] if request.user is None else [request.user.username]
    parts += [] if request.cluster is None else [f"on {request.cluster.slug}"]
    if not parts or cost.at_last_use is None:
        return cost
    note = f"The use is the whole project's, not only that of {' '.join(parts)}."
    if request.user is None:
        note = f"The use is the whole project's, not only that {parts[0]}."
    return replace(cost, note=f"{cost.note} {note}".strip())
