"""Calls of a cluster's API: plain JSON over the official client's connections and credentials.

Custom and core resources use the same calls. An error response carries its Status; without a
response, `SourceUnavailableError` is raised.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from http import HTTPStatus
from threading import Lock
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from kubernetes import client

from quotas.protocols import EnforcementEndpoint, QuotaConflictError
from tenants.adapters.kubernetes_credentials import configuration_of, guarded_client
from tenants.domain.errors import SourceUnavailableError

FIELD_MANAGER: Final = "gpu-ledger"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Without it the same call silently becomes a strategic merge patch."""
TIMEOUT_SECONDS: Final = (5, 10)
"""To connect, and to read."""
CONNECTIONS_MAX: Final = 32
"""Per cluster; more than the parallel calls of one worker."""
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
        self._clients: dict[EnforcementEndpoint, client.ApiClient] = {}
        self._lock = Lock()

    def get(self, endpoint: EnforcementEndpoint, path: str) -> JSON:
        """Return the value at a path.

        Raises:
            ClusterRefusalError: The server refused.
            SourceUnavailableError: It did not answer.
        """
        return self._ask(endpoint, "GET", path, None)

    def apply(self, endpoint: EnforcementEndpoint, path: str, body: JSON) -> JSON:
        """Apply an object server-side as our own manager, never by force; return what it became.

        Raises:
            ClusterRefusalError: The server refused.
            SourceUnavailableError: It did not answer.
        """
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "false"})
        return self._ask(endpoint, "PATCH", f"{path}?{query}", body)

    def _ask(
        self, endpoint: EnforcementEndpoint, method: str, path: str, body: JSON | None
    ) -> JSON:
        made = self._client(endpoint)
        headers = {"Accept": "application/json"}
        made.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        if body is not None:
            headers["Content-Type"] = APPLY_PATCH
        try:
            answer = made.rest_client.request(  # type: ignore[no-untyped-call]
                method,
                f"{made.configuration.host}{path}",
                headers=headers,
                body=None if body is None else json.dumps(body),
                _request_timeout=self._timeout,
            )
            raw = answer.read()
        except urllib3.exceptions.HTTPError as error:
            raise _unanswered(error, endpoint.slug) from error
        except ValueError:
            raise unsendable(endpoint.slug) from None  # The cause may show the token.
        if answer.status >= HTTPStatus.BAD_REQUEST:
            if answer.status == HTTPStatus.UNAUTHORIZED:
                # The next attempt reads the credentials again, in case they were rotated.
                self._discard(endpoint)
            raise ClusterRefusalError(int(answer.status), _document(raw))
        document = _document(raw)
        if not document:
            # Never taken for "nothing is there".
            raise SourceUnavailableError(
                f"Cluster {endpoint.slug} did not answer as an API server does.",
                reason="bad_answer",
            )
        return document

    def _client(self, endpoint: EnforcementEndpoint) -> client.ApiClient:
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


def conflict_of(error: ClusterRefusalError, what: str) -> QuotaConflictError:
    """Return the conflict of a refusal that names managers."""
    return QuotaConflictError(
        f"{what} is also managed by {', '.join(error.managers)}.", managers=error.managers
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


def _document(raw: bytes) -> JSON:
    """Return a JSON object; empty when a proxy answered in the server's stead."""
    try:
        document = json.loads(raw or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
