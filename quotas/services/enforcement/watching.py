"""Watching our ResourceQuotas: what is deleted or changed in a cluster is read again at once.

It is level-triggered. An event names a namespace to read again, and so does a list after each gap;
`read_again` compares and repairs. So any number of processes may watch one cluster.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from queue import Empty, Full, Queue
from time import monotonic
from typing import Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection

from quotas.models import EnforcementState, EnforcementTarget
from quotas.protocols import EnforcementEndpoint, QuotaEnforcer
from quotas.protocols.drift import (
    ObjectKey,
    QuotaEvent,
    QuotaVersionExpiredError,
    QuotaWatchSource,
)
from quotas.selectors.enforcement.targets import settled_targets
from quotas.services.enforcement.applying import read_again
from quotas.services.enforcement.asking import desired_of
from quotas.services.enforcement.settling import is_as_desired
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use

STREAM_SECONDS: Final = 300
"""How long one stream may last; it is resumed then."""
TURN_SECONDS: Final = 0.2
"""How long an iteration waits for events; also how soon a stop is noticed."""
QUEUE_EVENTS_MAX: Final = 1_000
BATCH_NAMESPACES_MAX: Final = 50
"""So few that one worker's leases do not end before it comes to them."""
AGAIN_SECONDS: Final = 1
"""When a namespace is read again whose target was just being applied, or that was not answered."""
DUE_SECONDS_MAX: Final = 60
"""How long that goes on; after it the targets' own schedule is enough."""
PAUSE_SECONDS_MAX: Final = 60
PAUSE_DOUBLINGS_MAX: Final = 6
OUTAGE_REASONS: Final = frozenset({"unreachable", "truncated", "server_error"})
"""An API server that is away or starts: what is asked of it meanwhile costs it nothing."""
OUTAGE_PAUSE_SECONDS_MAX: Final = 4
"""So that what was deleted while it was away is back within seconds too."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class QuotaWatcher:
    """The process that watches quotas.

    Attributes:
        clock: Returns the present moment, aware UTC.
        stop: Set when the process is to end.
    """

    watch: QuotaWatchSource
    enforcer: QuotaEnforcer
    actor: Actor
    clock: Callable[[], datetime]
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class EnforcedCluster:
    """A cluster whose ResourceQuotas are watched."""

    cluster_id: UUID
    endpoint: EnforcementEndpoint


def keep_quotas(*, cluster: EnforcedCluster, watcher: QuotaWatcher) -> None:
    """Watch the quotas of a cluster until the watcher is stopped.

    An error of one cluster is logged and retried; it never ends the others.
    """
    slug, failures = cluster.endpoint.slug, 0
    while not watcher.stop.is_set():
        loop = QuotaWatchLoop(cluster=cluster, watcher=watcher)
        try:
            with audited_use(slug=slug, actor=watcher.actor, at=watcher.clock()):
                loop.run()
        except QuotaVersionExpiredError:
            reason = "expired"
        except SourceUnavailableError as error:
            reason = error.reason
        except (OperationalError, InterfaceError):
            connection.close()
            reason = "database_unavailable"
        except Exception:  # One cluster's fault is not the others'.
            log.exception("quotas.watch.failed", cluster=slug)
            reason = "crashed"
        else:
            return
        failures = 1 if loop.has_followed else failures + 1
        pause_max = OUTAGE_PAUSE_SECONDS_MAX if reason in OUTAGE_REASONS else PAUSE_SECONDS_MAX
        pause = min(1 << min(failures - 1, PAUSE_DOUBLINGS_MAX), pause_max)
        if failures.bit_count() == 1:
            # An outage of minutes would fill the log.
            log.warning(
                "quotas.watch.interrupted", cluster=slug, reason=reason, pause_seconds=pause
            )
        watcher.stop.wait(pause)


class QuotaWatchLoop:
    """One cluster from a list of its quotas until a stream breaks or the process is stopped."""

    def __init__(self, *, cluster: EnforcedCluster, watcher: QuotaWatcher) -> None:
        """Prepare; no request is sent yet."""
        self.has_followed = False
        self._cluster = cluster
        self._watcher = watcher
        self._states: dict[ObjectKey, str] = {}
        self._due: dict[str, _Due] = {}

    def run(self) -> None:
        """List, repair what drifted before, and follow every change until stopped.

        Raises:
            QuotaVersionExpiredError: The server no longer knows the version.
            SourceUnavailableError: The cluster cannot be read.
        """
        version = self._list()
        while not self._watcher.stop.is_set():
            version = self._follow(version)

    def _list(self) -> str:
        """Read all quotas; namespaces whose quota is not as applied are due."""
        found = self._watcher.watch.list_quotas(self._cluster.endpoint)
        self._states = dict(found.states)
        for target in settled_targets(self._cluster.cluster_id):
            live = found.quotas.get(target.namespace)
            if live is None or not is_as_desired(desired_of(target), live):
                self._note(target.namespace)
        return found.version

    def _follow(self, version: str) -> str:
        """Handle the events of one stream until it ends; return where the next one continues."""
        stream = QuotaStream(
            watch=self._watcher.watch, endpoint=self._cluster.endpoint, version=version
        )
        stream.start()
        with closing(stream):
            while not self._watcher.stop.is_set():
                for event in stream.take():
                    if event is None:
                        return version
                    version = event.version or version
                    self._hold(event)
                self.repair()
        return version

    def _hold(self, event: QuotaEvent) -> None:
        """Note the namespace of an object whose values changed; use alone is no change."""
        self.has_followed = True
        if event.key is None or self._states.get(event.key, "") == event.state:
            return
        self._states[event.key] = event.state
        if not event.state:
            del self._states[event.key]
        self._note(event.key[0])

    def _note(self, namespace: str) -> None:
        now = int(monotonic())
        self._due[namespace] = _Due(at=now, until=now + DUE_SECONDS_MAX)

    def repair(self) -> None:
        """Read due namespaces again, and repair them.

        One whose target is just being applied may have been read before the change, so it is read
        once more; so is one that was not answered.
        """
        now = int(monotonic())
        due = [namespace for namespace, one in self._due.items() if one.at <= now]
        due = due[:BATCH_NAMESPACES_MAX]
        if not due:
            return
        at = self._watcher.clock()
        targets = EnforcementTarget.objects.filter(
            cluster_id=self._cluster.cluster_id, namespace__in=due
        )
        read_again(
            target_ids=list(targets.values_list("pk", flat=True)),
            enforcer=self._watcher.enforcer,
            actor=self._watcher.actor,
            at=at,
        )
        unread = targets.exclude(checked_at__gte=at) | targets.filter(
            state=EnforcementState.PENDING
        )
        again = set(unread.values_list("namespace", flat=True))
        for namespace in due:
            one = self._due.pop(namespace)
            if namespace in again and now < one.until:
                self._due[namespace] = _Due(at=now + AGAIN_SECONDS, until=one.until)


@dataclass(frozen=True)
class _Due:
    """When a namespace is read again, and until when that may be repeated; monotonic seconds."""

    at: int
    until: int


class QuotaStream:
    """A watch that is read in its own thread, without a database."""

    def __init__(
        self, *, watch: QuotaWatchSource, endpoint: EnforcementEndpoint, version: str
    ) -> None:
        """Prepare; `start` opens it."""
        self._watch = watch
        self._endpoint = endpoint
        self._version = version
        self._items: Queue[QuotaEvent | Exception | None] = Queue(QUEUE_EVENTS_MAX)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(
            target=self._read, name=f"quotas-{endpoint.slug}", daemon=True
        )

    def start(self) -> None:
        """Open it in its thread, which never keeps the process from ending."""
        self._thread.start()

    def close(self) -> None:
        """Discard all further events; its thread ends with the next one."""
        self._is_closed.set()

    def take(self) -> list[QuotaEvent | None]:
        """Return the events that have come, waiting a while for the first; None is the end.

        Raises:
            QuotaVersionExpiredError: The server no longer knows the version.
            SourceUnavailableError: The stream broke.
        """
        found: list[QuotaEvent | None] = []
        try:
            item = self._items.get(timeout=TURN_SECONDS)
            while True:
                if isinstance(item, Exception):
                    raise item
                found.append(item)
                if item is None or len(found) >= QUEUE_EVENTS_MAX:
                    break
                item = self._items.get_nowait()
        except Empty:
            pass
        return found

    def _read(self) -> None:
        last: Exception | None = None
        try:
            for event in self._watch.watch_quotas(
                self._endpoint, version=self._version, timeout_seconds=STREAM_SECONDS
            ):
                if not self._put(event):
                    return
        except Exception as error:  # noqa: BLE001 - Passed on: the reader of the queue handles it.
            last = error
        self._put(last)

    def _put(self, item: QuotaEvent | Exception | None) -> bool:
        while not self._is_closed.is_set():
            try:
                self._items.put(item, timeout=TURN_SECONDS)
            except Full:
                continue
            return True
        return False
