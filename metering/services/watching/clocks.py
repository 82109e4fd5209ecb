"""Clocks: a watch tells times by its own, and is believed only while that is not in the future.

A heartbeat of a time that is still to come would vouch for seconds that nobody has seen. The
database's clock is the judge, as for leases, because every process meets there. A clock that is
behind vouches for less than was seen, which is safe; replays of the past are not refused.
"""

from datetime import datetime, timedelta
from typing import Final

CLOCK_AHEAD_MAX: Final = timedelta(seconds=5)
"""Clocks that are kept by NTP differ by less than a second; five leave room for a slow statement.

It is less than a heartbeat, so no span reaches a heartbeat too far.
"""


class ClockAheadError(Exception):
    """Raised when the clock of a process is ahead of the database's; nothing was written."""


def refuse_future(moment: datetime, *, database_at: datetime) -> None:
    """Refuse a moment that the database's clock has not come to.

    Raises:
        ClockAheadError: It is more than `CLOCK_AHEAD_MAX` away.
    """
    ahead = moment - database_at
    if ahead > CLOCK_AHEAD_MAX:
        seconds = int(ahead.total_seconds())
        raise ClockAheadError(
            f"The clock of the watching process is {seconds} s ahead of the database's;"
            " it does not watch until that is put right."
        )
