"""Costs, events and policies of requests as text for people, in mails and on pages."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from metering.domain.catalogue.units import GPUSize

DEEDS: Final = {
    "submit": "asked",
    "approve_step": "approved a step",
    "approve": "approved",
    "reject": "rejected",
    "cancel": "withdrew it",
    "expire": "let it expire",
    "escalate": "gave the turn to the level above",
    "remind": "reminded of its end",
    "comment": "commented",
}
"""Events of a request, by the last part of the audit action."""
GENERAL_PRICES: Final = {"*": "general price", "*/burst": "general burst price"}


def money_text(amount: Decimal | str | None, currency: str, *, is_change: bool = False) -> str:
    """Return an amount as a person reads it, such as "5,840.00 EUR"; "unknown" for None.

    Args:
        amount: Exact, of as many digits as its currency has.
        currency: ISO 4217.
        is_change: Whether to add the sign, such as "+5,840.00 EUR".
    """
    if amount is None:
        return "unknown"
    exact = Decimal(amount)
    amount = f"{exact:+,}" if is_change and exact else f"{exact:,}"
    return f"{amount} {currency}"


def price_text(price_group: str) -> str:
    """Return the model group whose price was used, as text; the price for any group has no name."""
    return " and ".join(GENERAL_PRICES.get(part, part) for part in price_group.split(" and "))


def action_text(action: str) -> str:
    """Return what an audit action did to a request; an action of another kind stays as it is."""
    return DEEDS.get(action.rpartition(":")[2], action)


NOBODY_ELSE: Final = "nothing: a person always decides"


def steps_text(steps: Sequence[Mapping[str, Any]], *, currency: str) -> str:
    """Return the deciders in order, such as "finance from 10,000 EUR a month, then platform"."""
    return ", then ".join(_step(step, currency) for step in steps)


def band_text(units: Mapping[str, int], cost: Decimal | None, *, currency: str) -> str:
    """Return what a policy approves by itself.

    Args:
        units: The largest wanted total by size.
        cost: The largest cost a month; None where it does not matter.
        currency: ISO 4217, of the cost.
    """
    if not units:
        return NOBODY_ELSE
    at_most = "" if cost is None else f" for at most {_amount(cost, currency)} a month"
    return f"up to {_sizes(units)}{at_most}"


def escalation_text(hours: int | None) -> str:
    """Return when the level above takes over from one that does not answer."""
    return "never" if hours is None else f"after {_count(hours, 'hour')}"


def days_text(days: int) -> str:
    """Return a number of days, such as "30 days"."""
    return _count(days, "day")


def _step(step: Mapping[str, Any], currency: str) -> str:
    level = str(step["level"]).replace("_", " ")
    units, cost = step.get("units_from") or {}, step.get("cost_from")
    bounds = [_sizes(units)] if units else []
    bounds += [] if cost is None else [f"{_amount(cost, currency)} a month"]
    return f"{level} from {' or '.join(bounds)}" if bounds else level


def _sizes(units: Mapping[str, int]) -> str:
    order = [size.value for size in GPUSize]
    return " or ".join(f"{units[size]} {size}" for size in sorted(units, key=order.index))


def _amount(amount: Decimal | str, currency: str) -> str:
    """Return an amount without digits that say nothing; money has two of them, or none."""
    exact = Decimal(amount)
    is_whole = exact == exact.to_integral_value()
    return f"{exact:,.0f} {currency}" if is_whole else f"{exact:,.2f} {currency}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
