"""Requests and their policies as text for people: in mails, on pages and buttons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
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
_GENERAL_PRICES: Final = {"*": "general price", "*/burst": "general burst price"}


@dataclass(frozen=True)
class Allowed:
    """Units that a holder may use at one time.

    Attributes:
        units: None when no number is set, or when it is unlimited.
        burst_units: None where burst units are not part of the request.
    """

    units: int | None
    burst_units: int | None = None
    is_unlimited: bool = False

    def __str__(self) -> str:
        """Return it as text, such as "5 and 1 burst"."""
        if self.units is None and not self.is_unlimited:
            return "not set"
        units = "unlimited" if self.is_unlimited else str(self.units)
        return units if self.burst_units is None else f"{units} and {self.burst_units} burst"


@dataclass(frozen=True)
class RequestFigures:
    """The figures of a request that its text needs.

    Attributes:
        holder: The project or user it is for, such as "LLM" or "carol in LLM".
        what: Such as "large", "large of H100" or "large of H100 on hopper".
        units: The requested total.
        units_before: The limit without it; None when unset or unlimited.
        burst_units: The requested total of burst units; None leaves them as they are.
        is_unlimited_before: Whether `units_before` is None because the limit is unlimited.
    """

    holder: str
    what: str
    units: int
    units_before: int | None
    burst_units: int | None = None
    begin_at: datetime | None = None
    end_at: datetime | None = None
    is_unlimited_before: bool = False

    @property
    def total(self) -> str:
        """What may be held in all, in short."""
        burst = "" if self.burst_units is None else f" and {self.burst_units} burst"
        return f"{self.units} {self.what}{burst}"

    @property
    def sentence(self) -> str:
        """Text of a new request: holder, total, total without it, and times."""
        if self.is_unlimited_before:
            before = "now unlimited"
        elif self.units_before is None:
            before = "no number is set"
        else:
            before = f"now {self.units_before}"
        return f"{self.holder} may hold {self.total} in all ({before}), {self.span}."

    @property
    def sentence_approved(self) -> str:
        """Text of an approved request; the total before it is in the past tense."""
        if self.is_unlimited_before:
            before = "unlimited until then"
        elif self.units_before is None:
            before = "no number was set"
        else:
            before = f"{self.units_before} until then"
        return f"{self.holder} may hold {self.total} in all ({before}), {self.span}."

    @property
    def sentence_in_vain(self) -> str:
        """What would have become of a request that was not approved."""
        return f"{self.holder} would have been allowed {self.total} in all, {self.span}."

    def would_be(self, *, now: Allowed) -> str:
        """Return the text of an open request's effect, compared with the current limit."""
        if now.is_unlimited:
            held = f"it is {now} now"
        elif now.units is None:
            held = "no number is set now"
        else:
            held = f"it is allowed {now} now"
        return f"Once approved, {self.holder} is allowed {self.total} in all, {self.span}; {held}."

    def was_approved(self, *, before: Allowed, now: Allowed, decided_at: datetime) -> str:
        """Return the text of an approval's effect: the units before and the units now.

        Args:
            before: Units in force when it was approved.
            now: Units in force now, later changes included.
            decided_at: UTC.
        """
        span = replace(self, begin_at=self.begin_at or decided_at).span
        return (
            f"{self.holder} was allowed {self.total} in all, {span} "
            f"(was {before} when it was approved; now {now})."
        )

    @property
    def span(self) -> str:
        """From when to when."""
        begin = (
            "from the approval on"
            if self.begin_at is None
            else f"from {format_moment(self.begin_at)}"
        )
        end = "without end" if self.end_at is None else f"until {format_moment(self.end_at)}"
        return f"{begin}, {end}"


def format_moment(moment: datetime) -> str:
    """Return a time as text, in UTC."""
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


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
    return " and ".join(_GENERAL_PRICES.get(part, part) for part in price_group.split(" and "))


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
