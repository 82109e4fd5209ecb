"""Signals that end a program in order: they become an exception, so that every context closes."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


def _leave(number: int, _frame: FrameType | None) -> None:
    """End the program the way Ctrl-C does, with the status a shell expects of the signal."""
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)


ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@contextlib.contextmanager
def orderly_end() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, SIGHUP and Ctrl-C; a second signal changes nothing."""
    before = {number: signal.signal(number, _leave) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
