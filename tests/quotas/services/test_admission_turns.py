"""Who asks at the same time asks together, and nobody is forgotten."""

import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest

from quotas.services.admission_turns import TOGETHER_MAX, Turns

WAIT_SECONDS = 20
WAIT = timedelta(seconds=WAIT_SECONDS)


class Ledger:
    """Lets in what begins with "yes"; holds every statement until it is let go."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.statements: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.is_held = is_held
        self.faults: dict[str, Exception] = {}
        self.running = 0

    def __call__(self, questions: Sequence[str]) -> Collection[int]:
        self.running += 1
        assert self.running == 1, "Two threads ask at a time."
        self.statements.append(list(questions))
        self.begun.release()
        if self.is_held:
            assert self.go.acquire(timeout=WAIT_SECONDS)
        self.running -= 1
        if questions[0] in self.faults:
            raise self.faults[questions[0]]
        return [n for n, question in enumerate(questions, start=1) if question.startswith("yes")]


def waiting(turns: Turns, count: int) -> None:
    """Return once so many wait; those who ask append themselves before they wait."""
    ended = threading.Event()
    timer = threading.Timer(WAIT_SECONDS, ended.set)
    timer.start()
    while turns.waiting < count:
        assert not ended.is_set(), "They never came."
    timer.cancel()


def test_who_comes_alone_asks_at_once() -> None:
    ledger = Ledger()
    turns = Turns(ledger, patience=WAIT)

    assert [turns.ask("yes-1"), turns.ask("no-2"), turns.ask("yes-3")] == [True, False, True]
    assert ledger.statements == [["yes-1"], ["no-2"], ["yes-3"]]


def company(turns: Turns, ledger: Ledger, names: Sequence[str]) -> list[Future[bool]]:
    """Let the first ask and be held, and the others come meanwhile, in their order."""
    pool = ThreadPoolExecutor(len(names))
    first = pool.submit(turns.ask, names[0])
    assert ledger.begun.acquire(timeout=WAIT_SECONDS)
    futures = [first]
    for number, name in enumerate(names[1:], start=1):
        futures.append(pool.submit(turns.ask, name))
        waiting(turns, number)
    pool.shutdown(wait=False)
    return futures


def test_who_comes_meanwhile_is_asked_together_in_order() -> None:
    ledger = Ledger(is_held=True)
    turns = Turns(ledger, patience=WAIT)
    futures = company(turns, ledger, ["yes-1", "no-2", "yes-3", "no-4"])

    ledger.go.release(2)

    assert [one.result(timeout=WAIT_SECONDS) for one in futures] == [True, False, True, False]
    assert ledger.statements == [["yes-1"], ["no-2", "yes-3", "no-4"]]
    assert turns.waiting == 0


def test_no_statement_carries_more_than_its_share() -> None:
    ledger = Ledger(is_held=True)
    turns = Turns(ledger, patience=WAIT)
    names = [f"yes-{number}" for number in range(2 * TOGETHER_MAX)]
    futures = company(turns, ledger, names)

    ledger.go.release(3)

    assert all(one.result(timeout=WAIT_SECONDS) for one in futures)
    assert [len(one) for one in ledger.statements] == [1, TOGETHER_MAX, TOGETHER_MAX - 1]


def test_a_statement_that_fails_fails_only_for_who_asked_it() -> None:
    ledger = Ledger(is_held=True)
    turns = Turns(ledger, patience=WAIT)
    ledger.faults["yes-2"] = ValueError("no")
    futures = company(turns, ledger, ["yes-1", "yes-2", "yes-3"])

    ledger.go.release(2)

    assert futures[0].result(timeout=WAIT_SECONDS)
    with pytest.raises(ValueError, match="no"):
        futures[1].result(timeout=WAIT_SECONDS)
    # It asks by itself now: nothing was decided on it.
    assert futures[2].result(timeout=WAIT_SECONDS) is False


def test_the_lead_goes_on_after_a_failure() -> None:
    ledger = Ledger(is_held=True)
    turns = Turns(ledger, patience=WAIT)
    ledger.faults["yes-1"] = ValueError("no")
    futures = company(turns, ledger, ["yes-1", "yes-2"])

    ledger.go.release(3)

    assert isinstance(futures[0].exception(timeout=WAIT_SECONDS), ValueError)
    assert futures[1].result(timeout=WAIT_SECONDS)
    assert turns.ask("yes-3")
    assert ledger.statements == [["yes-1"], ["yes-2"], ["yes-3"]]


def test_many_threads_that_ask_at_will_all_get_their_own_answer() -> None:
    ledger = Ledger()
    turns = Turns(ledger, patience=WAIT)
    names = [f"{'yes' if number % 3 else 'no'}-{number}" for number in range(2_000)]

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(turns.ask, names, timeout=WAIT_SECONDS))

    assert answers == [name.startswith("yes") for name in names]
    assert sorted(name for statement in ledger.statements for name in statement) == sorted(names)
    assert max(len(statement) for statement in ledger.statements) <= TOGETHER_MAX


def test_who_waits_too_long_asks_by_itself_and_keeps_nobody_waiting() -> None:
    ledger = Ledger(is_held=True)
    turns = Turns(ledger, patience=timedelta(milliseconds=50))
    futures = company(turns, ledger, ["yes-1"])

    # Nobody asked it, and nobody asks it later.
    assert turns.ask("yes-2") is False
    assert turns.waiting == 0
    ledger.go.release()

    assert futures[0].result(timeout=WAIT_SECONDS)
    ledger.is_held = False
    assert turns.ask("yes-3")
    assert ledger.statements == [["yes-1"], ["yes-3"]]


def test_who_leaves_while_its_statement_runs_is_not_missed() -> None:
    ledger = Ledger(is_held=True)
    turns = Turns(ledger, patience=timedelta(milliseconds=200))
    futures = company(turns, ledger, ["yes-1", "yes-2", "yes-3"])
    ledger.go.release()
    assert ledger.begun.acquire(timeout=WAIT_SECONDS)

    # The second asks for both; the third is asked, and does not wait for that to end.
    assert futures[2].result(timeout=WAIT_SECONDS) is False
    ledger.go.release()

    assert futures[1].result(timeout=WAIT_SECONDS)
    assert ledger.statements == [["yes-1"], ["yes-2", "yes-3"]]
