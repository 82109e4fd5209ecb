"""Checks run side by side: one that raises or hangs is a problem of its own."""

import threading
from collections.abc import Iterable, Iterator

import pytest
from django.db import connection

from config.doctor.findings import CheckResult, InstallationCheck, counted, listed, ok, sentence
from config.doctor.running import THREADS_MAX, run_checks


def check(name: str, *results: CheckResult, subject: str = "") -> InstallationCheck:
    return InstallationCheck("Section", (name,), lambda: results, subject=subject)


def raising() -> Iterator[CheckResult]:
    yield ok("first", "This is found.")
    raise ValueError("postgresql://app:a-secret@db/ledger")


def test_a_check_that_raises_stops_no_other_and_shows_no_secret() -> None:
    failing = InstallationCheck("Section", ("first", "second"), raising, subject="hopper")

    found = run_checks([failing, check("third", ok("third", "Well."))])

    assert [(one.check, one.state, one.subject) for one in found] == [
        ("first", "ok", "hopper"),
        ("first", "problem", "hopper"),
        ("third", "ok", ""),
    ]
    assert found[1].found.startswith("The check itself failed with ValueError in test_running.py:")
    assert "a-secret" not in f"{found}"


def test_a_check_that_hangs_is_left_behind() -> None:
    released = threading.Event()

    def hang() -> Iterable[CheckResult]:
        released.wait(10)
        return [ok("slow", "Too late.")]

    slow = InstallationCheck("Section", ("slow",), hang)
    seen: list[str] = []
    found = run_checks(
        [slow, check("quick", ok("quick", "Well."))],
        progress=lambda ended: seen.append(ended.names[0]),
        time_limit_seconds=0.3,
    )
    released.set()

    assert [(one.check, one.state) for one in found] == [("slow", "problem"), ("quick", "ok")]
    assert found[0].found == "No answer within 0.3 s."
    assert sorted(seen) == ["quick", "slow"]


@pytest.mark.django_db
def test_a_check_that_breaks_a_transaction_leaves_the_connection_to_the_next() -> None:
    def break_it() -> Iterable[CheckResult]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM no_such_table")
        return []

    def ask() -> Iterable[CheckResult]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 7")
            return [ok("next", f"It answers {cursor.fetchone()[0]}.")]

    found = run_checks(
        [
            InstallationCheck("Section", ("broken",), break_it, needs_database=True),
            InstallationCheck("Section", ("next",), ask, needs_database=True),
        ]
    )

    assert [one.state for one in found] == ["problem", "ok"]
    assert found[1].found == "It answers 7."


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed("abcde") == "a, b, c and 2 more"


def test_more_checks_than_threads_all_run_and_keep_their_order() -> None:
    names = [f"check-{number}" for number in range(3 * THREADS_MAX)]
    threads: set[str] = set()

    def make(name: str) -> InstallationCheck:
        def run() -> Iterable[CheckResult]:
            threads.add(threading.current_thread().name)
            return [ok(name, "Well.")]

        return InstallationCheck("Section", (name,), run)

    found = run_checks([make(name) for name in names])

    assert [one.check for one in found] == names
    assert threading.current_thread().name not in threads


def test_findings_carry_the_section_and_the_subject_of_their_check() -> None:
    (found,) = run_checks([check("watch", ok("watch", "Live."), subject="hopper")])

    assert (found.section, found.subject) == ("Section", "hopper")


def test_the_text_of_an_error_becomes_a_sentence() -> None:
    assert sentence(ValueError("its file\nis gone")) == "Its file is gone."
    assert sentence(ValueError("It is gone.")) == "It is gone."
    assert (counted(1, "hour"), counted(1200, "hour")) == ("1 hour", "1,200 hours")
