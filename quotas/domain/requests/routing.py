"""Routing of requests: the levels that decide, their order, and the allowed state transitions.

A policy names steps; a step takes part from a number of wanted units of the size, or from a monthly
cost. The wanted total counts, never the difference: many small requests in a row need the same
approvals as one large one. A request without a price counts as above every cost threshold.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.tree import LimitKey, TermInterval, TreeLimit, stretches, units_at


class RequestLevel(StrEnum):
    """Level that decides a step."""

    PROJECT_LEAD = "project_lead"
    ORGANIZATION_ADMIN = "organization_admin"
    PLATFORM = "platform"
    FINANCE = "finance"


LADDER: Final = (
    RequestLevel.PROJECT_LEAD,
    RequestLevel.ORGANIZATION_ADMIN,
    RequestLevel.PLATFORM,
)
"""From the nearest to the highest. Finance is separate: no other level decides for it."""


@dataclass(frozen=True)
class Cost:
    """A monthly cost at full use.

    Attributes:
        amount: None when no price is known.
        currency: ISO 4217; "" when no price is known.
    """

    amount: Decimal | None = None
    currency: str = ""


@dataclass(frozen=True)
class StepRule:
    """When a level takes part: always where neither threshold is set, else from either one.

    Attributes:
        units_from: Wanted units by size from which it takes part; a size that is missing has no
            threshold.
        cost_from: Monthly cost from which it takes part; None for no threshold.
    """

    level: RequestLevel
    units_from: Mapping[GPUSize, int] = field(default_factory=dict)
    cost_from: Decimal | None = None


@dataclass(frozen=True)
class RoutingRules:
    """The rules by which an organization's requests are routed.

    Attributes:
        steps: In their order.
        currency: Of every amount here.
        automatic_units: The largest wanted total by size that the policy itself approves; a missing
            size is never approved automatically.
        automatic_cost: The largest monthly cost that it approves; None where cost does not matter.
    """

    steps: tuple[StepRule, ...] = (StepRule(RequestLevel.ORGANIZATION_ADMIN),)
    currency: str = ""
    automatic_units: Mapping[GPUSize, int] = field(default_factory=dict)
    automatic_cost: Decimal | None = None


@dataclass(frozen=True)
class RequestedQuota:
    """Input of routing.

    Attributes:
        units: Nominal and burst units wanted in all, or what the project then holds of the size.
        requested_by: The requester's highest level; None for none.
        is_lowering: Whether it lowers any limit, which needs a person's decision.
    """

    size: GPUSize
    units: int
    cost: Cost = Cost()
    requested_by: RequestLevel | None = None
    is_lowering: bool = False


def route_of(rules: RoutingRules, requested_quota: RequestedQuota) -> tuple[RequestLevel, ...]:
    """Return the levels that decide a requested quota, in order, at least one and none twice.

    Levels that the requester holds or outranks are left out: they add no check. The last level
    stays, so that another person always decides.
    """
    levels = _once(rule.level for rule in rules.steps if _takes_part(rule, rules, requested_quota))
    if not levels:
        levels = (RequestLevel.ORGANIZATION_ADMIN,)
    requested_by = requested_quota.requested_by
    return tuple(
        level
        for position, level in enumerate(levels)
        if position == len(levels) - 1 or requested_by is None or not outranks(requested_by, level)
    )


def is_automatic(rules: RoutingRules, requested_quota: RequestedQuota) -> bool:
    """Whether the policy itself approves a requested quota, if the tree of limits holds."""
    units_max = rules.automatic_units.get(requested_quota.size)
    if requested_quota.is_lowering or units_max is None or requested_quota.units > units_max:
        return False
    return rules.automatic_cost is None or not _costs_more(
        requested_quota.cost, rules.automatic_cost, currency=rules.currency
    )


def raised(level: RequestLevel) -> RequestLevel | None:
    """Return the level that takes over from one that does not answer; None above the highest."""
    if level not in LADDER or level is LADDER[-1]:
        return None
    return LADDER[LADDER.index(level) + 1]


def outranks(one: RequestLevel, other: RequestLevel) -> bool:
    """Whether a level is as high as another, or higher; finance compares with itself only."""
    if one is other:
        return True
    if one not in LADDER or other not in LADDER:
        return False
    return LADDER.index(one) > LADDER.index(other)


def _takes_part(rule: StepRule, rules: RoutingRules, requested_quota: RequestedQuota) -> bool:
    units_from = rule.units_from.get(requested_quota.size)
    if not rule.units_from and rule.cost_from is None:
        return True
    if units_from is not None and requested_quota.units >= units_from:
        return True
    return rule.cost_from is not None and not _costs_less(
        requested_quota.cost, rule.cost_from, currency=rules.currency
    )


def _costs_less(cost: Cost, amount: Decimal, *, currency: str) -> bool:
    return cost.amount is not None and cost.currency == currency and cost.amount < amount


def _costs_more(cost: Cost, amount: Decimal, *, currency: str) -> bool:
    return cost.amount is None or cost.currency != currency or cost.amount > amount


def _once(levels: Iterable[RequestLevel]) -> tuple[RequestLevel, ...]:
    return tuple(dict.fromkeys(levels))


@dataclass(frozen=True)
class HoldableUnits:
    """What a project may hold of a size at once, over every model, cluster and user."""

    nominal_units: int = 0
    burst_units: int = 0

    @property
    def units(self) -> int:
        """Both together."""
        return self.nominal_units + self.burst_units


def raised_reach(
    before: Collection[TreeLimit], after: Collection[TreeLimit], span: TermInterval
) -> HoldableUnits:
    """Return the most a project may hold at an instant at which a change lets it hold more.

    Args:
        before: Every limit of the project and of its users, of one size.
        after: The same with the change.
        span: Which instants count.

    Returns:
        Nothing where the change allows no holder more.
    """
    kept, changed = _counted(before), _counted(after)
    burst = sum(one.burst_units for one in changed)
    worst = HoldableUnits()
    for instant in sorted(_instants((*kept, *changed), span)):
        old, new = _reach_at(kept, instant), _reach_at(changed, instant)
        if new.units > old.units and new.units > worst.units:
            worst = HoldableUnits(new.nominal_units, burst)
    return worst


def _reach_at(limits: Collection[TreeLimit], instant: datetime) -> HoldableUnits:
    nominal = sum(units_at(one, instant) for one in limits)
    return HoldableUnits(nominal, sum(one.burst_units for one in limits))


def _instants(limits: Collection[TreeLimit], span: TermInterval) -> set[datetime]:
    return {stretch.begin_at for one in limits for stretch, _ in stretches(one, span)}


def _counted(limits: Collection[TreeLimit]) -> tuple[TreeLimit, ...]:
    """Return the limits that add up: finite ones that no other finite one holds together.

    The project's own limit holds its users' together, and a wider one the narrower ones.
    """
    finite = [one for one in limits if one.limit_units is not None]
    return tuple(one for one in finite if not any(_holds(other.key, one.key) for other in finite))


def _holds(above: LimitKey, below: LimitKey) -> bool:
    is_around = above != below and above.user in {"", below.user}
    return is_around and above.selector.covers(below.selector)


class RequestMove(StrEnum):
    """What can be done to a request."""

    APPROVE = "approve"
    REJECT = "reject"
    CANCEL = "cancel"
    EXPIRE = "expire"


SUBMITTED: Final = "submitted"
OUTCOME: Final[dict[RequestMove, str]] = {
    RequestMove.APPROVE: "approved",
    RequestMove.REJECT: "rejected",
    RequestMove.CANCEL: "cancelled",
    RequestMove.EXPIRE: "expired",
}
"""Target state of each move; all start at `submitted`, and all targets are final."""
