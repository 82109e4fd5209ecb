"""The present moment by the database, clocks of processes that are off, and crashes of sweeps.

Every process meets at the database, so its clock decides what is due, for how long a lease holds
and which hour is over. The clock of a process only measures how long something takes.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from django.db import connection
from django.db.models.functions import Now

from tenants.models import ProcessClock, SweepCrash

MOMENTS_MAX: Final = 4096
"""Moments cached at a time: begins of bindings, scrapes that showed thousands of pods."""
REPORT_AGE_MAX: Final = timedelta(minutes=10)
"""Ten ticks: a process that has not measured its clock since then has ended or is idle."""
_SECOND: Final = timedelta(seconds=1)


@lru_cache(maxsize=MOMENTS_MAX)
def read_moment(text: str) -> datetime:
    """Return a moment that a statement cast to text, for rows by the thousand.

    Django's own reader of times is written in Python, and reads each anew.
    """
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class ClockReading:
    """Both clocks, read at once.

    Attributes:
        at: The present moment by the database, UTC.
        offset_seconds: Whole seconds by which the process' clock is ahead at least; negative when
            it is behind.
        is_reported: Whether the process has been reported as off.
    """

    at: datetime
    offset_seconds: int
    is_reported: bool

    def sentence(self) -> str:
        """Return how far the process' clock is off."""
        return offset_sentence(self.offset_seconds)


def database_now() -> datetime:
    """Return the present moment by the database's clock, inside a transaction too."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def read_clock(clock: Callable[[], datetime]) -> ClockReading:
    """Return both clocks; the time that the query takes counts as no difference between them.

    Args:
        clock: Returns the present moment by the process, aware.
    """
    with connection.cursor() as cursor:
        before = clock()
        cursor.execute(
            "SELECT clock_timestamp(),"
            " EXISTS (SELECT FROM tenants_processclock WHERE process = %s)",
            [process_name()],
        )
        at, is_reported = cursor.fetchone()
        after = clock()
    ahead, behind = (before - at) // _SECOND, (at - after) // _SECOND
    offset = ahead if ahead > 0 else -max(behind, 0)
    return ClockReading(at, offset, is_reported=is_reported)


def process_name() -> str:
    """Return the host and the process id."""
    return f"{socket.gethostname()[:40]}/{os.getpid()}"


def clocks_off() -> dict[str, int]:
    """Return the seconds by which clocks of processes were off lately, by process."""
    rows = ProcessClock.objects.filter(observed_at__gte=Now() - REPORT_AGE_MAX)
    return dict(rows.values_list("process", "offset_seconds"))


def offset_sentence(offset_seconds: int) -> str:
    """Return how far a clock is off."""
    side = "ahead of" if offset_seconds >= 0 else "behind"
    return f"Its clock is {abs(offset_seconds)} s {side} the database's."


def crashes_by_event() -> dict[str, int]:
    """Return the total number of crashes of each sweep; one statement."""
    return dict(SweepCrash.objects.values_list("event", "count"))
