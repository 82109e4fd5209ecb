"""Requests in words, as a person reads them in a mail or above a button."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class WishWords:
    """What is needed to say what somebody asks.

    Attributes:
        holder: Whom it is for, such as "LLM" or "carol in LLM".
        what: Such as "large", "large of H100" or "large of H100 on hopper".
        units: The wanted total.
        units_before: What holds without it; None when unset or unlimited.
        burst_units: The wanted total of burst units; None leaves them as they are.
    """

    holder: str
    what: str
    units: int
    units_before: int | None
    burst_units: int | None = None
    begin_at: datetime | None = None
    end_at: datetime | None = None

    @property
    def total(self) -> str:
        """What may be held in all, in short."""
        burst = "" if self.burst_units is None else f" and {self.burst_units} burst"
        return f"{self.units} {self.what}{burst}"

    @property
    def sentence(self) -> str:
        """Who may hold how much in all, how much it is without, and when."""
        before = "no number is set" if self.units_before is None else f"now {self.units_before}"
        return f"{self.holder} may hold {self.total} in all ({before}), {self.span}."

    @property
    def span(self) -> str:
        """From when to when."""
        begin = "from the approval on" if self.begin_at is None else f"from {told(self.begin_at)}"
        end = "without end" if self.end_at is None else f"until {told(self.end_at)}"
        return f"{begin}, {end}"


def told(moment: datetime) -> str:
    """Return a time in words, in UTC."""
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
