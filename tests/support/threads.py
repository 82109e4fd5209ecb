"""A second caller at the same time, on a database connection of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

Result = TypeVar("Result")
TIMEOUT_SECONDS = 30


def in_thread(call: Callable[[], Result]) -> Result:
    """Return what a call returns in another thread, whose connection is closed after it."""

    def closed() -> Result:
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(closed).result(TIMEOUT_SECONDS)
