"""Together: threads that ask the ledger at the same time share a statement and a connection.

A connection that is used all the time has its plans and its rows at hand; the same statement takes
PostgreSQL twice as long where sixteen connections take turns (docs/adr/0027).
"""

import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from functools import lru_cache

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from quotas.services.admission import LetIn, admit_together
from quotas.services.admission_turns import Turns
from quotas.webhook.guard import Guard

logger = structlog.get_logger(__name__)


SHARE_OF_DEADLINE = 8
"""By so much of a question's time it may wait for its turn, and by as much its turn may take: what
is left is what the ledger gives one that asks by itself."""


class NotConnectedError(OperationalError):
    """Raised where there is no connection and none is to be had: another try takes as long."""


class Together:
    """Asks for several at once, on one connection; safe for threads.

    Args:
        nanoseconds: How long somebody waits for a turn, and how long a turn takes at most.
        clock: Returns nanoseconds that only grow.
    """

    def __init__(self, nanoseconds: int, clock: Callable[[], int]) -> None:
        """Connect with the first question."""
        self._connection: BaseDatabaseWrapper = connections.create_connection(DEFAULT_DB_ALIAS)
        # One thread at a time uses it, not always the same.
        self._connection.inc_thread_sharing()
        self._guard = Guard(nanoseconds, clock, lambda: self._connection, insists=False)
        self._turns = Turns(self._asked, patience=timedelta(microseconds=nanoseconds // 1_000))

    def let_in(self, question: str) -> bool:
        """Return whether a question was let in; if not, nothing was decided on it.

        Raises:
            NotConnectedError: The ledger does not even take a connection.
        """
        return self._turns.ask(question)

    def stop(self) -> None:
        """End what runs beside, and the connection."""
        self._guard.stop()
        self._connection.close()

    def _asked(self, questions: Sequence[str]) -> Collection[int]:
        try:
            return self._guard.ask(lambda: self._answer(questions))
        except NotConnectedError:
            raise
        except Error as error:
            # Each asks by itself now, and learns there what is the matter.
            logger.info("admission.asked_apart", pods=len(questions), reason=type(error).__name__)
            return ()

    def _answer(self, questions: Sequence[str]) -> Collection[int]:
        try:
            self._connection.ensure_connection()
        except Error as error:
            raise NotConnectedError(str(error)) from error.__cause__
        return admit_together(questions=questions, using=self._connection)


def let_in() -> LetIn | None:
    """Return how questions of this process are asked together; None where each asks by itself."""
    return _together().let_in if settings.ADMISSION_TOGETHER else None


@lru_cache(maxsize=1)
def _together() -> Together:
    deadline_nanoseconds = settings.ADMISSION_DEADLINE_SECONDS * 1_000_000_000
    return Together(deadline_nanoseconds // SHARE_OF_DEADLINE, time.monotonic_ns)
