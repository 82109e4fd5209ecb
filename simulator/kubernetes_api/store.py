"""The objects, one resource version after another, and what happened to them.

Objects in the store are never changed in place: a write puts a new one. Whoever reads gets the
stored object itself and copies before changing.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.resources import Resource

HISTORY_MAX: Final = 10_000
"""Events that are kept; a watch from before the oldest is told 410 Gone."""

Key = tuple[str, str]
"""Namespace ("" for what has none) and name."""


@dataclass(frozen=True)
class Event:
    """One write: the object before (None for a new one) and after (None when it was removed).

    A removal's `last` is the object as it was, with the version of its removal.
    """

    version: int
    plural: str
    before: JSON | None
    after: JSON | None
    last: JSON


class ObjectStore:
    """All objects of one cluster. Hold `lock` around a read and the write that rests on it.

    Attributes:
        client_certificate: Paths of the certificate and the key with which the server proves itself
            to its webhooks, as an AdmissionConfiguration's kubeConfigFile would; None for none.
        compile_condition: Makes programs of CEL expressions; None refuses them.
    """

    def __init__(self, *, history_max: int = HISTORY_MAX, version: int = 1) -> None:
        """Begin empty, at a version from before which nothing is known."""
        self.lock = threading.Condition(threading.RLock())
        self.client_certificate: tuple[Path, Path] | None = None
        self.compile_condition: Callable[[str], Callable[[JSON], bool]] | None = None
        self._objects: dict[str, dict[Key, JSON]] = {}
        self._events: deque[Event] = deque(maxlen=history_max)
        self._version = version
        self._compacted = version

    @property
    def version(self) -> int:
        """Return the version of the last write."""
        return self._version

    def get(self, resource: Resource, key: Key) -> JSON | None:
        """Return an object, None when there is none."""
        with self.lock:
            return self._objects.get(resource.plural, {}).get(key)

    def items(self, resource: Resource, namespace: str = "") -> list[tuple[Key, JSON]]:
        """Return objects by key, of one namespace or of all."""
        with self.lock:
            found = self._objects.get(resource.plural, {})
            return sorted(
                ((key, one) for key, one in found.items() if not namespace or key[0] == namespace),
                key=lambda item: item[0],
            )

    def put(self, resource: Resource, key: Key, obj: JSON) -> JSON:
        """Store an object as a new version, and return it."""
        with self.lock:
            stored = self._stamped(obj)
            objects = self._objects.setdefault(resource.plural, {})
            before = objects.get(key)
            objects[key] = stored
            self._record(Event(self._version, resource.plural, before, stored, stored))
            return stored

    def remove(self, resource: Resource, key: Key) -> JSON:
        """Remove an object, and return it with the version of its removal.

        Raises:
            KeyError: There is none.
        """
        with self.lock:
            before = self._objects[resource.plural].pop(key)
            last = self._stamped(before)
            self._record(Event(self._version, resource.plural, before, None, last))
            return last

    def compact(self) -> None:
        """Forget what happened until now, as etcd does after a while."""
        with self.lock:
            self._events.clear()
            self._compacted = self._version

    def oldest(self) -> int:
        """Return the version from which on everything that happened is known."""
        with self.lock:
            if self._events and len(self._events) == self._events.maxlen:
                return max(self._compacted, self._events[0].version - 1)
            return self._compacted

    def events_after(self, version: int) -> Iterator[Event]:
        """Return what happened after a version, oldest first."""
        with self.lock:
            newest_first = takewhile(lambda event: event.version > version, reversed(self._events))
            return reversed(list(newest_first))

    def wait(self, version: int, *, timeout_seconds: float) -> None:
        """Wait until something happens after a version, or the time is over."""
        with self.lock:
            self.lock.wait_for(lambda: self._version > version, timeout=timeout_seconds)

    def _stamped(self, obj: JSON) -> JSON:
        self._version += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def _record(self, event: Event) -> None:
        self._events.append(event)
        self.lock.notify_all()
