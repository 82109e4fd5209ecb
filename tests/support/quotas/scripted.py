"""A stop that plays a script: what is done in a cluster beside a running watch, and waited for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event

LOOKS_MAX = 500
Step = Callable[[], object]
"""What is done or waited for: it is repeated while it returns False."""


@dataclass
class ScriptedStop(Event):
    """A stop that takes the next step of a script whenever it is asked for, and ends with it."""

    script: Iterator[Step]
    waits: list[float] = field(default_factory=list)
    looks: int = 0
    step: Step = lambda: None
    has_ended: bool = False

    def is_set(self) -> bool:
        self.looks += 1
        assert self.looks < LOOKS_MAX, "The script did not come to its end."
        while not self.has_ended and self.step() is not False:
            following = next(self.script, None)
            self.has_ended = following is None
            self.step = following or self.step
        return self.has_ended

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0)
        return self.is_set()
