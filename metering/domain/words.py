"""Figures of metering as people read them; what is billed is never computed from these."""

from decimal import Decimal
from typing import Final

SECONDS_PER_HOUR: Final = 3600


def unit_hours_words(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours with two digits, such as "1,234.50"."""
    return f"{Decimal(unit_seconds) / SECONDS_PER_HOUR:,.2f}"


def percent_words(ratio: Decimal | None) -> str:
    """Return a share such as 0.98 as "98.0 %", unbroken; "-" where none was measured."""
    return "-" if ratio is None else f"{100 * ratio:.1f}\N{NO-BREAK SPACE}%"
