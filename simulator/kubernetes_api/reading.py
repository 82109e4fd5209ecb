"""Get, list and watch.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

import base64
import json
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import islice
from operator import itemgetter
from typing import Final

from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    bad_request,
    expired,
    not_found,
)
from simulator.kubernetes_api.questions import (
    Question,
    version_of,
)
from simulator.kubernetes_api.resources import Resource
from simulator.kubernetes_api.selectors import (
    Selector,
)
from simulator.kubernetes_api.store import Event, Key, ObjectStore

SNAPSHOTS_MAX: Final = 100
"""Lists that are being paged through; older ones are told 410 Gone."""
BOOKMARK_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5


def typed(resource: Resource, obj: JSON) -> JSON:
    """Return an object as it goes out alone: with kind and apiVersion first."""
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}


class Reader:
    """Answers what is there and what happens."""

    def __init__(self, store: ObjectStore, *, bookmark_seconds: float = BOOKMARK_SECONDS) -> None:
        """Nothing is being paged through yet."""
        self._store = store
        self._bookmark_seconds = bookmark_seconds
        self._snapshots: OrderedDict[int, dict[str, list[tuple[Key, JSON]]]] = OrderedDict()

    def get(self, resource: Resource, key: Key) -> JSON:
        """Return one object.

        Raises:
            StatusError: 404.
        """
        found = self._store.get(resource, key)
        if found is None:
            raise not_found(resource.qualified, key[1])
        return typed(resource, found)

    def page(self, question: Question) -> JSON:
        """Return a list, or a page of one.

        Raises:
            StatusError: 400 for what is no question, 410 for a page of a list that is forgotten.
        """
        fits = question.selector()
        version, items, start = self._page_source(question)
        begin = bisect_right(items, start, key=itemgetter(0))
        chosen = (item for item in islice(items, begin, None) if fits(item[1]))
        page = list(islice(chosen, question.limit or None))
        metadata: JSON = {"resourceVersion": str(version)}
        if next(chosen, None) is not None:
            metadata["continue"] = _token(version, page[-1][0])
            if not question.labels and not question.fields:
                metadata["remainingItemCount"] = len(items) - begin - len(page)
            self._remember(version, question, items)
        return {
            "kind": f"{question.resource.kind}List",
            "apiVersion": question.resource.api_version,
            "metadata": metadata,
            "items": [obj for _, obj in page],
        }

    def watch(self, question: Question, is_open: Callable[[], bool]) -> Iterator[JSON]:
        """Yield what happens, until the time is over or the caller has gone.

        Raises:
            StatusError: 400 for what is no question.
        """
        fits = question.selector()
        version, first = self._watch_start(question, fits)
        return self._events(question, fits, version, first, is_open)

    def _events(
        self,
        question: Question,
        fits: Selector,
        version: int,
        first: list[JSON],
        is_open: Callable[[], bool],
    ) -> Iterator[JSON]:
        deadline = time.monotonic() + question.timeout_seconds
        bookmark_at = time.monotonic() + self._bookmark_seconds
        yield from first
        while is_open() and time.monotonic() < deadline:
            if version < self._store.oldest():
                yield {"type": "ERROR", "object": self._too_old(version).body}
                return
            for event in self._store.events_after(version):
                version = event.version
                yield from _told(event, question, fits)
            if question.has_bookmarks and time.monotonic() >= bookmark_at:
                bookmark_at = time.monotonic() + self._bookmark_seconds
                yield _bookmark(question.resource, version)
            left = min(_POLL_SECONDS, self._bookmark_seconds, deadline - time.monotonic())
            self._store.wait(version, timeout_seconds=max(0.0, left))
        if question.has_bookmarks and is_open():
            yield _bookmark(question.resource, version)

    def _watch_start(self, question: Question, fits: Selector) -> tuple[int, list[JSON]]:
        """Return the version to go on from, and what is told at once: everything, or nothing."""
        if question.version not in {"", "0"}:
            return version_of(question.version), []
        with self._store.lock:
            items = self._store.items(question.resource, question.namespace)
            return self._store.version, [
                {"type": "ADDED", "object": typed(question.resource, obj)}
                for _, obj in items
                if fits(obj)
            ]

    def _page_source(self, question: Question) -> tuple[int, list[tuple[Key, JSON]], Key]:
        if not question.token:
            self._refuse_version(question)
            with self._store.lock:
                items = self._store.items(question.resource, question.namespace)
                return self._store.version, items, ("", "")
        version, start = _read_token(question.token)
        snapshot = self._snapshots.get(version, {}).get(_place(question))
        if snapshot is None:
            raise expired("The provided continue parameter is too old.")
        return version, snapshot, start

    def _refuse_version(self, question: Question) -> None:
        """Refuse a list of a version that is not known yet, or not known any more."""
        wanted, now = version_of(question.version or "0"), self._store.version
        if wanted > now:
            raise _too_large(wanted, now)

    def _remember(self, version: int, question: Question, items: "list[tuple[Key, JSON]]") -> None:
        self._snapshots.setdefault(version, {})[_place(question)] = items
        while len(self._snapshots) > SNAPSHOTS_MAX:
            self._snapshots.popitem(last=False)

    def _too_old(self, version: int) -> StatusError:
        return expired(f"too old resource version: {version} ({self._store.oldest()})")


def _told(event: Event, question: Question, fits: Selector) -> Iterator[JSON]:
    """Yield an event as the watcher sees it: an object that stops fitting is deleted for it."""
    if event.plural != question.resource.plural:
        return
    if question.namespace and event.last["metadata"].get("namespace") != question.namespace:
        return
    was_there = event.before is not None and fits(event.before)
    is_there = event.after is not None and fits(event.after)
    kind = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}.get(
        (was_there, is_there)
    )
    if kind is not None:
        yield {"type": kind, "object": typed(question.resource, event.last)}


def _bookmark(resource: Resource, version: int) -> JSON:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"type": "BOOKMARK", "object": typed(resource, {"metadata": metadata})}


def _place(question: Question) -> str:
    return f"{question.resource.plural}/{question.namespace}"


def _token(version: int, key: Key) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": list(key)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key]:
    try:
        padded = token + "=" * (-len(token) % 4)
        found = json.loads(base64.urlsafe_b64decode(padded))
        namespace, name = found["start"]
        return int(found["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request("continue key is not valid") from error


def _too_large(wanted: int, now: int) -> StatusError:
    message = f"Too large resource version: {wanted}, current: {now}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: {message}",
        details={"causes": [cause]},
        retry_after_seconds=1,
    )
