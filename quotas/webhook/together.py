"""Together: threads that ask the ledger at the same time share a statement and a connection.

A connection that is used all the time has its plans and its rows at hand; the same statement takes
PostgreSQL twice as long where sixteen connections take turns (docs/adr/0027).
"""

import time
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from quotas.services.admission import LetIn, admit_together
from quotas.services.admission_turns import Turns
from quotas.webhook.guard import Guard

logger = structlog.get_logger(__name__)


class Together:
    """Asks for several at once, on one connection; safe for threads.

    Args:
        nanoseconds: The time of one statement: what is over it leaves everybody the time to ask
            by themselves.
        clock: Returns nanoseconds that only grow.
    """

    def __init__(self, nanoseconds: int, clock: Callable[[], int]) -> None:
        """Connect with the first question."""
        self._connection: BaseDatabaseWrapper = connections.create_connection(DEFAULT_DB_ALIAS)
        # One thread at a time uses it, not always the same.
        self._connection.inc_thread_sharing()
        self._guard = Guard(nanoseconds, clock, lambda: self._connection)
        self._turns = Turns(self._asked)

    def let_in(self, question: str) -> bool:
        """Return whether a question was let in; if not, nothing was decided on it."""
        return self._turns.ask(question)

    def stop(self) -> None:
        """End what runs beside, and the connection."""
        self._guard.stop()
        self._connection.close()

    def _asked(self, questions: Sequence[str]) -> Collection[int]:
        try:
            return self._guard.ask(
                lambda: admit_together(questions=questions, using=self._connection)
            )
        except Error as error:
            # Each asks by itself now, and learns there what is the matter.
            logger.info("admission.asked_apart", pods=len(questions), reason=type(error).__name__)
            return ()


def let_in() -> LetIn | None:
    """Return how questions of this process are asked together; None where each asks by itself."""
    return _together().let_in if settings.ADMISSION_TOGETHER else None


@lru_cache(maxsize=1)
def _together() -> Together:
    return Together(settings.ADMISSION_DEADLINE_SECONDS * 1_000_000_000 // 4, time.monotonic_ns)
