"""Costs of a request: as it is submitted, for its routing, and at today's prices."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from metering.domain.catalogue.units import GPUSize
from quotas.domain.requests.routing import Cost, RequestedQuota
from quotas.models import QuotaRequest
from quotas.protocols.costs import CostEstimate, CostEstimator, difference_of, sum_of
from quotas.services.requests.deciding import highest_level
from quotas.services.requests.granting import Before
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
    return _note_on_use(cost, request)


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
        requested_by=highest_level(actor=actor, request=request),
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
    lots = _price_lots(
        request, estimator, model_group=model_group, units=units, burst_units=burst_units, at=at
    )
    return _total_of(lots)


def _total_of(lots: tuple[CostLot, ...]) -> CostEstimate:
    return reduce(sum_of, [lot.cost for lot in lots])


def _price_lots(
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


def _note_on_use(cost: CostEstimate, request: QuotaRequest) -> CostEstimate:
    """Return an estimate that says whose use it looks at where less than a project asks."""
    parts = [] if request.user is None else [request.user.username]
    parts += [] if request.cluster is None else [f"on {request.cluster.slug}"]
    if not parts or cost.at_last_use is None:
        return cost
    note = f"The use is the whole project's, not only that of {' '.join(parts)}."
    if request.user is None:
        note = f"The use is the whole project's, not only that {parts[0]}."
    return replace(cost, note=f"{cost.note} {note}".strip())


@dataclass(frozen=True)
class CostToday:
    """A month of a request at today's prices.

    Attributes:
        lots: The wanted units, nominal and then burst.
        total: Their total cost, with the notes.
        units: The wanted total; burst ones count where they are asked for.
        units_before: What holds without it, counted alike; None where the limit is unlimited, and
            where none is set: then the level above decides, and no number says what holds.
        before: What that costs; None where there is no such number.
        more: How much more is wanted than that; None where there is no such number.
    """

    lots: tuple[CostLot, ...]
    total: CostEstimate
    units: int
    units_before: int | None
    before: CostEstimate | None
    more: CostEstimate | None

    @property
    def more_units(self) -> int | None:
        """How many more units are wanted; negative where it is fewer."""
        return None if self.units_before is None else self.units - self.units_before


def cost_today(request: QuotaRequest, *, estimator: CostEstimator, at: datetime) -> CostToday:
    """Return a request's monthly cost at today's prices, and the difference.

    Args:
        request: The request; the limit stored with it is the baseline.
        estimator: Source of prices.
        at: Today, UTC.
    """
    group = request.model_group
    lots = _price_lots(
        request,
        estimator,
        model_group=group,
        units=request.requested_units,
        burst_units=request.burst_units or 0,
        at=at,
    )
    total = _note_on_use(_total_of(lots), request)
    units = sum(lot.units for lot in lots)
    if request.is_unlimited_before or request.units_before is None:
        return CostToday(lots, total, units, None, None, None)
    burst_before = 0 if request.burst_units is None else request.burst_before or 0
    held = _price_lots(
        request,
        estimator,
        model_group=group,
        units=request.units_before,
        burst_units=burst_before,
        at=at,
    )
    before = _total_of(held)
    return CostToday(
        lots=lots,
        total=total,
        units=units,
        units_before=sum(lot.units for lot in held),
        before=before,
        more=difference_of(total, before),
    )
