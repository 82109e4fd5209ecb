"""One conversation with an API server: every failed response gets its own reason code."""

import socket
from collections.abc import Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from metering.protocols.watch import WatchExpiredError, WatchTarget
from tenants.adapters.kubernetes_credentials import configuration_of, guarded_rest
from tenants.domain.errors import SourceUnavailableError

CONNECT_SECONDS_MAX: Final = 5
RETRY_AFTER_SECONDS_MAX: Final = 300
"""A longer Retry-After of a server is cut to this."""
KEEPALIVE: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A server that disappeared is noticed within half a minute."""
_REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not_served",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}


class ApiSession:
    """Questions to one cluster's API, with the credentials of the moment; use it as a context.

    Args:
        target: The cluster.
        read_seconds: How long the server may be silent before it counts as stalled.

    Raises:
        SourceUnavailableError: `credentials_missing`.
    """

    def __init__(self, target: WatchTarget, *, read_seconds: float) -> None:
        """Read the credentials; nothing is sent yet."""
        configuration = configuration_of(
            slug=target.slug, url=target.kubernetes_url, reference=target.credential_reference
        )
        configuration.socket_options = [*HTTPConnection.default_socket_options, *KEEPALIVE]
        self._slug = target.slug
        self._host = str(configuration.host).rstrip("/")
        self._read_seconds = read_seconds
        self._pools = guarded_rest(configuration).pool_manager
        # Compressing costs both sides time, and a cap on bytes would not bound what they unpack to.
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            self._headers["Authorization"] = token.strip()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        self._pools.clear()

    def get(self, path: str, parameters: Mapping[str, str]) -> BaseHTTPResponse:
        """Return a JSON response of which only the headers have been read.

        Raises:
            WatchExpiredError: 410, the version or the continue token is too old.
            SourceUnavailableError: There is no response, or no usable one.
        """
        try:
            response = self._pools.request(
                "GET",
                f"{self._host}{path}",
                fields=dict(parameters),
                headers=self._headers,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS_MAX, read=self._read_seconds),
                preload_content=False,
                decode_content=False,
                redirect=False,
                retries=False,
            )
        except HTTPError as error:
            raise not_reached(error, self._slug) from error
        except ValueError:
            raise SourceUnavailableError(
                f"The URL or the token of cluster {self._slug} cannot be sent.", reason="bad_target"
            ) from None  # The cause shows the token.
        try:
            _check(response, self._slug)
        except Exception:
            response.close()
            raise
        return response


def not_reached(error: HTTPError, slug: str) -> SourceUnavailableError:
    """Return the error for a request without a response.

    A connection that is not made in time is no slow server: its host is away.
    """
    if isinstance(error, urllib3.exceptions.SSLError):
        return SourceUnavailableError(
            f"The API of cluster {slug} does not prove who it is.", reason="tls_failed"
        )
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return SourceUnavailableError(
            f"The API of cluster {slug} did not answer in time.", reason="timeout"
        )
    return SourceUnavailableError(
        f"The API of cluster {slug} cannot be reached.", reason="unreachable"
    )


def _check(response: BaseHTTPResponse, slug: str) -> None:
    """Refuse all but JSON with 200; a body is not repeated, since it may hold untrusted text."""
    status = response.status
    if status == HTTPStatus.GONE:
        raise WatchExpiredError(f"Cluster {slug} no longer knows this version.")
    if status != HTTPStatus.OK:
        raise SourceUnavailableError(
            f"The API of cluster {slug} answered with HTTP status {status}.",
            reason=_reason(status),
            retry_after_seconds=_retry_after(response),
        )
    kind = response.headers.get("Content-Type", "").split(";", maxsplit=1)[0].strip()
    if kind != "application/json":
        raise SourceUnavailableError(
            f"Something else than the API of cluster {slug} answered.", reason="bad_answer"
        )


def _reason(status: int) -> str:
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return "redirected"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "server_error"
    return _REASONS.get(status, "http_error")


def _retry_after(response: BaseHTTPResponse) -> int:
    text = response.headers.get("Retry-After", "")
    if not text.isascii() or not text.isdigit():
        return 0
    return min(int(text[:9]), RETRY_AFTER_SECONDS_MAX)
