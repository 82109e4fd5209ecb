"""Undisturbed: stretches of work in which Python does not look for cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let no search for cycles interrupt a block, nor the function this decorates.

    A window of ten thousand pods makes a million objects that live until it is written and hold
    no cycles; three searches through half of them took a tenth of the time of reading them. What
    cycles there are wait for the end of the window, which is bounded in size and in time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
