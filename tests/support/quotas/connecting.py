"""Connections to the ledger as the admission process has them, and what still runs on them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.conf import settings
from django.db import connections

from config.admission_wsgi import only_admission

WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND state <> 'idle' AND application_name = 'gpu-ledger-admission'
"""
PATIENCE_SECONDS = 2


@contextmanager
def connected_as_admission(deadline_seconds: int) -> Iterator[None]:
    """Let connections and questions meanwhile be those of a process with such a deadline."""
    current = connections["default"].settings_dict
    known = current["OPTIONS"]
    connections["default"].close()
    reported = only_admission({"default": current})["DATABASES"]["default"]
    current["OPTIONS"] = reported["OPTIONS"]
    usual = settings.ADMISSION_DEADLINE_SECONDS
    settings.ADMISSION_DEADLINE_SECONDS = deadline_seconds
    try:
        yield
    finally:
        connections["default"].close()
        current["OPTIONS"] = known
        settings.ADMISSION_DEADLINE_SECONDS = usual


def is_given_up(superuser_url: str) -> bool:
    """Whether the ledger soon gives up every question, whatever still stands in its way."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with psycopg.connect(superuser_url, autocommit=True) as looking:
        while time.monotonic() < deadline:
            if looking.execute(WAITING).fetchone() == (0,):
                return True
    return False
