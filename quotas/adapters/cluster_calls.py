"""Calls of a cluster's API: plain JSON over the official client's connections and credentials.

Custom and core resources use the same calls. An error response carries its Status; without a
response, `SourceUnavailableError` is raised.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import urllib3

from quotas.protocols import EnforcementEndpoint, QuotaConflictError
from tenants.domain.errors import SourceUnavailableError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
FIELD_MANAGER: Final = "gpu-ledger"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Without it the same call silently becomes a strategic merge patch."""
JSON_PATCH: Final = "application/json-patch+json"
"""The client turns it into a strategic merge patch as well, unless the body is a list."""
PLAIN: Final = "application/json"
METADATA_LIST: Final = f"{PLAIN};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{PLAIN}"
TIMEOUT_SECONDS: Final = (5, 10)
"""To connect, and to read."""
CONNECTIONS_MAX: Final = 32
"""Per cluster; more than the parallel calls of one worker."""
STALL_SECONDS: Final = 90
"""API servers send a bookmark a minute; a stream that is silent for longer is dead."""
LINE_BYTES_MAX: Final = 4_000_000
"""Of one event; etcd keeps no object larger than 1.5 MB."""
CHUNK_BYTES: Final = 65_536
JSON = dict[str, Any]

_MANAGER = re.compile(r'conflict with "([^"]+)"')
_REASONS: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "namespace_missing",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}


class ClusterRefusalError(Exception):
    """The API server answered, and refused.

    Attributes:
        status: The HTTP status.
        document: The Status object; empty when a proxy answered in its stead.
    """

    def __init__(self, status: int, document: JSON) -> None:
        """Keep what was answered."""
        super().__init__(f"answered with {status}")
        self.status = status
        self.document = document

    @property
    def managers(self) -> tuple[str, ...]:
        """Return the field managers of a conflict; empty when only the resource version changed."""
        causes = (self.document.get("details") or {}).get("causes") or []
        found = {
            name
            for cause in causes
            if cause.get("reason") == "FieldManagerConflict"
            for name in _MANAGER.findall(cause.get("message", ""))
        }
        return tuple(sorted(found))


class ClusterCalls:
    """Connections to clusters, one set per endpoint. Safe to share between threads.

    Args:
        timeout_seconds: To connect, and to read.
        retries: How often a call without a response is repeated; None for urllib3's default.
    """

    def __init__(
        self,
        *,
        timeout_seconds: tuple[Decimal | int, Decimal | int] = TIMEOUT_SECONDS,
        retries: int | None = None,
    ) -> None:
        """Begin without any connection."""
        self._timeout = tuple(float(one) for one in timeout_seconds)
        self._retries = retries
        self._clients: dict[EnforcementEndpoint, ApiClient] = {}
        self._lock = Lock()

    def get(
        self, endpoint: EnforcementEndpoint, path: str, *, has_only_metadata: bool = False
    ) -> JSON:
        """Return the value at a path.

        Args:
            endpoint: Which cluster.
            path: With its query.
            has_only_metadata: Whether objects of a list need no more than their metadata.

        Raises:
            ClusterRefusalError: The server refused.
            SourceUnavailableError: It did not answer.
        """
        accept = METADATA_LIST if has_only_metadata else PLAIN
        return self._ask(endpoint, "GET", path, None, accept=accept)

    def apply(
        self, endpoint: EnforcementEndpoint, path: str, body: JSON, *, is_forced: bool = False
    ) -> JSON:
        """Apply an object server-side as our own manager; return what it became.

        Args:
            endpoint: The cluster.
            path: Of the object.
            body: Our whole intent.
            is_forced: Whether fields of other managers are taken over.

        Raises:
            ClusterRefusalError: The server refused.
            SourceUnavailableError: It did not answer.
        """
        force = "true" if is_forced else "false"
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": force})
        return self._ask(endpoint, "PATCH", f"{path}?{query}", body)

    def review(self, endpoint: EnforcementEndpoint, body: JSON) -> JSON:
        """Return a review of the account's own access; nothing is stored.

        Raises:
            ClusterRefusalError: The server refused.
            SourceUnavailableError: It did not answer.
        """
        return self._ask(endpoint, "POST", ACCESS_REVIEWS, body)

    def read_clock(self, endpoint: EnforcementEndpoint, path: str) -> str:
        """Return the Date header of the answer to a path; "" without one.

        Raises:
            ClusterRefusalError: The server refused.
            SourceUnavailableError: It did not answer.
        """
        answer = self._send(endpoint, "GET", path, None, timeout=self._timeout)
        self._check(endpoint, answer)
        _read(answer, endpoint.slug)
        return str(answer.response.headers.get("Date", ""))

    def patch(self, endpoint: EnforcementEndpoint, path: str, operations: Sequence[JSON]) -> JSON:
        """Change parts of an object that others own as well; return what it became.

        Args:
            endpoint: The cluster.
            path: Of the object.
            operations: A JSON patch.

        Raises:
            ClusterRefusalError: The server refused, or a test among the operations failed.
            SourceUnavailableError: It did not answer.
        """
        query = urlencode({"fieldManager": FIELD_MANAGER})
        return self._ask(endpoint, "PATCH", f"{path}?{query}", list(operations))

    def watch(self, endpoint: EnforcementEndpoint, path: str) -> Iterator[JSON]:
        """Yield the events of a watch until the server ends it.

        Raises:
            ClusterRefusalError: The server refused.
            SourceUnavailableError: It did not answer, or the stream broke.
        """
        timeout = (self._timeout[0], float(STALL_SECONDS))
        answer = self._send(endpoint, "GET", path, None, timeout=timeout)
        try:
            self._check(endpoint, answer)
            for line in _lines(answer.response, endpoint.slug):
                event = _document(line)
                if not event:
                    raise _no_api_server(endpoint.slug)
                yield event
        finally:
            answer.response.close()

    def _ask(
        self,
        endpoint: EnforcementEndpoint,
        method: str,
        path: str,
        body: JSON | list[JSON] | None,
        *,
        accept: str = PLAIN,
    ) -> JSON:
        answer = self._send(endpoint, method, path, body, timeout=self._timeout, accept=accept)
        self._check(endpoint, answer)
        document = _document(_read(answer, endpoint.slug))
        if not document:
            # Never taken for "nothing is there".
            raise _no_api_server(endpoint.slug)
        return document

    def _send(
        self,
        endpoint: EnforcementEndpoint,
        method: str,
        path: str,
        body: JSON | list[JSON] | None,
        *,
        timeout: tuple[float, ...],
        accept: str = PLAIN,
    ) -> Any:  # noqa: ANN401 - The client's response has no types.
        """Return a response of which only the headers have been read."""
        made = self._client(endpoint)
        headers = {"Accept": accept}
        made.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        if body is not None:
            patch_type = JSON_PATCH if isinstance(body, list) else APPLY_PATCH
            headers["Content-Type"] = PLAIN if method == "POST" else patch_type
        is_text = isinstance(body, dict) and method != "POST"
        sent = json.dumps(body) if is_text else body
        try:
            return made.rest_client.request(  # type: ignore[no-untyped-call]
                method,
                f"{made.configuration.host}{path}",
                headers=headers,
                body=sent,
                _request_timeout=timeout,
            )
        except urllib3.exceptions.HTTPError as error:
            raise _unanswered(error, endpoint.slug) from error
        except ValueError:
            raise unsendable(endpoint.slug) from None  # The cause may show the token.

    def _check(self, endpoint: EnforcementEndpoint, answer: Any) -> None:  # noqa: ANN401 - As above.
        if answer.status < HTTPStatus.BAD_REQUEST:
            return
        if answer.status == HTTPStatus.UNAUTHORIZED:
            # The next attempt reads the credentials again, in case they were rotated.
            self._discard(endpoint)
        raise ClusterRefusalError(int(answer.status), _document(_read(answer, endpoint.slug)))

    def _client(self, endpoint: EnforcementEndpoint) -> "ApiClient":
        # It takes a fifth of a second to load, for which the admission server does not wait.
        from tenants.adapters.kubernetes_credentials import (  # noqa: PLC0415 - As just said.
            configuration_of,
            guarded_client,
        )

        with self._lock:
            if endpoint not in self._clients:
                configuration = configuration_of(
                    slug=endpoint.slug,
                    url=endpoint.kubernetes_url,
                    reference=endpoint.credential_reference,
                )
                configuration.connection_pool_maxsize = CONNECTIONS_MAX
                if self._retries is not None:
                    configuration.retries = urllib3.Retry(self._retries)
                self._clients[endpoint] = guarded_client(configuration)
            return self._clients[endpoint]

    def _discard(self, endpoint: EnforcementEndpoint) -> None:
        with self._lock:
            self._clients.pop(endpoint, None)


def unavailable(error: ClusterRefusalError, what: str) -> SourceUnavailableError:
    """Return the error for a refused call on an object, such as "The quota of llm"."""
    status = error.status
    fallback = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "refused"
    sentence = error.document.get("message") or "no reason given"
    return SourceUnavailableError(
        f"{what} was answered with {status}: {sentence}", reason=_REASONS.get(status, fallback)
    )


def unsendable(slug: str) -> SourceUnavailableError:
    """Return the error for a call that cannot be sent."""
    return SourceUnavailableError(
        f"The URL or the token of cluster {slug} cannot be sent.", reason="bad_target"
    )


def conflict_of(
    error: ClusterRefusalError, what: str, *, differences: tuple[str, ...] = ()
) -> QuotaConflictError:
    """Return the conflict of a refusal that names managers, with what differs."""
    sentence = f"{what} is also managed by {', '.join(error.managers)}"
    details = f": {', '.join(differences)}" if differences else ""
    return QuotaConflictError(
        f"{sentence}{details}.", managers=error.managers, differences=differences
    )


def other_managers(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the other field managers of an object's spec, in alphabetical order.

    Managers that write only the status, as controllers do, are left out.
    """
    entries = (obj.get("metadata") or {}).get("managedFields") or []
    found = {
        entry["manager"]
        for entry in entries
        if entry.get("manager") != FIELD_MANAGER and "f:spec" in (entry.get("fieldsV1") or {})
    }
    return tuple(sorted(found))


def _unanswered(error: urllib3.exceptions.HTTPError, slug: str) -> SourceUnavailableError:
    """Return what it means that nothing came back; a refused connection is no timeout."""
    is_refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not is_refused:
        return SourceUnavailableError(f"Cluster {slug} did not answer in time.", reason="timeout")
    return SourceUnavailableError(f"Cluster {slug} cannot be reached.", reason="unreachable")


def _read(answer: Any, slug: str) -> bytes:  # noqa: ANN401 - The client's response has no types.
    try:
        body: bytes = answer.read()
    except urllib3.exceptions.HTTPError as error:
        raise _unanswered(error, slug) from error
    return body


def _lines(response: Any, slug: str) -> Iterator[bytes]:  # noqa: ANN401 - As above.
    """Yield every line of a stream as soon as it is whole."""
    buffer = bytearray()
    try:
        while chunk := response.read1(CHUNK_BYTES):
            *whole, rest = (bytes(buffer) + chunk).split(b"\n")
            buffer = bytearray(rest)
            yield from filter(bytes.strip, whole)
            if len(buffer) > LINE_BYTES_MAX:
                raise _no_api_server(slug)
    except urllib3.exceptions.HTTPError as error:
        raise SourceUnavailableError(
            f"The stream of cluster {slug} broke off.", reason="truncated"
        ) from error


def _no_api_server(slug: str) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"Cluster {slug} did not answer as an API server does.", reason="bad_answer"
    )


def _document(raw: bytes) -> JSON:
    """Return a JSON object; empty when a proxy answered in the server's stead."""
    try:
        document = json.loads(raw or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
