"""The demo's summary: what each organization was billed, and why one was not."""

import io
from collections.abc import Mapping

from rich.console import Console

from embedded.stack import ROOT
from simulator.demo.summary import (
    Summary,
    print_addresses,
    print_summary,
    sandboxes_not_billed,
)

BILLED = {
    "acme": {"small": 36_000, "large": 3_600_000},
    "idle": {},
    "tailspin": {},
}


def make_summary(not_billed: Mapping[str, str]) -> Summary:
    return Summary(
        month="2026-10",
        source="the simulated source",
        windows={"sealed": 744},
        billed=BILLED,
        capacity=[],
        exceptions=[],
        invoices=[],
        unknowable=[],
        steps={},
        quota={},
        not_billed=not_billed,
    )


def printed(summary: Summary) -> dict[str, list[str]]:
    """Return the words of each organization's row."""
    console = Console(file=io.StringIO(), width=120)
    print_summary(summary, console)
    assert isinstance(console.file, io.StringIO)
    rows = [line.replace("│", " ").split() for line in console.file.getvalue().splitlines()]
    return {row[0]: row[1:] for row in rows if row and row[0] in BILLED}


def test_a_sandbox_without_usage_is_reported_as_not_billed() -> None:
    reported = sandboxes_not_billed(BILLED, sandboxes={"tailspin"})

    rows = printed(make_summary(reported))

    assert reported == {"tailspin": "not billed: sandbox"}
    assert rows["tailspin"] == ["not", "billed:", "sandbox"]
    assert rows["acme"] == ["10.00", "0.00", "1,000.00"]
    assert make_summary(reported).as_json()["not_billed"] == reported


def test_a_tenant_with_zero_is_shown_with_its_zero() -> None:
    reported = sandboxes_not_billed(BILLED, sandboxes={"tailspin"})

    assert printed(make_summary(reported))["idle"] == ["0.00", "0.00", "0.00"]
    assert "idle" not in reported


def test_a_sandbox_that_used_something_is_shown_with_its_hours() -> None:
    reported = sandboxes_not_billed({"tailspin": {"small": 3600}}, sandboxes={"tailspin"})

    assert reported == {}


def test_a_sandbox_that_is_not_there_is_not_reported() -> None:
    assert sandboxes_not_billed({"acme": {}}, sandboxes={"tailspin"}) == {}


def test_without_a_sandbox_every_row_has_its_numbers() -> None:
    assert printed(make_summary({}))["tailspin"] == ["0.00", "0.00", "0.00"]


def test_the_readme_shows_the_addresses_and_logins_as_they_are_printed() -> None:
    console = Console(file=io.StringIO(), width=73)
    tokens = {"lukas": "gl_…", "nora": "gl_…"}

    print_addresses(
        console, url="http://127.0.0.1:8000", metrics_port=8001, password="…", tokens=tokens
    )

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() in (ROOT / "README.md").read_text(encoding="utf-8")
