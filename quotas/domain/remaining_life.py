"""Remaining life: how much longer a pod runs, judged by how long its like has run before.

Only lives that lasted longer than the pod has run say anything about its end: a notebook in its
third hour is no longer one of those that are closed after ten minutes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

LIVES_MIN: Final = 5
"""With fewer lives that lasted longer, one of them would decide alone."""


def remaining_seconds(*, age_seconds: int, lives: Sequence[int], percent: int) -> int | None:
    """Return by when, from now, this share of the like of a pod had ended; None when unknown.

    Args:
        age_seconds: How long it has run.
        lives: How long others ran, in seconds, shortest first.
        percent: 50 for the median, 90 for nearly surely; 1 to 100.
    """
    longer = lives[bisect_right(lives, age_seconds) :]
    if len(longer) < LIVES_MIN:
        return None
    rank = -(-len(longer) * percent // 100)
    return longer[rank - 1] - age_seconds
