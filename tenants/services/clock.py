"""Clock skew of this process: reported when small, refused when large.

Services use the database's clock. But the process' own clock stamps the log, checks certificates
and tokens and measures timeouts, so a process with a wrong clock must not meter.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog
from django.db import connection

from tenants.domain.refusals import ClockOffError
from tenants.selectors.clock import ClockReading, process_name, read_clock

REPORTED_SECONDS: Final = 30
"""From here a clock that NTP keeps, which differs by less than a second, is plainly wrong."""
REFUSED_SECONDS: Final = 300
"""From here a process does no work: half of the time that TLS and Kerberos commonly forgive."""

logger = structlog.get_logger(__name__)

_REPORT: Final = """
INSERT INTO tenants_processclock (process, offset_seconds, observed_at)
VALUES (%(process)s, %(offset)s, clock_timestamp())
ON CONFLICT (process) DO UPDATE
   SET offset_seconds = excluded.offset_seconds, observed_at = excluded.observed_at
"""
_PURGE: Final = """
DELETE FROM tenants_processclock
 WHERE process = %(process)s OR observed_at < clock_timestamp() - interval '1 day'
"""


def require_clock(clock: Callable[[], datetime]) -> ClockReading:
    """Return both clocks of a process that may work, and report a clock that is off.

    Outside a transaction, so that the report outlives the refusal. One statement while the clock is
    right.

    Args:
        clock: Returns the present moment by the process, aware.

    Raises:
        ClockOffError: It is off by more than `REFUSED_SECONDS`; nothing may be done by it.
    """
    reading = read_clock(clock)
    off = abs(reading.offset_seconds)
    if off > REPORTED_SECONDS:
        _report(reading)
    elif reading.is_reported:
        _withdraw()
    if off > REFUSED_SECONDS:
        raise ClockOffError(
            f"This process does no work. {reading.sentence()}",
            facts={"offset_seconds": reading.offset_seconds},
        )
    return reading


def _report(reading: ClockReading) -> None:
    name = process_name()
    log = logger.error if abs(reading.offset_seconds) > REFUSED_SECONDS else logger.warning
    log("tenants.clock.skewed", process=name, offset_seconds=reading.offset_seconds)
    with connection.cursor() as cursor:
        cursor.execute(_REPORT, {"process": name, "offset": reading.offset_seconds})


def _withdraw() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_PURGE, {"process": process_name()})
