"""Python's collector of cycles, in the processes that serve and meter."""

import gc
from typing import Final

THRESHOLDS: Final = (100_000, 50, 100)
"""Objects before a young collection, and young ones before older; Python's own are 700, 10, 10."""


def calm_collector() -> None:
    """Collect seldom from now on, and never again what the process started with.

    To look through all that was loaded takes a fifth of a second, in the middle of some request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
