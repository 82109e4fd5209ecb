"""Figures of metering as people read them; what is billed is never computed from these."""

from decimal import Decimal
from typing import Final

SECONDS_PER_HOUR: Final = 3600
HOURS_PER_DAY: Final = 24


def unit_hours_text(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours with two digits, such as "1,234.50"."""
    return f"{Decimal(unit_seconds) / SECONDS_PER_HOUR:,.2f}"


def percent_text(ratio: Decimal | None) -> str:
    """Return a share such as 0.98 as "98.0 %", unbroken; "-" where none was measured."""
    return "-" if ratio is None else f"{100 * ratio:.1f}\N{NO-BREAK SPACE}%"


def ratio_text(part: int | None, whole: int | None) -> str:
    """Return a part of a whole such as 98 of 100 as "98.0 %"; "-" where either is not known."""
    return "-" if part is None or not whole else percent_text(Decimal(part) / whole)


def duration_text(seconds: int | None) -> str:
    """Return whole seconds by the two largest units, such as "3 d 2 h" or "3 s"; "-" for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(seconds, 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, HOURS_PER_DAY)
    if days:
        return f"{days} d {hours_left} h"
    if hours:
        return f"{hours} h {minutes_left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
