"""Hints: a bell after commit, so that a changed limit is live in the clusters within seconds.

A hint carries an organization's id and no fact. One that is lost costs the seconds to the next
tick, and nothing else.
"""

import atexit
import os
from threading import Lock, Thread
from typing import Final
from uuid import UUID

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

TASK_NAME: Final = "quotas.enforce_organization"
"""Sent by name: services know no task."""
CLOSING_SECONDS_MAX: Final = 2
"""A broker that is there takes a hint within milliseconds; no process waits longer for its end."""

log = structlog.get_logger(__name__)


def hint_changed(organization_id: UUID) -> None:
    """Have an organization's quotas planned and applied soon after the transaction commits.

    Nothing is sent when it rolls back. A broker that is away is logged and no error: the tick
    finds the same work.
    """
    transaction.on_commit(lambda: BELL.ring(organization_id))


class Bell:
    """Rings beside: whoever changed a limit does not wait for a broker that is away.

    A client of the broker takes seconds to give up. One hint is enough for each organization. Its
    thread ends when nothing waits, and with `close`: what is not rung by then is left to the tick.
    A hint that fails, for whatever reason, is logged and keeps none of the others.
    """

    def __init__(self) -> None:
        """Nobody waits."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything: in a process that was forked no thread runs, and no lock is let go."""
        self._lock = Lock()
        self._waiting: dict[UUID, None] = {}
        self._thread: Thread | None = None
        self._is_open = True
        self._is_told = False

    def ring(self, organization_id: UUID) -> None:
        """Have one organization's hint sent soon; after `close` it is left to the tick."""
        with self._lock:
            if self._is_open:
                self._waiting[organization_id] = None
            is_rung = self._thread is not None and self._thread.is_alive()
            if self._is_open and not is_rung:
                self._thread = Thread(target=self._ring_all, name="quota-hints", daemon=True)
                self._thread.start()

    @property
    def is_ringing(self) -> bool:
        """Whether its thread is at work."""
        return self._thread is not None

    def wait(self) -> None:
        """Wait until every hint so far was sent or given up."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self, *, seconds_max: int = CLOSING_SECONDS_MAX) -> None:
        """Ring no more, and end the thread; what is left is told. Closing twice is nothing.

        Args:
            seconds_max: How long the hint that is being sent is waited for.
        """
        with self._lock:
            if self._is_told:
                return
            self._is_open = False
            left = len(self._waiting)
            self._waiting.clear()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=seconds_max)
        with self._lock:
            # Whoever is still at it has no log to write to when the process is gone.
            is_stuck = self._thread is not None
            self._is_told = True
        if left or is_stuck:
            log.warning("quotas.enforcement.hints_left", hints=left + is_stuck)

    def _ring_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                organization_id = next(iter(self._waiting))
                del self._waiting[organization_id]
            try:
                current_app.send_task(TASK_NAME, args=[str(organization_id)], retry=False)
            except OperationalError:
                if self._has_log():
                    log.warning("quotas.enforcement.unhinted", organization=str(organization_id))
            except Exception:
                # One hint's mistake must not leave the others waiting in a thread that has ended.
                if self._has_log():
                    log.exception(
                        "quotas.enforcement.hint_crashed", organization=str(organization_id)
                    )

    def _has_log(self) -> bool:
        """Whether there is still a log to write to: after `close` has told what is left, none."""
        with self._lock:
            return not self._is_told


BELL: Final = Bell()
# Handlers of this kind run while threads and logs are still there.
atexit.register(BELL.close)
os.register_at_fork(after_in_child=BELL.begin_anew)
