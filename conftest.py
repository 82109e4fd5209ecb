"""With CI=true nothing may be skipped: a test that did not run proves nothing."""

import os

import pytest

SKIPPED: list[str] = []


def is_ci() -> bool:
    """Whether skipped tests fail the session."""
    return os.environ.get("CI", "") == "true"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what was skipped; an expected failure did run."""
    if report.skipped and not hasattr(report, "wasxfail"):
        SKIPPED.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember modules that were skipped as a whole."""
    if report.skipped:
        SKIPPED.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that left something out."""
    if is_ci() and SKIPPED and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why it failed."""
    if is_ci() and SKIPPED:
        terminalreporter.section("skipped, which CI=true refuses")
        for name in sorted(set(SKIPPED)):
            terminalreporter.write_line(name)
