"""Turns: questions that come close upon each other are asked together, in one statement.

Who comes while nobody asks, and has not just asked, asks at once. Who comes meanwhile waits for
that to end, and a moment longer for whoever was answered to come again; then all who wait are asked
for. So the busier a process is, the more one statement carries, and its cost is shared by them
(docs/adr/0027).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, Final

TOGETHER_MAX: Final = 16
"""So many ask in one statement: nobody waits longer for a larger one."""
PACE: Final = timedelta(microseconds=800)
"""A turn begins so long after the last one ended, unless a whole statement's worth waits."""


class Turns:
    """Questions of one event loop, asked together.

    Args:
        ask: Asks several questions at once and returns the numbers, from 1, of those that were
            let in. It is never called again before it has returned.
        patience: Who waits longer asks by itself.
        pace: From the end of one turn to the beginning of the next.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[str]], Awaitable[Collection[int]]],
        *,
        patience: timedelta,
        pace: timedelta = PACE,
    ) -> None:
        """Nobody asks."""
        self._ask = ask
        self._patience = _Patience(patience)
        self._pace_seconds = pace.total_seconds()
        self._waiting: dict[asyncio.Future[bool], str] = {}
        self._asking: asyncio.Task[None] | None = None
        self._pacing: asyncio.TimerHandle | None = None

    async def rest(self) -> None:
        """Wait for the turn that is under way, if there is one."""
        if self._asking is not None:
            await asyncio.wait([self._asking])

    async def ask(self, question: str) -> bool:
        """Return whether a question was let in; if not, nothing was decided on it.

        Raises:
            Exception: What asking raised, to all that it was asked for.
        """
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = question
        self._patience.begin(turn)
        self._begin()
        try:
            return await turn
        finally:
            self._patience.end(turn)
            self._waiting.pop(turn, None)

    def _begin(self) -> None:
        """Begin a turn, where there is somebody to ask for and it is time."""
        is_early = self._pacing is not None and len(self._waiting) < TOGETHER_MAX
        if self._asking is not None or is_early or not self._waiting:
            return
        patient = ((turn, asked) for turn, asked in self._waiting.items() if not turn.done())
        together = dict(islice(patient, TOGETHER_MAX))
        for turn in together:
            del self._waiting[turn]
        if not together:
            return
        if self._pacing is not None:
            self._pacing.cancel()
            self._pacing = None
        self._asking = asyncio.create_task(self._ask_for(together))
        self._asking.add_done_callback(self._asked)

    def _asked(self, _: asyncio.Task[None]) -> None:
        self._asking = None
        loop = asyncio.get_running_loop()
        self._pacing = loop.call_later(self._pace_seconds, self._pace_ended)
        self._begin()

    def _pace_ended(self) -> None:
        self._pacing = None
        self._begin()

    async def _ask_for(self, together: dict[asyncio.Future[bool], str]) -> None:
        try:
            numbers = await self._ask(list(together.values()))
        except Exception as error:  # noqa: BLE001 - Each that asked raises it.
            for turn in together:
                if not turn.done():
                    turn.set_exception(error)
            return
        for number, turn in enumerate(together, start=1):
            if not turn.done():
                turn.set_result(number in numbers)


class _Patience:
    """Lets each ask by itself who has waited for so long; one timer looks after all.

    A pod that is let in meanwhile counts once all the same.
    """

    def __init__(self, patience: timedelta) -> None:
        self._seconds = patience.total_seconds()
        # Who has waited longest stands first.
        self._begun: dict[asyncio.Future[bool], Any] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, turn: asyncio.Future[bool]) -> None:
        """Look after one that begins to wait."""
        loop = asyncio.get_running_loop()
        self._begun[turn] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def end(self, turn: asyncio.Future[bool]) -> None:
        """Look after one no longer."""
        self._begun.pop(turn, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for turn, begun in list(self._begun.items()):
            if begun + self._seconds > loop.time():
                self._timer = loop.call_at(begun + self._seconds, self._look)
                return
            if not turn.done():
                turn.set_result(False)
