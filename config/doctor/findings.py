"""What a check of an installation found, and what to do about it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SHOWN_MAX: Final = 3
"""Of a list of names in a sentence; the rest is counted."""


class CheckState(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    """Something is missing or late; what is billed stays right."""
    PROBLEM = "problem"
    """Something does not work, or will not."""


@dataclass(frozen=True)
class CheckResult:
    """One finding.

    Attributes:
        check: Name of the check.
        state: How serious it is.
        found: One sentence with figures; it shows no secret.
        remedy: One sentence; "" where all is well.
        page: Of the documentation, with the remedy.
        subject: The cluster or export; "" for the installation.
        section: Heading under which it is printed.
    """

    check: str
    state: CheckState
    found: str
    remedy: str = ""
    page: str = ""
    subject: str = ""
    section: str = ""


@dataclass(frozen=True)
class InstallationCheck:
    """Something to ask, which returns one or more findings.

    Attributes:
        section: Heading of its findings.
        names: Of all findings it may return; the first also of a failure.
        run: Returns them, in order.
        subject: As of its findings.
        needs_database: Whether it reads the database: then it is run alone, in this thread.
    """

    section: str
    names: tuple[str, ...]
    run: Callable[[], Iterable[CheckResult]]
    subject: str = ""
    needs_database: bool = False


def ok(check: str, found: str) -> CheckResult:
    """Return that all is well."""
    return CheckResult(check, CheckState.OK, found)


def warning(check: str, found: str, remedy: str, page: str) -> CheckResult:
    """Return something that is missing or late."""
    return CheckResult(check, CheckState.WARNING, found, remedy, page)


def problem(check: str, found: str, remedy: str, page: str) -> CheckResult:
    """Return something that does not work."""
    return CheckResult(check, CheckState.PROBLEM, found, remedy, page)


def sentence(error: Exception) -> str:
    """Return the text of an expected error as a sentence."""
    text = " ".join(str(error).split())
    return f"{text[:1].upper()}{text[1:]}".removesuffix(".") + "."


def listed(names: Iterable[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    every = list(names)
    shown, more = ", ".join(every[:SHOWN_MAX]), len(every) - SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 hour" and "2 hours"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
