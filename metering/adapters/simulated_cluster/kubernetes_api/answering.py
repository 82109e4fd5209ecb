"""From a request to an answer: who asks, what for, and which verb it is."""

import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from metering.adapters.simulated_cluster.kubernetes_api.errors import (
    JSON,
    StatusError,
    bad_request,
    forbidden,
    method_not_allowed,
    success,
    unauthorized,
)
from metering.adapters.simulated_cluster.kubernetes_api.incoming import writing_of
from metering.adapters.simulated_cluster.kubernetes_api.reading import Reader, question_of
from metering.adapters.simulated_cluster.kubernetes_api.removing import Remover
from metering.adapters.simulated_cluster.kubernetes_api.resources import PODS, discovery
from metering.adapters.simulated_cluster.kubernetes_api.routing import (
    Route,
    route_of,
    split_target,
)
from metering.adapters.simulated_cluster.kubernetes_api.writing import Writer

_OPEN_TO_ALL: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_PLAIN_TEXT: Final = frozenset({"/healthz", "/livez", "/readyz"})
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
    """

    code: int = HTTPStatus.OK
    document: JSON | str = field(default_factory=dict)
    events: Iterator[JSON] | None = None


class Answerer:
    """Answers requests; knows nothing of sockets.

    Args:
        reader: Gets, lists and watches.
        writer: Creates and changes.
        remover: Deletes.
        tokens: Bearer token to the user it stands for.
        is_open: False once the server stops, so that watches end.
    """

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        remover: Remover,
        *,
        tokens: Mapping[str, str],
        is_open: Callable[[], bool],
    ) -> None:
        """Keep what does the work."""
        self._reader = reader
        self._writer = writer
        self._remover = remover
        self._tokens = tokens
        self._is_open = is_open

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request; refusals are answers too."""
        try:
            return self._answer(request)
        except StatusError as error:
            return Answer(error.code, error.body)

    def _answer(self, request: Request) -> Answer:
        path, query = split_target(request.target)
        user = self._user(request.headers.get("authorization", ""))
        if path in _PLAIN_TEXT:
            return Answer(document="ok")
        document = discovery(path, request.headers.get("host", ""))
        if not user and path not in _OPEN_TO_ALL:
            raise self._anonymous(path, request.method)
        if document is not None:
            if request.method != "GET":
                raise method_not_allowed()
            return Answer(document=document)
        return self._dispatch(request, route_of(path), query)

    def _user(self, authorization: str) -> str:
        """Return who asks, "" without a token.

        Raises:
            StatusError: 401 for a token that is unknown.
        """
        if not authorization:
            return ""
        scheme, _, token = authorization.partition(" ")
        for known, user in self._tokens.items():
            if scheme == "Bearer" and hmac.compare_digest(known.encode(), token.encode()):
                return user
        raise unauthorized()

    def _anonymous(self, path: str, method: str) -> StatusError:
        who = 'User "system:anonymous" cannot'
        try:
            plural = route_of(path).resource.plural
        except StatusError:
            return forbidden("", "", f'{who} {method.lower()} path "{path}"')
        why = f'{who} access resource "{plural}" in API group ""'
        return forbidden(plural, "", why)

    def _dispatch(self, request: Request, route: Route, query: Mapping[str, str]) -> Answer:
        match request.method:
            case "GET":
                return self._get(route, query)
            case "POST":
                return self._post(request, route, query)
            case "PUT" if route.name:
                return self._put(request, route, query)
            case "PATCH" if route.name:
                return self._patch(request, route, query)
            case "DELETE" if not route.subresource:
                return self._delete(request, route, query)
        raise method_not_allowed()

    def _get(self, route: Route, query: Mapping[str, str]) -> Answer:
        if route.name:
            if route.subresource == "binding":
                raise method_not_allowed()
            return Answer(document=self._reader.get(route.resource, (route.namespace, route.name)))
        question = question_of(route.resource, route.namespace, query)
        if query.get("watch", "") in _TRUE:
            return Answer(events=self._reader.watch(question, self._is_open))
        return Answer(document=self._reader.page(question))

    def _post(self, request: Request, route: Route, query: Mapping[str, str]) -> Answer:
        how = writing_of(query, agent=_agent(request), subresource=route.subresource)
        body = _document(request)
        if route.subresource == "binding" and route.name:
            pod = self._writer.bind(route.namespace, route.name, body, how)
            status = success(name=route.name, plural=PODS.plural, uid=pod["metadata"]["uid"])
            return Answer(HTTPStatus.CREATED, status)
        if route.name or (route.resource.is_namespaced and not route.namespace):
            raise method_not_allowed()
        made = self._writer.create(route.resource, route.namespace, body, how)
        return Answer(HTTPStatus.CREATED, made)

    def _put(self, request: Request, route: Route, query: Mapping[str, str]) -> Answer:
        how = writing_of(query, agent=_agent(request), subresource=route.subresource)
        key = (route.namespace, route.name)
        body = _document(request)
        return Answer(document=self._writer.replace(route.resource, key, body, how))

    def _patch(self, request: Request, route: Route, query: Mapping[str, str]) -> Answer:
        kind = request.headers.get("content-type", "").split(";", maxsplit=1)[0].strip()
        agent = "" if kind.startswith("application/apply-patch") else _agent(request)
        how = writing_of(query, agent=agent, subresource=route.subresource)
        key = (route.namespace, route.name)
        patched, is_made = self._writer.patch(route.resource, key, _document(request), kind, how)
        return Answer(HTTPStatus.CREATED if is_made else HTTPStatus.OK, patched)

    def _delete(self, request: Request, route: Route, query: Mapping[str, str]) -> Answer:
        options = _document(request) if request.body else {}
        if "gracePeriodSeconds" in query:
            options = {**options, "gracePeriodSeconds": int(query["gracePeriodSeconds"])}
        is_dry_run = "All" in (options.get("dryRun") or []) or query.get("dryRun") == "All"
        if route.name:
            key = (route.namespace, route.name)
            return Answer(
                document=self._remover.delete(route.resource, key, options, is_dry_run=is_dry_run)
            )
        if not route.namespace:
            raise method_not_allowed()
        page = self._reader.page(question_of(route.resource, route.namespace, query))
        for item in page["items"]:
            key = (route.namespace, item["metadata"]["name"])
            self._remover.delete(route.resource, key, options, is_dry_run=is_dry_run)
        return Answer(document=page)


def _agent(request: Request) -> str:
    return request.headers.get("user-agent", "unknown")


def _document(request: Request) -> Any:  # noqa: ANN401 - JSON is any value.
    try:
        return json.loads(request.body or b"null")
    except ValueError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type object): {error}"
        ) from error
