"""The objects, one resource version after another, and the events about them.

Objects in the store are never mutated: a write stores a new one. A caller that reads gets
the stored object itself and copies it before a change.
"""

import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final

from simulator.kubernetes_api.errors import JSON, not_found
from simulator.kubernetes_api.resources import Resource

HISTORY_MAX: Final = 10_000
"""Events that are kept; a watch from before the oldest gets 410 Gone."""
NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
Key = tuple[str, str]
"""Namespace ("" for what has none) and name."""


def wall_clock() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


def format_time(at: datetime) -> str:
    """Return a moment as Kubernetes prints it: whole seconds, Z."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Event:
    """One write: the object before (None for a new one) and after (None when it was removed).

    A removal's `last` is the object as it was, with the version of its removal.
    """

    version: int
    resource: Resource
    before: JSON | None
    after: JSON | None
    last: JSON


class ObjectStore:
    """All objects of one cluster. Hold `lock` around a read and the write that depends on it.

    Attributes:
        clock: Returns the present moment, aware UTC.
        client_certificate: Paths of the certificate and the key that the server shows to its
            webhooks, as an AdmissionConfiguration's kubeConfigFile would; None for none.
        compile_condition: Compiles CEL expressions; None refuses them.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = wall_clock,
        history_max: int = HISTORY_MAX,
        version: int = 1,
    ) -> None:
        """Begin empty, at a version from before which nothing is known."""
        self.lock = threading.Condition(threading.RLock())
        self.clock = clock
        self.client_certificate: tuple[str, str] | None = None
        self.compile_condition: Callable[[str], Callable[[JSON], bool]] | None = None
        self._objects: dict[Resource, dict[Key, JSON]] = {}
        self._events: deque[Event] = deque(maxlen=history_max)
        self._version = version
        self._compacted = version
        self._random = random.Random(version)  # noqa: S311 - Names of a simulation.

    @property
    def version(self) -> int:
        """Return the version of the last write."""
        return self._version

    def now(self, *, after_seconds: int = 0) -> str:
        """Return the present moment, or one some seconds later, as Kubernetes prints it."""
        return format_time(self.clock() + timedelta(seconds=after_seconds))

    def new_uid(self) -> str:
        """Return a uid that no object has."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def new_suffix(self) -> str:
        """Return what a generated name ends with."""
        return "".join(self._random.choices(NAME_LETTERS, k=5))

    def get(self, resource: Resource, key: Key) -> JSON | None:
        """Return an object, None when there is none."""
        with self.lock:
            return self._objects.get(resource, {}).get(key)

    def read(self, resource: Resource, key: Key) -> JSON:
        """Return an object, or refuse with 404."""
        found = self.get(resource, key)
        if found is None:
            raise not_found(resource.qualified, key[1])
        return found

    def items(self, resource: Resource, namespace: str = "") -> list[tuple[Key, JSON]]:
        """Return objects by key, of one namespace or of all."""
        with self.lock:
            found = self._objects.get(resource, {}).items()
            chosen = [item for item in found if not namespace or item[0][0] == namespace]
        return sorted(chosen, key=lambda item: item[0])

    def put(self, resource: Resource, key: Key, obj: JSON) -> JSON:
        """Store an object as a new version, and return it."""
        with self.lock:
            stored = self._stamped(obj)
            objects = self._objects.setdefault(resource, {})
            before = objects.get(key)
            objects[key] = stored
            self._record(Event(self._version, resource, before, stored, stored))
            return stored

    def put_status(self, resource: Resource, key: Key, status: JSON) -> None:
        """Store another status of an object, unless it is the same or the object is gone."""
        with self.lock:
            live = self.get(resource, key)
            if live is not None and live.get("status") != status:
                self.put(resource, key, {**live, "status": status})

    def remove(self, resource: Resource, key: Key) -> JSON:
        """Remove an object, and return it with the version of its removal.

        Raises:
            KeyError: There is none.
        """
        with self.lock:
            before = self._objects[resource].pop(key)
            last = self._stamped(before)
            self._record(Event(self._version, resource, before, None, last))
            return last

    def compact(self) -> None:
        """Delete the events until now, as etcd compaction does."""
        with self.lock:
            self._events.clear()
            self._compacted = self._version

    def oldest(self) -> int:
        """Return the version from which on every event is known."""
        with self.lock:
            if self._events and len(self._events) == self._events.maxlen:
                return max(self._compacted, self._events[0].version - 1)
            return self._compacted

    def events_after(self, version: int) -> Iterator[Event]:
        """Return the events after a version, oldest first."""
        with self.lock:
            newest_first = takewhile(lambda event: event.version > version, reversed(self._events))
            return reversed(list(newest_first))

    def wait(self, version: int, *, timeout_seconds: float) -> None:
        """Wait until there is a later version, or the time is over."""
        with self.lock:
            self.lock.wait_for(lambda: self._version > version, timeout=timeout_seconds)

    def _stamped(self, obj: JSON) -> JSON:
        self._version += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def _record(self, event: Event) -> None:
        self._events.append(event)
        self.lock.notify_all()
