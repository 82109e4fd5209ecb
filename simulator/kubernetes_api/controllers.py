"""A thread that runs controllers a little after something happened, level by level."""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Final

from simulator.kubernetes_api.store import ObjectStore

_WAKE_SECONDS: Final = 0.2


class ControllerThread:
    """Runs what brings the objects to what they say, each time that something was written.

    Args:
        store: Where the objects are.
        name: Of the thread.
        steps: What to run, in this order.
        delay_seconds: Least and most between a write and what follows from it.
        seed: Of the delays.
    """

    def __init__(
        self,
        store: ObjectStore,
        name: str,
        steps: Sequence[Callable[[], None]],
        *,
        delay_seconds: tuple[float, float],
        seed: int = 1,
    ) -> None:
        """Nothing runs yet."""
        self._store = store
        self._name = name
        self._steps = steps
        self._delay_seconds = delay_seconds
        self._random = random.Random(seed)  # noqa: S311 - Delays of a simulation.
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()

    def settle(self) -> None:
        """Run every step now."""
        for step in self._steps:
            step()

    def _run(self) -> None:
        """Run the steps after a write, and now and then without one: a refusal may have passed."""
        while not self._is_stopping.is_set():
            seen = self._store.version
            if self._is_stopping.wait(self._random.uniform(*self._delay_seconds)):
                return
            self.settle()
            self._store.wait(seen, timeout_seconds=_WAKE_SECONDS)
