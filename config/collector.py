"""Python's cyclic garbage collector, set for processes that meter.

A window of ten thousand pods makes half a million objects that live until it is written and hold no
cycles. Looking for cycles among them again and again took a tenth to a fifth of a window's time
and freed nothing: its peak of memory is the same either way.
"""

import gc
from typing import Final

THRESHOLDS: Final = (100_000, 50, 100)
"""Objects before a young collection, and young ones before older; Python's own are 700, 10, 10."""


def calm_collector() -> None:
    """Collect seldom from now on, and never again what the process started with."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
