"""Admission: pod reviews that arrive close together are decided in one statement.

A batch starts when the event loop has run a few iterations, which takes microseconds, without a new
request. Requests that arrive during a batch wait for its end; the next batch takes all of them, and
those that follow right after the answers. So a busier process has larger batches, and each request
costs less (docs/adr/0027).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

import msgspec
import psycopg
from django.db import connection

from quotas.domain.admission.pod_fields import UNITS_MAX
from quotas.domain.admission.values import AdmissionVerdict, PodQuestion, VerdictCode, verdict_of

STATEMENT = "SELECT quotas_admit(%s::jsonb)"
BATCH_LOCK_MILLISECONDS = 25
"""How long a batch waits for a lock; the pods of one that waits longer are asked one by one."""
CHECK_MILLISECONDS = 100
"""How often a statement that runs looks whether its connection was cut: it then undoes its work."""


def admit(
    *,
    question: PodQuestion,
    at: datetime,
    ttl_seconds: int,
    unbound: str,
    deadline_milliseconds: int | None = None,
) -> AdmissionVerdict:
    """Let a pod in and count it, or say why not: all its demands or none, in one statement.

    Repeated calls for the same pod count it once. A dry run returns the same and writes nothing. In
    a cluster that only warns, the pod is counted whatever the verdict. Impossible requests are
    denied without a query, and never counted.

    Args:
        question: The pod's request; it has at least one demand.
        at: When, UTC: decides which bindings, grants and suspensions hold.
        ttl_seconds: How long it is counted before the watch has seen the pod.
        unbound: "allow" lets a pod into a namespace that no project has; "deny" refuses it.
        deadline_milliseconds: How long the question may take; the ledger gives up before. None for
            as long as the connection's role may.

    Raises:
        django.db.OperationalError: The database is away, or a lock or the statement took too long;
            nothing was counted then.
    """
    if is_too_large(question):
        return AdmissionVerdict(VerdictCode.DEMAND_TOO_LARGE)
    asked = question_json(question, at=at, ttl_seconds=ttl_seconds, unbound=unbound)
    with connection.cursor() as cursor:
        statement = STATEMENT
        if deadline_milliseconds is not None:
            statement = _limited(statement, deadline_milliseconds, deadline_milliseconds // 2)
        cursor.execute(statement, [f"[{asked}]"])
        cursor.set_result(-1)
        (answer,) = cursor.fetchone()
    (verdict,) = json.loads(answer) if isinstance(answer, str) else answer
    return verdict_of(verdict)


def is_too_large(question: PodQuestion) -> bool:
    """Whether a request is denied without a query."""
    return any(demand.units > UNITS_MAX for demand in question.demands)


async def admit_batch(
    *, questions: Sequence[str], using: psycopg.AsyncConnection, deadline_milliseconds: int
) -> Sequence[AdmissionVerdict | None]:
    """Admit or deny pods in one statement; see `admit` and docs/adr/0027.

    Args:
        questions: From `question_json`.
        using: The connection; in autocommit, with client-side binding.
        deadline_milliseconds: As of `admit`.

    Returns:
        The verdicts, in order. Of several pods, one that is not admitted has None: it is not
        decided, and to be asked alone.

    Raises:
        psycopg.Error: Nothing was counted, unless the answer alone was lost.
    """
    statement = _limited(STATEMENT, deadline_milliseconds, BATCH_LOCK_MILLISECONDS)
    cursor = await using.execute(statement, [f"[{','.join(questions)}]"])
    await cursor.set_result(-1)
    ((verdicts,),) = await cursor.fetchall()
    return [None if verdict is None else verdict_of(verdict) for verdict in verdicts]


def _limited(statement: str, deadline_milliseconds: int, lock_milliseconds: int) -> str:
    """Return a statement that gives up before its deadline: one message, one transaction.

    So what is answered as undecided is not counted afterwards. Limits of the session would be met
    by a stranger behind a pooler; see docs/adr/0029.
    """
    limits = {
        "lock_timeout": lock_milliseconds,
        "statement_timeout": deadline_milliseconds * 3 // 4,
        "client_connection_check_interval": CHECK_MILLISECONDS,
    }
    settings = "".join(f"SET LOCAL {name} = {value};" for name, value in limits.items())
    return settings + statement


def question_json(question: PodQuestion, *, at: datetime, ttl_seconds: int, unbound: str) -> str:
    """Return a question as the functions of the database take it; see `admit`."""
    return msgspec.json.encode(
        {
            "at": at,
            "ttl_seconds": ttl_seconds,
            "unbound": unbound,
            "cluster_id": question.cluster_id,
            "namespace": question.namespace,
            "pod_uid": question.pod_uid,
            "pod_name": question.pod_name,
            "controller": question.controller,
            "owner": question.owner,
            "is_burst": question.is_burst,
            "is_dry_run": question.is_dry_run,
            "demands": [
                {
                    "resource": demand.resource,
                    "size": demand.size,
                    "units": demand.units,
                    "model_groups": demand.model_groups,
                }
                for demand in question.demands
            ],
        }
    ).decode()


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
