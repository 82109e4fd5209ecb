"""Monthly cost of an open request at today's prices, compared with the limit without it.

The estimate made with the request stays on it; prices may have changed since.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from quotas.models import QuotaRequest
from quotas.protocols.costs import CostEstimate, CostEstimator, difference_of, sum_of
from quotas.services.requests.valuation import CostLot, note_on_use, price_lots


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
    lots = _lots(
        request, estimator, units=request.requested_units, burst=request.burst_units or 0, at=at
    )
    total = note_on_use(_together(lots), request)
    units = sum(lot.units for lot in lots)
    if request.is_unlimited_before or request.units_before is None:
        return CostToday(lots, total, units, None, None, None)
    burst_before = 0 if request.burst_units is None else request.burst_before or 0
    held = _lots(request, estimator, units=request.units_before, burst=burst_before, at=at)
    before = _together(held)
    return CostToday(
        lots=lots,
        total=total,
        units=units,
        units_before=sum(lot.units for lot in held),
        before=before,
        more=difference_of(total, before),
    )


def _lots(
    request: QuotaRequest,
    estimator: CostEstimator,
    *,
    units: int,
    burst: int,
    at: datetime,
) -> tuple[CostLot, ...]:
    return price_lots(
        request,
        estimator,
        model_group=request.model_group,
        units=units,
        burst_units=burst,
        at=at,
    )


def _together(lots: tuple[CostLot, ...]) -> CostEstimate:
    return reduce(sum_of, [lot.cost for lot in lots])
