"""Measurement: whole unit-seconds, and what makes a request believable."""

from typing import Final

UNITS_MAX: Final = 10_000
"""More units of one resource than any node offers; a larger request is a broken sample."""


def unit_seconds(*, units: int, seconds: int) -> int:
    """Return what is billed: units held times whole seconds.

    Raises:
        ValueError: One of them is negative.
    """
    if units < 0 or seconds < 0:
        raise ValueError("units and seconds are not negative")
    return units * seconds


def is_believable(units: int) -> bool:
    """Whether a request can be what a pod holds: a positive, bounded whole number."""
    return 1 <= units <= UNITS_MAX
