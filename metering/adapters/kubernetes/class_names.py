"""Resource names of device classes, as they are learned while the classes of clusters are read."""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from metering.protocols.watch import ClassState, WatchTarget

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ClassNames:
    """The device class that serves each extended resource name; safe to share between threads."""

    def __init__(self) -> None:
        """Know nothing."""
        self._classes: dict[str, dict[str, tuple[datetime, str]]] = {}
        self._served: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()

    def class_of(self, target: WatchTarget, resource: str) -> str:
        """Return the class that serves a resource in a cluster; "" without one."""
        served = self._served.get(target.slug)
        if served is None:
            with self._lock:
                self._known(target)
                served = self._serve(target.slug)
        return served.get(resource, "")

    def learn(self, target: WatchTarget, state: ClassState, *, is_gone: bool) -> None:
        """Keep what a class says of its devices."""
        with self._lock:
            known = self._known(target)
            known.pop(state.name, None)
            if state.extended_resource and not is_gone:
                known[state.name] = state.created_at, state.extended_resource
            self._serve(target.slug)

    def _known(self, target: WatchTarget) -> dict[str, tuple[datetime, str]]:
        kept = {name: (_LONG_AGO, resource) for name, resource in target.class_names.items()}
        return self._classes.setdefault(target.slug, kept)

    def _serve(self, slug: str) -> Mapping[str, str]:
        """Keep the newest class of each name, as the scheduler takes it."""
        known = self._classes[slug]
        names = sorted(known, reverse=True)
        self._served[slug] = {
            known[name][1]: name for name in sorted(names, key=lambda name: known[name][0])
        }
        return self._served[slug]
