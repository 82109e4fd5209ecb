"""Sizes and whole unit-seconds, and what makes a request believable."""

from enum import StrEnum
from typing import Final

UNITS_MAX: Final = 10_000
"""More units of one resource than any node offers; a larger request is a broken sample."""
UNKNOWN_UNITS_MAX: Final = 10**12
"""More of anything than a pod requests, memory in bytes included; an hour of it can be counted."""


def unit_seconds(*, units: int, seconds: int) -> int:
    """Return what is billed: units held times whole seconds.

    Raises:
        ValueError: One of them is negative.
    """
    if units < 0 or seconds < 0:
        raise ValueError("units and seconds are not negative")
    return units * seconds


def is_believable(units: int, *, is_sized: bool = True) -> bool:
    """Whether a request can be what a pod holds: a positive, bounded whole number.

    The unit of an unknown device is not known, so a much larger number is accepted.
    """
    return 1 <= units <= (UNITS_MAX if is_sized else UNKNOWN_UNITS_MAX)


class GPUSize(StrEnum):
    """Small, Medium and Large. The catalogue decides the size of a device."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class SharingMode(StrEnum):
    """How a device is divided among pods."""

    WHOLE = "whole"
    MIG = "mig"
    TIME_SLICING = "time-slicing"
    MPS = "mps"
