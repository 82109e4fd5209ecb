"""Who asks at the same time asks together, and nobody is purged."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from quotas.domain.admission.values import AdmissionVerdict, VerdictCode
from quotas.webhook.together import TOGETHER_MAX, Turns

Result = TypeVar("Result")
WAIT = timedelta(seconds=20)
AT_ONCE = timedelta()
ALLOWED = AdmissionVerdict(VerdictCode.ALLOWED)


class Ledger:
    """Lets in what begins with "yes"; holds every statement until it is let go."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.statements: list[list[str]] = []
        self.begun = asyncio.Semaphore(0)
        self.go = asyncio.Semaphore(0)
        self.is_held = is_held
        self.faults: dict[str, Exception] = {}
        self.running = 0

    async def __call__(self, questions: Sequence[str]) -> list[AdmissionVerdict | None]:
        self.running += 1
        assert self.running == 1, "Two statements run at a time."
        self.statements.append(list(questions))
        self.begun.release()
        if self.is_held:
            await self.go.acquire()
        self.running -= 1
        if questions[0] in self.faults:
            raise self.faults[questions[0]]
        return [ALLOWED if question.startswith("yes") else None for question in questions]

    def let_go(self, count: int) -> None:
        for _ in range(count):
            self.go.release()


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end, and not for ever."""

    async def within() -> Result:
        async with asyncio.timeout(WAIT.total_seconds()):
            return await coroutine

    return asyncio.run(within())


async def admits(turns: Turns, name: str) -> bool:
    return await turns.ask(name) is not None


async def company(turns: Turns, ledger: Ledger, names: Sequence[str]) -> list[asyncio.Task[bool]]:
    """Let the first ask and be held, and the others come meanwhile, in their order."""
    tasks = [asyncio.create_task(admits(turns, names[0]))]
    await ledger.begun.acquire()
    tasks += [asyncio.create_task(admits(turns, name)) for name in names[1:]]
    await asyncio.sleep(0)
    return tasks


def test_who_comes_alone_asks_at_once() -> None:
    async def scene() -> tuple[list[bool], list[list[str]]]:
        ledger = Ledger()
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        reported = [await admits(turns, name) for name in ("yes-1", "no-2", "yes-3")]
        return reported, ledger.statements

    assert run(scene()) == ([True, False, True], [["yes-1"], ["no-2"], ["yes-3"]])


def test_who_comes_meanwhile_is_asked_together_in_order() -> None:
    async def scene() -> tuple[list[bool], list[list[str]]]:
        ledger = Ledger(is_held=True)
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        tasks = await company(turns, ledger, ["yes-1", "no-2", "yes-3", "no-4"])
        ledger.let_go(2)
        return await asyncio.gather(*tasks), ledger.statements

    assert run(scene()) == ([True, False, True, False], [["yes-1"], ["no-2", "yes-3", "no-4"]])


def test_no_statement_carries_more_than_its_share() -> None:
    async def scene() -> tuple[list[bool], list[int]]:
        ledger = Ledger(is_held=True)
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        names = [f"yes-{number}" for number in range(2 * TOGETHER_MAX)]
        tasks = await company(turns, ledger, names)
        ledger.let_go(3)
        return await asyncio.gather(*tasks), [len(one) for one in ledger.statements]

    reported, carried = run(scene())

    assert reported == [True] * 2 * TOGETHER_MAX
    assert carried == [1, TOGETHER_MAX, TOGETHER_MAX - 1]


async def coming(turns: Turns, names: Sequence[str]) -> list[asyncio.Task[bool]]:
    """Let each ask one round of the event loop after the one before."""
    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(admits(turns, name)))
        await asyncio.sleep(0)
    return tasks


def test_who_comes_upon_each_other_is_asked_together() -> None:
    async def scene() -> list[list[str]]:
        ledger = Ledger()
        turns = Turns(ledger, patience=WAIT, gathering=WAIT)
        assert await admits(turns, "yes-1")
        assert all(await asyncio.gather(*await coming(turns, ["yes-2", "yes-3", "yes-4"])))
        return ledger.statements

    assert run(scene()) == [["yes-1"], ["yes-2", "yes-3", "yes-4"]]


def test_a_whole_statements_worth_waits_for_nobody_else() -> None:
    async def scene() -> list[int]:
        ledger = Ledger()
        turns = Turns(ledger, patience=WAIT, gathering=WAIT)
        names = [f"yes-{number}" for number in range(1 + TOGETHER_MAX)]
        assert all(await asyncio.gather(*await coming(turns, names)))
        return [len(one) for one in ledger.statements]

    assert run(scene()) == [TOGETHER_MAX, 1]


def test_nobody_waits_longer_however_many_keep_coming() -> None:
    async def scene() -> list[int]:
        ledger = Ledger()
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        assert all(await asyncio.gather(*await coming(turns, ["yes-1", "yes-2", "yes-3"])))
        return [len(one) for one in ledger.statements]

    assert run(scene())[0] == 1


def test_a_statement_that_fails_fails_for_all_that_it_was_asked_for() -> None:
    async def scene() -> list[bool | BaseException]:
        ledger = Ledger(is_held=True)
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        ledger.faults["yes-2"] = ValueError("no")
        tasks = await company(turns, ledger, ["yes-1", "yes-2", "yes-3"])
        ledger.let_go(2)
        return await asyncio.gather(*tasks, return_exceptions=True)

    reported = run(scene())

    assert reported[0] is True
    assert [str(one) for one in reported[1:]] == ["no", "no"]


def test_the_others_go_on_after_a_failure() -> None:
    async def scene() -> list[list[str]]:
        ledger = Ledger(is_held=True)
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        ledger.faults["yes-1"] = ValueError("no")
        tasks = await company(turns, ledger, ["yes-1", "yes-2"])
        ledger.let_go(3)
        with pytest.raises(ValueError, match="no"):
            await tasks[0]
        assert await tasks[1]
        assert await admits(turns, "yes-3")
        return ledger.statements

    assert run(scene()) == [["yes-1"], ["yes-2"], ["yes-3"]]


def test_many_that_ask_at_will_all_get_their_own_answer() -> None:
    names = [f"{'yes' if number % 3 else 'no'}-{number}" for number in range(2_000)]

    async def scene() -> tuple[list[bool], list[list[str]]]:
        ledger = Ledger()
        turns = Turns(ledger, patience=WAIT)
        return await asyncio.gather(*[admits(turns, name) for name in names]), ledger.statements

    reported, statements = run(scene())

    assert reported == [name.startswith("yes") for name in names]
    assert [name for statement in statements for name in statement] == names
    assert max(len(statement) for statement in statements) == TOGETHER_MAX


def test_who_waits_too_long_asks_by_itself_and_keeps_nobody_waiting() -> None:
    async def scene() -> list[list[str]]:
        ledger = Ledger(is_held=True)
        turns = Turns(ledger, patience=timedelta(milliseconds=50), gathering=AT_ONCE)
        (first,) = await company(turns, ledger, ["yes-1"])

        # Nobody asked for the second, and nobody asks for it later.
        assert await admits(turns, "yes-2") is False
        assert await first is False
        ledger.let_go(1)
        ledger.is_held = False
        assert await admits(turns, "yes-3")
        return ledger.statements

    assert run(scene()) == [["yes-1"], ["yes-3"]]


def test_who_is_cut_off_while_it_waits_is_not_asked_for() -> None:
    async def scene() -> list[list[str]]:
        ledger = Ledger(is_held=True)
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        tasks = await company(turns, ledger, ["yes-1", "yes-2", "yes-3"])
        tasks[1].cancel()
        await asyncio.sleep(0)
        ledger.let_go(2)
        assert await tasks[0]
        assert await tasks[2]
        return ledger.statements

    assert run(scene()) == [["yes-1"], ["yes-3"]]


def test_who_is_cut_off_while_its_statement_runs_is_not_missed() -> None:
    async def scene() -> list[bool | BaseException]:
        ledger = Ledger(is_held=True)
        turns = Turns(ledger, patience=WAIT, gathering=AT_ONCE)
        tasks = await company(turns, ledger, ["yes-1", "yes-2", "yes-3"])
        ledger.let_go(1)
        await tasks[0]
        await ledger.begun.acquire()
        tasks[1].cancel()
        ledger.let_go(1)
        return await asyncio.gather(*tasks, return_exceptions=True)

    reported = run(scene())

    assert (reported[0], reported[2]) == (True, True)
    assert isinstance(reported[1], asyncio.CancelledError)
