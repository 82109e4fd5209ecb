"""Celery's app of the service with one more tick: it leaves a file named after the second."""

import os
import time
from pathlib import Path

from config.celery import app

app.conf.beat_schedule = {"probe.tick_second": {"task": "probe.tick_second", "schedule": 1}}


@app.task(name="probe.tick_second")
def tick_second() -> None:
    """Do what is due, once: a file that is there already stays as it is."""
    Path(os.environ["TICK_FOLDER"], str(int(time.time()))).touch()
