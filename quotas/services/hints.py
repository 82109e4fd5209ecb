"""Hints: a bell after commit, so that a changed limit is live in the clusters within seconds.

A hint carries an organization's id and no fact. One that is lost costs the seconds to the next
tick, and nothing else.
"""

from threading import Lock, Thread
from typing import Final
from uuid import UUID

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

TASK_NAME: Final = "quotas.enforce_organization"
"""Sent by name: services know no task."""

log = structlog.get_logger(__name__)


def hint_changed(organization_id: UUID) -> None:
    """Have an organization's quotas planned and applied soon after the transaction commits.

    Nothing is sent when it rolls back. A broker that is away is logged and no error: the tick
    finds the same work.
    """
    transaction.on_commit(lambda: BELL.ring(organization_id))


class Bell:
    """Rings beside: whoever changed a limit does not wait for a broker that is away.

    A client of the broker takes seconds to give up. One hint is enough for each organization, and
    what is not rung when the process ends is left to the tick.
    """

    def __init__(self) -> None:
        """Nobody waits."""
        self._lock = Lock()
        self._waiting: dict[UUID, None] = {}
        self._thread: Thread | None = None

    def ring(self, organization_id: UUID) -> None:
        """Have one organization's hint sent soon."""
        with self._lock:
            self._waiting[organization_id] = None
            # A thread does not outlive a fork of its process; then another is begun.
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._ring_all, name="quota-hints", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until every hint so far was sent or given up."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _ring_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                organization_id = next(iter(self._waiting))
                del self._waiting[organization_id]
            _send(organization_id)


BELL: Final = Bell()


def _send(organization_id: UUID) -> None:
    try:
        current_app.send_task(TASK_NAME, args=[str(organization_id)], retry=False)
    except OperationalError:
        log.warning("quotas.enforcement.unhinted", organization=str(organization_id))
