"""Lists in pages, watches with bookmarks, and the selectors of both.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Final

from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    bad_request,
    expired,
    invalid,
)
from simulator.kubernetes_api.resources import Resource
from simulator.kubernetes_api.store import Event, ObjectStore

PAGES_MAX: Final = 100
"""Lists that are being read in pages; older ones get 410 Gone."""
BOOKMARK_SECONDS: Final = 60.0
WATCH_TIMEOUT_SECONDS: Final = 1800
_POLL_SECONDS: Final = 0.5
_TRUE: Final = frozenset({"true", "True", "1"})
_TOKEN: Final = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_KEY: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_REQUIREMENT: Final = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})|(?P<key>{_KEY})"
    r"(?:\s*(?P<equals>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*)"
    r"|\s+(?P<among>in|notin)\s*\((?P<values>[^()]*)\))?)\s*"
)
_FIELD: Final = re.compile(r"\s*([A-Za-z.]+)\s*(==|=|!=)\s*(.*?)\s*")
_COMMAS: Final = re.compile(r",(?![^(]*\))")
"""Commas between requirements, not those inside a set."""


@dataclass(frozen=True)
class ListQuery:
    """The query string of a list or a watch."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: int = 0
    timeout_seconds: int = WATCH_TIMEOUT_SECONDS
    has_bookmarks: bool = False

    def selector(self) -> Callable[[JSON], bool]:
        """Return a predicate that selects objects."""
        requirements = parse_labels(self.labels)
        fields = _parse_fields(self.resource, self.fields)
        return lambda obj: (
            matches_labels({"matchExpressions": requirements}, obj["metadata"].get("labels") or {})
            and all((_read(obj, path) == value) is is_equal for path, value, is_equal in fields)
        )


def is_watch(query: Mapping[str, str]) -> bool:
    """Return whether a query string requests a watch."""
    return query.get("watch", "") in _TRUE


def parse_query(resource: Resource, namespace: str, query: Mapping[str, str]) -> ListQuery:
    """Return the parameters of a query string."""
    names = {"sendInitialEvents"} if "sendInitialEvents" in query else set()
    if query.get("resourceVersionMatch") and (is_watch(query) or not query.get("resourceVersion")):
        names.add("resourceVersionMatch")
    if names:
        causes = [("FieldValueForbidden", "Forbidden", name) for name in sorted(names)]
        raise invalid("ListOptions.meta.k8s.io", "", causes)
    return ListQuery(
        resource=resource,
        namespace=namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=_number(query, "limit", 0),
        token=query.get("continue", ""),
        version=_number(query, "resourceVersion", 0),
        timeout_seconds=_number(query, "timeoutSeconds", WATCH_TIMEOUT_SECONDS),
        has_bookmarks=query.get("allowWatchBookmarks", "") in _TRUE,
    )


class Reader:
    """Lists and watches objects."""

    def __init__(self, store: ObjectStore, *, bookmark_seconds: float = BOOKMARK_SECONDS) -> None:
        """Begin with no list that is being read in pages."""
        self._store = store
        self._bookmark_seconds = bookmark_seconds
        self._numbers = count(1)
        self._pages: OrderedDict[str, tuple[int, list[JSON]]] = OrderedDict()

    def page(self, query: ListQuery) -> JSON:
        """Return a list, or a page of one as it was when the first page was read."""
        version, objects = self._remaining(query)
        page = objects[: query.limit or None]
        rest = objects[len(page) :]
        metadata: JSON = {"resourceVersion": str(version)}
        if rest:
            metadata["continue"] = f"{version}.{next(self._numbers)}"
            if not query.labels and not query.fields:
                metadata["remainingItemCount"] = len(rest)
            self._pages[metadata["continue"]] = (version, rest)
            while len(self._pages) > PAGES_MAX:
                self._pages.popitem(last=False)
        return {
            "kind": f"{query.resource.kind}List",
            "apiVersion": query.resource.api_version,
            "metadata": metadata,
            "items": page,
        }

    def watch(self, query: ListQuery, is_open: Callable[[], bool]) -> Iterator[JSON]:
        """Yield events until the time is over or the server stops."""
        query.selector()
        if query.version:
            return self._events(query, query.version, [], is_open)
        version, objects = self._snapshot(query)
        first = [{"type": "ADDED", "object": query.resource.typed(obj)} for obj in objects]
        return self._events(query, version, first, is_open)

    def _remaining(self, query: ListQuery) -> tuple[int, list[JSON]]:
        """Return a list from where a token begins, or the whole of it, and its version."""
        if query.token:
            if not _TOKEN.fullmatch(query.token):
                raise bad_request("continue key is not valid")
            if query.token not in self._pages:
                raise expired("The provided continue parameter is too old.")
            return self._pages[query.token]
        version, objects = self._snapshot(query)
        if query.version > version:
            raise _too_large(query.version, version)
        return version, objects

    def _snapshot(self, query: ListQuery) -> tuple[int, list[JSON]]:
        selects = query.selector()
        with self._store.lock:
            items = self._store.items(query.resource, query.namespace)
            return self._store.version, [obj for _, obj in items if selects(obj)]

    def _events(
        self, query: ListQuery, version: int, first: list[JSON], is_open: Callable[[], bool]
    ) -> Iterator[JSON]:
        selects = query.selector()
        deadline = time.monotonic() + query.timeout_seconds
        bookmark_at = time.monotonic() + self._bookmark_seconds
        yield from first
        while is_open() and time.monotonic() < deadline:
            if version < self._store.oldest():
                message = f"too old resource version: {version} ({self._store.oldest()})"
                yield {"type": "ERROR", "object": expired(message).body}
                return
            for event in self._store.events_after(version):
                version = event.version
                yield from _seen(event, query, selects)
            if query.has_bookmarks and time.monotonic() >= bookmark_at:
                bookmark_at = time.monotonic() + self._bookmark_seconds
                yield _bookmark(query.resource, version)
            left = min(_POLL_SECONDS, self._bookmark_seconds, deadline - time.monotonic())
            self._store.wait(version, timeout_seconds=max(0.0, left))
        if query.has_bookmarks and is_open():
            yield _bookmark(query.resource, version)


def parse_labels(text: str) -> list[JSON]:
    """Return a label selector of a query string as matchExpressions."""
    return [_requirement(part) for part in _COMMAS.split(text)] if text.strip() else []


def matches_labels(selector: JSON, labels: Mapping[str, str]) -> bool:
    """Return whether labels match matchLabels and matchExpressions; an empty selector matches."""
    wanted = (selector.get("matchLabels") or {}).items()
    if any(labels.get(key) != value for key, value in wanted):
        return False
    expressions = selector.get("matchExpressions") or []
    return all(matches_expression(one, labels.get(one["key"])) for one in expressions)


def matches_expression(expression: JSON, value: str | None) -> bool:
    """Return whether a value, None for an absent one, matches an operator and its values."""
    values = expression.get("values") or []
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


def _requirement(text: str) -> JSON:
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise bad_request(f"unable to parse requirement: {text}")
    if match["absent"]:
        return {"key": match["absent"], "operator": "DoesNotExist"}
    if match["equals"]:
        operator, values = "NotIn" if match["equals"] == "!=" else "In", [match["value"]]
    elif match["among"]:
        operator = "In" if match["among"] == "in" else "NotIn"
        values = [value.strip() for value in match["values"].split(",")]
    else:
        operator, values = "Exists", []
    return {"key": match["key"], "operator": operator, "values": values}


def _parse_fields(resource: Resource, text: str) -> list[tuple[str, str, bool]]:
    """Return path, value and whether they have to be equal, for each part of a field selector."""
    found = []
    for part in filter(str.strip, text.split(",")):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        if match[1] not in {"metadata.name", "metadata.namespace", *resource.fields}:
            raise bad_request(f"field label not supported: {match[1]}")
        found.append((match[1], match[3], match[2] != "!="))
    return found


def _read(obj: JSON, path: str) -> str:
    value: object = obj
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def _seen(event: Event, query: ListQuery, selects: Callable[[JSON], bool]) -> Iterator[JSON]:
    """Yield an event as the watch has it: an object that is not selected any more is deleted."""
    if event.resource is not query.resource:
        return
    if query.namespace and event.last["metadata"].get("namespace") != query.namespace:
        return
    was_there = event.before is not None and selects(event.before)
    is_there = event.after is not None and selects(event.after)
    if was_there or is_there:
        kind = "DELETED" if not is_there else "MODIFIED" if was_there else "ADDED"
        yield {"type": kind, "object": query.resource.typed(event.last)}


def _bookmark(resource: Resource, version: int) -> JSON:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"type": "BOOKMARK", "object": resource.typed({"metadata": metadata})}


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": {name} is not a number')
    return int(text)


def _too_large(wanted: int, now: int) -> StatusError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {now}",
        details={"causes": [cause]},
        retry_after_seconds=1,
    )
