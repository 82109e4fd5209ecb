"""Leases of worker slots that are renewed: for rows that take longer than most tasks may."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from django.db import connection

from tenants.services.wakeups import keep_slot

RENEW_SECONDS: Final = 60
"""A quarter of the lease of a slot."""


@contextmanager
def renewed_slot(kind: str, renew: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Renew the lease of a kind's first slot each minute, and what else is leased, in a thread."""
    is_over = Event()

    def renew_all() -> None:
        try:
            while not is_over.wait(RENEW_SECONDS):
                keep_slot(kind)
                renew()
        finally:
            connection.close()

    renewing = Thread(target=renew_all, name=f"renews {kind}", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        is_over.set()
        renewing.join()
