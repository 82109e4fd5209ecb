"""Retry: how long to leave a cluster alone after it did not do what was asked."""

from datetime import timedelta
from typing import Final

FIRST_DELAY_SECONDS: Final = 5
DELAY_SECONDS_MAX: Final = 300
"""A quota is level-triggered and never given up; five minutes is how stale it may stay at most."""


def delay_after(attempt: int) -> timedelta:
    """Return the wait after an attempt, doubled each time up to the limit.

    Args:
        attempt: How many have failed in a row, 1 for the first.
    """
    doublings = min(max(attempt, 1) - 1, DELAY_SECONDS_MAX.bit_length())
    return timedelta(seconds=min(FIRST_DELAY_SECONDS << doublings, DELAY_SECONDS_MAX))
