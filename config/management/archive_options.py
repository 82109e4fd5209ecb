"""What the commands about archived months share: the person, progress and refusals."""

import time
from argparse import ArgumentParser
from typing import Final

from django.core.management.base import OutputWrapper

from config.management.archives import DETACHED
from tenants.domain.actors import Actor, system_actor
from tenants.domain.errors import DomainError, ForbiddenError
from tenants.selectors.actors import actor_of_user
from tenants.selectors.people import user_named

PROGRESS_SECONDS: Final = 2
CAPABILITIES: Final = ("metering:window:write", "billing:period:write")
"""Who has one of them over the platform runs it, or closes its months, and may move a month."""
OPTIONS: Final = ("by", "reason")
"""Options that have the name of the field that a refusal blames."""


class Progress:
    """Prints how many rows are done, every few seconds."""

    def __init__(self, output: OutputWrapper) -> None:
        """Begin now."""
        self._output = output
        self._shown_at = time.monotonic()

    def __call__(self, rows: int) -> None:
        """Take how many rows are done."""
        if time.monotonic() - self._shown_at > PROGRESS_SECONDS:
            self._shown_at = time.monotonic()
            self._output.write(f"{rows:,} rows ...")


def add_archive_options(parser: ArgumentParser) -> None:
    """Take the month, the table, where its archive is, and who does it why."""
    parser.add_argument("month", metavar="YYYY-MM", help="a month in UTC")
    parser.add_argument("--table", required=True, choices=sorted(DETACHED))
    parser.add_argument(
        "--from", required=True, metavar="DIR", dest="root", help="where archives are"
    )
    parser.add_argument(
        "--by", required=True, metavar="USERNAME", help="the person, for the audit trail"
    )
    parser.add_argument("--reason", required=True, help="why, for the audit trail")


def add_archiving_person(parser: ArgumentParser) -> None:
    """Take who archives."""
    parser.add_argument(
        "--by",
        default="",
        metavar="USERNAME",
        help="the person, for the audit trail; without it the entry names the service",
    )


def archiving_actor(username: str) -> Actor:
    """Return who archives: the person named, or the service itself for "".

    Raises:
        NotFoundError: There is none of that name.
        ForbiddenError: The account is deactivated, or its roles do not allow it.
    """
    return person_named(username) if username else system_actor("archives")


def person_named(username: str) -> Actor:
    """Return the person that a command is run by.

    Raises:
        NotFoundError: There is none of that name.
        ForbiddenError: The account is deactivated, or its roles do not allow it.
    """
    user = user_named(username, field="by")
    if not user.is_active:
        raise ForbiddenError(
            f"{username} was deactivated.", field="by", remedy="Name an active person."
        )
    actor = actor_of_user(user)
    if not any(actor.may(capability) for capability in CAPABILITIES):
        raise ForbiddenError(
            f"{username} is no administrator of the platform or of finance.",
            field="by",
            remedy="Name a person with one of these roles.",
        )
    return actor


def failure_of(error: DomainError | OSError) -> str:
    """Return why a command failed, and what to do."""
    if isinstance(error, DomainError):
        option = f"--{error.field}: " if error.field in OPTIONS else ""
        return f"{option}{error.message} {error.advice}".strip()
    return f"A file cannot be read or written: {error}."
