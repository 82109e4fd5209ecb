"""Batches: pod reviews that arrive at the same time share a statement and a connection.

A batch starts when the event loop has run a few iterations, which takes microseconds, without a new
request. Requests that arrive during a batch wait for its end; the next batch takes all of them, and
those that follow right after the answers. So a busier process has larger batches, and each request
costs less (docs/adr/0027).

The event loop itself waits for the ledger here, without a thread: to pass questions and answers
between threads cost more than to decide them. A pod that a batch does not decide,
or not in time, is asked alone in a thread, through the same function and under the guard.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, Final

import psycopg
import structlog
from django.db import DEFAULT_DB_ALIAS, Error, OperationalError, connections

from quotas.domain.admission.values import AdmissionVerdict
from quotas.services.admission.admission import admit_batch
from quotas.webhook.figures import NANOSECONDS
from quotas.webhook.guard import LOOK_SECONDS, Breaker, LedgerAwayError, cut_socket, is_away

logger = structlog.get_logger(__name__)

SHARE_OF_DEADLINE = 8
"""A request may wait for its batch for 1/8 of its deadline, and the batch may take as long;
the rest is for a query of its own."""


class Together:
    """Decides requests in batches, on one connection of one event loop.

    Args:
        nanoseconds: Longest wait for a batch, and longest time of a batch.
        clock: Monotonic clock, nanoseconds.
    """

    def __init__(self, nanoseconds: int, clock: Callable[[], int]) -> None:
        """Connect with the first question."""
        self._nanoseconds = nanoseconds
        self._deadline_milliseconds = nanoseconds * SHARE_OF_DEADLINE // 1_000_000
        self._clock = clock
        self._breaker = Breaker(clock)
        self._connection: psycopg.AsyncConnection | None = None
        self._connecting: asyncio.Task[psycopg.AsyncConnection] | None = None
        self._turns = Turns(self._asked, patience=timedelta(microseconds=nanoseconds // 1_000))

    async def verdict(self, question: str) -> AdmissionVerdict | None:
        """Return the verdict on a request; None if it is undecided.

        Args:
            question: As `quotas.services.admission.admission.question_json` returns it.
        """
        return await self._turns.ask(question)

    async def rest(self) -> None:
        """Wait for a running batch, and for a connection that is being opened."""
        await self._turns.rest()
        if self._connecting is not None:
            await asyncio.wait([self._connecting])

    async def close(self) -> None:
        """End the connection; the next question makes another."""
        connection, self._connection = self._connection, None
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        if connection is not None:
            await connection.close()

    async def _asked(self, questions: Sequence[str]) -> Sequence[AdmissionVerdict | None]:
        """Return the verdicts; after an error there are none, and each is asked alone."""
        try:
            self._breaker.enter()
            verdicts = await self._answered(questions)
        except LedgerAwayError:
            return [None] * len(questions)
        except Error as error:
            reason = type(error.__cause__ or error).__name__
            logger.info("admission.batch_fallback", pods=len(questions), reason=reason)
            if is_away(error):
                self._breaker.failed()
            else:
                self._breaker.succeeded()
            return [None] * len(questions)
        except Exception:
            # A bug with one request must not fail the others of its batch.
            logger.exception("admission.batch_crashed", pods=len(questions))
            await self.close()
            return [None] * len(questions)
        self._breaker.succeeded()
        return verdicts

    async def _answered(self, questions: Sequence[str]) -> Sequence[AdmissionVerdict | None]:
        """Query, with one retry after a stale connection."""
        end = self._clock() + self._nanoseconds
        was_open = self._connection is not None
        try:
            return await self._once(questions, end)
        except Error as error:
            is_early = self._clock() < end - self._nanoseconds * 3 // 4
            if not (was_open and is_early and is_away(error)):
                raise
        return await self._once(questions, end)

    async def _once(self, questions: Sequence[str], end: int) -> Sequence[AdmissionVerdict | None]:
        connection = self._connection or await self._connected(end)
        # The loop closes the connection when a batch takes too long, so that a server that hangs is
        # noticed at once; the server then cancels the statement itself.
        cut = _Cut(connection, self._left_seconds(end))
        try:
            with connections[DEFAULT_DB_ALIAS].wrap_database_errors:
                return await admit_batch(
                    questions=questions,
                    using=connection,
                    deadline_milliseconds=self._deadline_milliseconds,
                )
        except Error as error:
            if is_away(error):
                await self.close()
            raise
        finally:
            cut.cancel()

    async def _connected(self, end: int) -> psycopg.AsyncConnection:
        """Return a connection; one that takes longer than a batch serves a later batch.

        Raises:
            django.db.Error: It takes longer, or the database refuses.
        """
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        try:
            with connections[DEFAULT_DB_ALIAS].wrap_database_errors:
                async with asyncio.timeout(self._left_seconds(end)):
                    self._connection = await asyncio.shield(self._connecting)
        except TimeoutError as error:
            raise OperationalError("The ledger takes no connection in time.") from error
        except Error:
            self._connecting = None
            raise
        self._connecting = None
        return self._connection

    async def _connect(self) -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(**own_parameters(), autocommit=True)

    def _left_seconds(self, end: int) -> Any:  # noqa: ANN401 - Seconds, as asyncio takes them.
        return max(0, end - self._clock()) / NANOSECONDS


class _Cut:
    """Cuts a connection after a while, unless it is cancelled; tried again until it is cut."""

    def __init__(self, connection: psycopg.AsyncConnection, seconds: Any) -> None:  # noqa: ANN401 - As asyncio takes them.
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._now)

    def cancel(self) -> None:
        """Leave the connection alone."""
        self._timer.cancel()

    def _now(self) -> None:
        try:
            cut_socket(self._connection.pgconn)
        except OSError:
            logger.exception("admission.disconnect_failed")
            self._timer = self._loop.call_later(LOOK_SECONDS, self._now)


def own_parameters() -> dict[str, Any]:
    """Return Django's connection parameters for psycopg.

    Values are bound on the client side, without prepared statements: a connection pooler does not
    keep them per client.
    """
    known: dict[str, Any] = connections[DEFAULT_DB_ALIAS].get_connection_params()
    own = {"context", "cursor_factory"}
    kept = {name: value for name, value in known.items() if name not in own}
    return {**kept, "cursor_factory": psycopg.AsyncClientCursor}


TOGETHER_MAX: Final = 16
"""Requests in one statement: a larger one would make all of them wait longer."""
CALM_ROUNDS: Final = 4
"""Iterations of the event loop without a new request before a batch starts."""
GATHERING: Final = timedelta(microseconds=800)
"""A batch waits no longer for more requests, however many keep arriving."""


class Turns:
    """Batches of the requests of one event loop.

    Args:
        ask: Returns the verdicts of several requests, None for one that is undecided. Its calls
            never overlap.
        patience: A request that waits longer is decided alone.
        gathering: The longest time a batch waits for more requests.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[str]], Awaitable[Sequence[AdmissionVerdict | None]]],
        *,
        patience: timedelta,
        gathering: timedelta = GATHERING,
    ) -> None:
        """Start with no request."""
        self._ask = ask
        self._patience = _Patience(patience)
        self._gathering_seconds = gathering.total_seconds()
        self._waiting: dict[asyncio.Future[AdmissionVerdict | None], str] = {}
        self._asking: asyncio.Task[None] | None = None
        self._is_gathering = False

    async def rest(self) -> None:
        """Wait for the running batch, if there is one."""
        if self._asking is not None:
            await asyncio.wait([self._asking])

    async def ask(self, question: str) -> AdmissionVerdict | None:
        """Return the verdict on a request; None if it is undecided and to be asked alone.

        Raises:
            Exception: The error of the batch, raised to all its requests.
        """
        turn: asyncio.Future[AdmissionVerdict | None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = question
        self._patience.begin(turn)
        self._begin()
        try:
            return await turn
        finally:
            self._patience.end(turn)
            self._waiting.pop(turn, None)

    def _begin(self) -> None:
        """Start to gather a batch, if requests wait and no batch is running."""
        if self._asking is not None or self._is_gathering or not self._waiting:
            return
        self._is_gathering = True
        end = asyncio.get_running_loop().time() + self._gathering_seconds
        self._gather(0, CALM_ROUNDS, end)

    def _gather(self, count: int, rounds: int, end: Any) -> None:  # noqa: ANN401 - A time of the loop.
        """Start the batch if no request arrived in enough iterations; else check again later."""
        loop = asyncio.get_running_loop()
        waiting = len(self._waiting)
        rounds = rounds - 1 if waiting == count else CALM_ROUNDS
        if rounds and waiting < TOGETHER_MAX and loop.time() < end:
            loop.call_soon(self._gather, waiting, rounds, end)
            return
        self._is_gathering = False
        patient = ((turn, asked) for turn, asked in self._waiting.items() if not turn.done())
        together = dict(islice(patient, TOGETHER_MAX))
        for turn in together:
            del self._waiting[turn]
        if together:
            self._asking = asyncio.create_task(self._ask_for(together))
            self._asking.add_done_callback(self._asked)

    def _asked(self, _: asyncio.Task[None]) -> None:
        self._asking = None
        self._begin()

    async def _ask_for(self, together: dict[asyncio.Future[AdmissionVerdict | None], str]) -> None:
        try:
            verdicts = await self._ask(list(together.values()))
        except Exception as error:  # noqa: BLE001 - Every request of the batch raises it.
            for turn in together:
                if not turn.done():
                    turn.set_exception(error)
            return
        for turn, verdict in zip(together, verdicts, strict=True):
            if not turn.done():
                turn.set_result(verdict)


class _Patience:
    """Let each request that waited too long be decided alone; one timer serves all.

    A pod that the batch admits meanwhile still counts once.
    """

    def __init__(self, patience: timedelta) -> None:
        self._seconds = patience.total_seconds()
        # The request that waited longest is first.
        self._begun: dict[asyncio.Future[AdmissionVerdict | None], Any] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, turn: asyncio.Future[AdmissionVerdict | None]) -> None:
        """Look after one that begins to wait."""
        loop = asyncio.get_running_loop()
        self._begun[turn] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def end(self, turn: asyncio.Future[AdmissionVerdict | None]) -> None:
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
                turn.set_result(None)
