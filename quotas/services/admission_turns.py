"""Turns: threads of one process that ask at the same time ask together, in one statement.

Nobody waits for company. Who comes while nobody asks, asks at once; who comes meanwhile waits for
that to end, and then one of them asks for all who wait. So the busier a process is, the more one
statement carries, and its cost is shared by them (docs/adr/0027).
"""

import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final

TOGETHER_MAX: Final = 16
"""So many ask in one statement: nobody waits longer for a larger one."""


class Turns:
    """Questions of threads, asked together; safe for threads.

    Args:
        ask: Asks several questions at once and returns the numbers, from 1, of those that were
            let in. It is never called by two threads at a time.
        patience: Who waits longer asks by itself.
    """

    def __init__(
        self, ask: Callable[[Sequence[str]], Collection[int]], *, patience: timedelta
    ) -> None:
        """Nobody asks."""
        self._ask = ask
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: list[_Turn] = []
        self._is_led = False

    @property
    def waiting(self) -> int:
        """How many wait for the statement of another to end."""
        return len(self._waiting)

    def ask(self, question: str) -> bool:
        """Return whether a question was let in; if not, nothing was decided on it.

        Raises:
            Exception: What asking raised, to whoever asked for all; the others were not let in.
        """
        turn = _Turn(question)
        with self._lock:
            self._waiting.append(turn)
            leads = not self._is_led
            self._is_led = True
        if not leads and not turn.wait(self._patience):
            self._leave(turn)
        if leads or turn.leads:
            self._lead(turn)
        return turn.is_let_in

    def _leave(self, turn: "_Turn") -> None:
        """Wait no longer. Asked by itself, too, a pod that is let in meanwhile counts once."""
        with self._lock:
            if turn in self._waiting and not turn.leads:
                self._waiting.remove(turn)

    def _lead(self, mine: "_Turn") -> None:
        with self._lock:
            together = self._waiting[:TOGETHER_MAX]
            del self._waiting[:TOGETHER_MAX]
        numbers: Collection[int] = ()
        try:
            numbers = self._ask([one.question for one in together])
        finally:
            self._hand_over()
            for number, one in enumerate(together, start=1):
                one.is_let_in = number in numbers
                if one is not mine:
                    one.end()

    def _hand_over(self) -> None:
        """Let the one that waits longest ask for all that wait."""
        with self._lock:
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].end()


class _Turn:
    """One question that waits."""

    __slots__ = ("_ended", "is_let_in", "leads", "question")

    def __init__(self, question: str) -> None:
        self.question = question
        self.leads = False
        self.is_let_in = False
        self._ended = threading.Lock()
        self._ended.acquire()

    def wait(self, patience: timedelta) -> bool:
        """Wait until there is an answer, or the lead; whether it came in time."""
        return self._ended.acquire(timeout=patience.total_seconds())

    def end(self) -> None:
        """Wake who waits."""
        self._ended.release()
