"""Celery's app of the service, for workers under load: beat is quick, and hours take their time.

`WINDOW_SECONDS` of processor time are burnt for each hour; `CLOCK_AHEAD_SECONDS` is by how much
this process is later than others, as one that reads a message long after it was sent.
"""

import os
import time
from datetime import datetime, timedelta

import time_machine
from django.conf import settings

from config.celery import app
from metering.protocols import ClusterTarget, Observation
from simulator.adapters.usage_source import SimulatedUsageSource

WINDOW_SECONDS = float(os.environ.get("WINDOW_SECONDS", "0"))
AHEAD = timedelta(seconds=int(os.environ.get("CLOCK_AHEAD_SECONDS", "0")))
BEAT_SECONDS = 2


class BusySource(SimulatedUsageSource):
    """The simulated source, which keeps a processor busy for a while."""

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Burn time, then return what was observed."""
        until = time.process_time() + WINDOW_SECONDS
        while time.process_time() < until:
            pass
        return super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)


settings.USAGE_SOURCE = {
    "BACKEND": f"{BusySource.__module__}.{BusySource.__qualname__}",
    "OPTIONS": settings.USAGE_SOURCE["OPTIONS"],
}
for entry in app.conf.beat_schedule.values():
    entry["schedule"] = min(entry["schedule"], BEAT_SECONDS)
if AHEAD:
    time_machine.travel(datetime.now().astimezone() + AHEAD, tick=True).start()
