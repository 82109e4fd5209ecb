"""From a request to an answer: who asks, whether they may, and what is done."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

from simulator.kubernetes_api.access import refuse_without_right
from simulator.kubernetes_api.discovery import discovery
from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    bad_request,
    method_not_allowed,
)
from simulator.kubernetes_api.incoming import Writing, writing_of
from simulator.kubernetes_api.posting import Poster
from simulator.kubernetes_api.questions import question_of
from simulator.kubernetes_api.reading import Reader
from simulator.kubernetes_api.removing import Remover
from simulator.kubernetes_api.routing import (
    Route,
    asked_of,
    route_of,
    split_target,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.users import Directory, User
from simulator.kubernetes_api.writing import Writer

_PLAIN_TEXT: Final = frozenset({"/healthz", "/livez", "/readyz"})
_POSTED: Final = frozenset({"binding", "eviction", "token"})
_TRUE: Final = frozenset({"true", "True", "1"})


@dataclass(frozen=True)
class Request:
    """What came in; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What goes out: a document, or events one after another.

    Attributes:
        document: A JSON object, or plain text.
        events: Set for a watch; sent as they come.
        headers: Beside the usual ones, in order.
    """

    code: int = HTTPStatus.OK
    document: JSON | str = field(default_factory=dict)
    events: Iterator[JSON] | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Workers:
    """What does the work behind the answers."""

    store: ObjectStore
    reader: Reader
    writer: Writer
    remover: Remover
    poster: Poster
    directory: Directory


class Answerer:
    """Answers requests; knows nothing of sockets.

    Args:
        workers: What does the work.
        is_open: False once the server stops, so that watches end.
    """

    def __init__(self, workers: Workers, *, is_open: Callable[[], bool]) -> None:
        """Keep what does the work."""
        self._workers = workers
        self._is_open = is_open

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request; refusals are answers too."""
        try:
            return self._answer(request)
        except StatusError as error:
            return refusal_answer(error)

    def _answer(self, request: Request) -> Answer:
        path, query = split_target(request.target)
        authorization = request.headers.get("authorization", "")
        user = self._workers.directory.user_of(authorization)
        asked = asked_of(request.method, request.target)
        refuse_without_right(self._workers.store, user, asked)
        if path in _PLAIN_TEXT:
            return Answer(document="ok")
        document = discovery(path, request.headers.get("host", ""))
        if document is not None:
            if request.method != "GET":
                raise method_not_allowed()
            return Answer(document=document)
        route = route_of(path)
        if request.method == "GET":
            return self._get(route, query)
        how = _how(request, route, query, user)
        answer = self._write(request, route, query, how)
        warnings = tuple(("Warning", f'299 - "{_quoted(text)}"') for text in how.warnings)
        return replace(answer, headers=warnings)

    def _write(
        self, request: Request, route: Route, query: Mapping[str, str], how: Writing
    ) -> Answer:
        match request.method:
            case "POST":
                return self._post(request, route, how)
            case "PUT" if route.name and route.subresource not in _POSTED:
                key = (route.namespace, route.name)
                replaced = self._workers.writer.replace(
                    route.resource, key, _document(request), how
                )
                return Answer(document=replaced)
            case "PATCH" if route.name and route.subresource not in _POSTED:
                return self._patch(request, route, how)
            case "DELETE" if not route.subresource:
                return self._delete(request, route, query, how)
        raise method_not_allowed()

    def _get(self, route: Route, query: Mapping[str, str]) -> Answer:
        reader = self._workers.reader
        if route.name:
            if route.subresource in _POSTED:
                raise method_not_allowed()
            return Answer(document=reader.get(route.resource, (route.namespace, route.name)))
        question = question_of(route.resource, route.namespace, query)
        if query.get("watch", "") in _TRUE:
            return Answer(events=reader.watch(question, self._is_open))
        return Answer(document=reader.page(question))

    def _post(self, request: Request, route: Route, how: Writing) -> Answer:
        body = _document(request)
        if route.subresource in _POSTED and route.name:
            key = (route.namespace, route.name)
            posted = self._workers.poster.post(route.resource, key, body, how)
            return Answer(HTTPStatus.CREATED, posted)
        if route.name or (route.resource.is_namespaced and not route.namespace):
            raise method_not_allowed()
        made = self._workers.writer.create(route.resource, route.namespace, body, how)
        return Answer(HTTPStatus.CREATED, made)

    def _patch(self, request: Request, route: Route, how: Writing) -> Answer:
        key = (route.namespace, route.name)
        patched, is_made = self._workers.writer.patch(
            route.resource, key, _document(request), _content_type(request), how
        )
        return Answer(HTTPStatus.CREATED if is_made else HTTPStatus.OK, patched)

    def _delete(
        self, request: Request, route: Route, query: Mapping[str, str], how: Writing
    ) -> Answer:
        options = _document(request) if request.body else {}
        for name, read in (("gracePeriodSeconds", int), ("propagationPolicy", str)):
            if name in query:
                options = {**options, name: read(query[name])}
        if "All" in (options.get("dryRun") or []):
            how = replace(how, is_dry_run=True)
        if route.name:
            key = (route.namespace, route.name)
            return Answer(document=self._workers.remover.delete(route.resource, key, options, how))
        if route.resource.is_namespaced and not route.namespace:
            raise method_not_allowed()
        page = self._workers.reader.page(question_of(route.resource, route.namespace, query))
        for item in page["items"]:
            key = (route.namespace, item["metadata"]["name"])
            self._workers.remover.delete(route.resource, key, options, how)
        return Answer(document=page)


def refusal_answer(error: StatusError) -> Answer:
    """Return a refusal as it goes out."""
    seconds = error.retry_after_seconds
    headers = (("Retry-After", str(seconds)),) if seconds is not None else ()
    return Answer(error.code, error.body, headers=headers)


def _how(request: Request, route: Route, query: Mapping[str, str], user: User) -> Writing:
    """Return how a write is meant; an apply must name its manager itself."""
    is_apply = _content_type(request).startswith("application/apply-patch")
    agent = "" if is_apply else request.headers.get("user-agent", "unknown")
    return writing_of(query, agent=agent, subresource=route.subresource, user=user)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";", maxsplit=1)[0].strip()


def _quoted(text: str) -> str:
    """Return a warning as a header carries it: on one line, quotes and backslashes escaped."""
    plain = " ".join(text.split())
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _document(request: Request) -> Any:  # noqa: ANN401 - JSON is any value.
    try:
        return json.loads(request.body or b"null")
    except ValueError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type object): {error}"
        ) from error
