"""From a request to its response: authentication, authorization, and what is read or written."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

from simulator.kubernetes_api.access import (
    OWN_ACCESS,
    RequestInfo,
    Tokens,
    User,
    Write,
    has_right,
    parse_request,
    refuse_without_right,
)
from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    bad_request,
    invalid,
    method_not_allowed,
    no_such_path,
)
from simulator.kubernetes_api.patches import APPLY_PATCH
from simulator.kubernetes_api.reading import Reader, parse_query
from simulator.kubernetes_api.removal import bind_pod, delete_object, evict_pod, issue_token
from simulator.kubernetes_api.resources import (
    NAMESPACES,
    POSTED,
    RESOURCES,
    Resource,
    discovery,
)
from simulator.kubernetes_api.store import Key, ObjectStore
from simulator.kubernetes_api.writing import (
    apply_object,
    create_object,
    patch_object,
    replace_object,
)

_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_TRUE: Final = frozenset({"true", "True", "1"})


@dataclass(frozen=True)
class Request:
    """An HTTP request; header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """Return the type of the body without its parameters."""
        return self.headers.get("content-type", "").split(";", maxsplit=1)[0].strip()

    def document(self) -> Any:  # noqa: ANN401 - JSON is any value.
        """Return the body as JSON."""
        try:
            return json.loads(self.body or b"null")
        except ValueError as error:
            message = "the object provided is unrecognized (must be of type object)"
            raise bad_request(f"{message}: {error}") from error


@dataclass(frozen=True)
class APIResponse:
    """An HTTP response: a document, or events one after another.

    Attributes:
        document: A JSON object, or plain text.
        events: Set for a watch; sent as they occur.
        headers: Beside the usual ones, in order.
    """

    code: int = HTTPStatus.OK
    document: JSON | str = field(default_factory=dict)
    events: Iterator[JSON] | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Fault:
    """An error that the next matching requests get.

    Attributes:
        verb: "list", "watch", "create" and so on; "" for every verb.
        resource: "pods", "pods/eviction"; "" for every resource.
        times: How many requests are left that get it.
    """

    error: StatusError
    verb: str
    resource: str
    times: int


class Responder:
    """Answers requests, without sockets.

    Args:
        store: The objects.
        reader: Lists and watches them.
        tokens: The bearer tokens.
        is_open: False once the server stops, so that watches end.

    Attributes:
        faults: Errors ordered by a test, oldest first.
    """

    def __init__(
        self, store: ObjectStore, reader: Reader, tokens: Tokens, *, is_open: Callable[[], bool]
    ) -> None:
        """Begin without faults."""
        self.faults: list[Fault] = []
        self._store = store
        self._reader = reader
        self._tokens = tokens
        self._is_open = is_open

    def respond(self, request: Request) -> APIResponse:
        """Return the response to a request; a refusal is a response too."""
        try:
            return self._respond(request, parse_request(request.method, request.target))
        except StatusError as error:
            seconds = error.retry_after_seconds
            headers = () if seconds is None else (("Retry-After", str(seconds)),)
            return APIResponse(error.code, error.body, headers=headers)

    def _respond(self, request: Request, info: RequestInfo) -> APIResponse:
        self._raise_fault(info)
        user = self._tokens.user_of(request.headers.get("authorization", ""))
        refuse_without_right(self._store, user, info)
        document = "ok" if info.path in _HEALTH else discovery(info.path)
        if document is not None:
            if request.method != "GET":
                raise method_not_allowed()
            return APIResponse(document=document)
        if info.path == OWN_ACCESS and request.method == "POST":
            return APIResponse(HTTPStatus.CREATED, self._review_access(user, request.document()))
        resource = _resource_of(info)
        key = (info.namespace if resource.is_namespaced else "", info.name)
        if request.method == "GET":
            return self._read(resource, key, info)
        write = _write_of(self._store, resource, key, request, info, user)
        code, written = self._write(request, info, write)
        warnings = tuple(("Warning", f'299 - "{_quoted(text)}"') for text in write.warnings)
        return APIResponse(code, written, headers=warnings)

    def _raise_fault(self, info: RequestInfo) -> None:
        with self._store.lock:
            for fault in self.faults:
                if fault.verb in {"", info.verb} and fault.resource in {"", info.resource}:
                    fault.times -= 1
                    if not fault.times:
                        self.faults.remove(fault)
                    raise fault.error

    def _review_access(self, user: User, review: JSON) -> JSON:
        """Return a SelfSubjectAccessReview with its answer."""
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        info = RequestInfo(
            verb=asked.get("verb", ""),
            path=OWN_ACCESS,
            query={},
            group=asked.get("group", ""),
            plural=asked.get("resource", ""),
            subresource=asked.get("subresource", ""),
            namespace=asked.get("namespace", ""),
            name=asked.get("name", ""),
        )
        return {**review, "status": {"allowed": has_right(self._store, user, info)}}

    def _read(self, resource: Resource, key: Key, info: RequestInfo) -> APIResponse:
        if info.name:
            if info.subresource in POSTED:
                raise method_not_allowed()
            return APIResponse(document=resource.typed(self._store.read(resource, key)))
        query = parse_query(resource, key[0], info.query)
        if info.verb == "watch":
            return APIResponse(events=self._reader.watch(query, self._is_open))
        return APIResponse(document=self._reader.page(query))

    def _write(self, request: Request, info: RequestInfo, write: Write) -> tuple[int, JSON]:
        """Return the code of a write and the object, or the Status, that goes with it."""
        body, is_global = request.document(), not write.resource.is_namespaced
        match request.method, bool(info.name), info.subresource in POSTED:
            case "POST", True, True:
                return HTTPStatus.CREATED, self._post(write, body)
            case "POST", False, False if is_global or info.namespace:
                return HTTPStatus.CREATED, create_object(write, body)
            case "PUT", True, False:
                return HTTPStatus.OK, replace_object(write, body)
            case "PATCH", True, False if request.content_type == APPLY_PATCH:
                applied, is_new = apply_object(write, body)
                return HTTPStatus.CREATED if is_new else HTTPStatus.OK, applied
            case "PATCH", True, False:
                return HTTPStatus.OK, patch_object(write, body, request.content_type)
            case "DELETE", _, _ if not info.subresource and (is_global or info.namespace):
                return HTTPStatus.OK, self._delete(write, info, body or {})
        raise method_not_allowed()

    def _post(self, write: Write, body: object) -> JSON:
        if write.subresource == "token":
            return issue_token(write, self._tokens, body)
        return (bind_pod if write.subresource == "binding" else evict_pod)(write, body)

    def _delete(self, write: Write, info: RequestInfo, delete_options: JSON) -> JSON:
        for name, read in (("gracePeriodSeconds", int), ("propagationPolicy", str)):
            if name in info.query:
                delete_options = {**delete_options, name: read(info.query[name])}
        if info.name:
            return delete_object(write, delete_options)
        listed = self._reader.page(parse_query(write.resource, write.key[0], info.query))
        for item in listed["items"]:
            key = (write.key[0], item["metadata"]["name"])
            delete_object(replace(write, key=key), delete_options)
        return listed


def _resource_of(info: RequestInfo) -> Resource:
    """Return the resource of a path."""
    resource = RESOURCES.get(info.plural)
    if resource is None or (resource.group, resource.version) != (info.group, info.version):
        raise no_such_path()
    if info.subresource and info.subresource not in resource.subresources:
        raise no_such_path()
    is_wrong_scope = (
        info.name and not info.namespace
        if resource.is_namespaced
        else info.namespace and resource is not NAMESPACES
    )
    if is_wrong_scope:
        raise no_such_path()
    return resource


def _write_of(
    store: ObjectStore,
    resource: Resource,
    key: Key,
    request: Request,
    info: RequestInfo,
    user: User,
) -> Write:
    """Return the write of a request; without fieldManager, the user agent writes.

    An apply must name its manager itself.
    """
    dry_run = info.query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        message = f'Unsupported value: "{dry_run}"'
        raise invalid("CreateOptions", "", [("FieldValueNotSupported", message, "dryRun")])
    is_apply = request.content_type == APPLY_PATCH
    agent = "" if is_apply else request.headers.get("user-agent", "unknown")
    return Write(
        store,
        resource,
        key,
        manager=info.query.get("fieldManager", "") or agent.split("/", maxsplit=1)[0],
        subresource=info.subresource,
        is_dry_run=bool(dry_run),
        is_forced=info.query.get("force", "") in _TRUE,
        user=user,
    )


def _quoted(text: str) -> str:
    """Return a warning as a header carries it: on one line, quotes and backslashes escaped."""
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
