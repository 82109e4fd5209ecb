"""One HTTP session with a Prometheus: it rejects every response that fails a check.

`custom_query` of prometheus-api-client returns only the rows of a response, and only once all of it
is in memory. A response hook of our session returns a stream instead, with warnings, the result
type and a digest of the body.
"""

import contextlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import Retry
from urllib3.exceptions import HTTPError, ReadTimeoutError

from metering.adapters.prometheus.body import QueryResponse
from tenants.adapters.guarded import Network, guard_connections
from tenants.domain.errors import SourceUnavailableError

CONNECT_SECONDS_MAX: Final = 5
QUERY_SECONDS_MAX: Final = 45
"""For one query, from the request to the end of its response. Prometheus gets the same timeout, so
that it stops evaluating when the client has gone."""
ANSWER_BYTES_MAX: Final = 512 * 1024 * 1024
"""An hour of 10,000 pods at a scrape of 30 s is 32 MB of pod samples and 68 MB of device samples.
The body is never in memory as a whole; this limits what a server may send."""
CHUNK_BYTES: Final = 256 * 1024
RUNTIME_PATH: Final = "/api/v1/status/runtimeinfo"
BUILD_PATH: Final = "/api/v1/status/buildinfo"
RUNTIME_BYTES_MAX: Final = 64 * 1024
RETENTION_SECONDS_MAX: Final = 100 * 366 * 86_400
_NOT_A_PROMETHEUS: Final = frozenset({400, 404, 405, 422, 501})
"""Statuses of servers without such a path."""
_RETENTION: Final = re.compile(
    r"(?:(?P<y>\d{1,6})y)?(?:(?P<w>\d{1,6})w)?(?:(?P<d>\d{1,6})d)?(?:(?P<h>\d{1,6})h)?"
    r"(?:(?P<m>\d{1,6})m)?(?:(?P<s>\d{1,9})s)?",
    re.ASCII,
)
_UNIT_SECONDS: Final = {
    "y": 365 * 86_400,
    "w": 7 * 86_400,
    "d": 86_400,
    "h": 3_600,
    "m": 60,
    "s": 1,
}
RETRIES_MAX: Final = 1
"""The window itself is tried again with growing pauses, so one more try is enough here."""
BUSY_STATUSES: Final = frozenset({502, 503, 504})
BUSY_PAUSE_SECONDS: Final = 0.2
ERROR_BYTES_MAX: Final = 1_024
TIMED_OUT: Final = b'"errorType":"timeout"'
"""The error type Prometheus returns with 503 when it stopped a query after its `timeout`. Source:
https://prometheus.io/docs/prometheus/latest/querying/api/ and web/api/v1/api.go."""
_REASONS: Final[Mapping[int, str]] = {
    400: "query_refused",
    401: "unauthorized",
    403: "unauthorized",
    422: "query_refused",
    429: "throttled",
}


_Send = Callable[..., Any]
"""One of the library's queries, bound to all but its parameters."""


class QuerySession(requests.Session):
    """A session that follows no redirects, reads no environment and checks every response."""

    def __init__(self, networks: Sequence[Network], *, ca_bundle: str = "") -> None:
        super().__init__()
        self.trust_env = False
        self._presented: frozenset[str] = frozenset()
        self.verify = ca_bundle or True
        # Compressing costs Prometheus twice the time of the query, and the size cap would not
        # bound what a small body unpacks to.
        self.headers["Accept-Encoding"] = "identity"
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        # Neither a read nor a redirect is ever repeated; `Conversation` repeats what was busy.
        retry = Retry(
            total=None,
            connect=RETRIES_MAX,
            read=False,
            redirect=False,
            status=False,
            other=0,
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        adapter = GuardedAdapter(retry, networks)
        self.mount("http://", adapter)
        self.mount("https://", adapter)
        self.give_up_at = 0.0
        self.hooks["response"] = [self._checked]

    def present(self, headers: Mapping[str, str]) -> None:
        """Replace the headers of all further requests."""
        for name in self._presented - headers.keys():
            del self.headers[name]
        self.headers.update(headers)
        self._presented = frozenset(headers)

    def mount(self, prefix: str | bytes, adapter: BaseAdapter) -> None:
        """Mount ours only: the library would put its own adapter and retries over it."""
        if isinstance(adapter, GuardedAdapter):
            super().mount(prefix, adapter)

    def request(self, method: str, url: str, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # noqa: ANN401 - Passed through.
        """Send until `give_up_at`, without redirects and without reading the body unbounded."""
        left = max(0.001, self.give_up_at - time.monotonic())
        kwargs["timeout"] = (min(CONNECT_SECONDS_MAX, left), left)
        return super().request(method, url, allow_redirects=False, stream=True, **kwargs)

    def _checked(self, response: requests.Response, *_: object, **__: object) -> requests.Response:
        """Return the response with its body as a stream, or reject it; the hook of every request.

        Raises:
            SourceUnavailableError: The status is not 200.
        """
        try:
            _check_status(response)
        except SourceUnavailableError:
            response.close()
            raise
        streamed = _StreamedResponse()
        streamed.status_code = response.status_code
        received = _received(response, give_up_at=self.give_up_at)
        streamed.payload = {"data": {"result": QueryResponse(received)}}
        return streamed


class GuardedAdapter(HTTPAdapter):
    """requests' transport, with our retries and over guarded connections only."""

    def __init__(self, retry: Retry, networks: Sequence[Network]) -> None:
        """Keep what is forbidden, then build the pools."""
        self._networks = tuple(networks)
        super().__init__(max_retries=retry)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - As inherited.
        """Build requests' pool manager, then have it make guarded connections."""
        super().init_poolmanager(*args, **kwargs)
        guard_connections(self.poolmanager, self._networks)


class Conversation:
    """Queries to one Prometheus."""

    def __init__(self, url: str, networks: Sequence[Network], *, ca_bundle: str = "") -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: Base URL.
            networks: What may not be reached.
            ca_bundle: File of certificate authorities to trust instead of the public ones.

        Raises:
            SourceUnavailableError: `bad_target` when this is no URL of a server.
        """
        self._session = QuerySession(networks, ca_bundle=ca_bundle)
        self._client = PrometheusConnect(url=_checked_url(url), session=self._session)

    def present(self, headers: Mapping[str, str]) -> None:
        """Send these headers with every query from now on, and no others of before."""
        self._session.present(headers)

    def ask(self, query: str, *, at_seconds: int, give_up_at: float = math.inf) -> QueryResponse:
        """Return the response to one instant query; its body arrives while its rows are read.

        Args:
            query: PromQL out of `queries`.
            at_seconds: Time of the query, Unix seconds.
            give_up_at: When the time for all queries is used up, by the monotonic clock.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        return self._ask(
            partial(self._client.custom_query, query),
            {"time": str(at_seconds)},
            give_up_at=give_up_at,
        )

    def ask_steps(self, query: str, steps: range, *, give_up_at: float) -> QueryResponse:
        """Return the response to one query at several times, in Unix seconds; see `ask`."""
        first, last = (datetime.fromtimestamp(at, UTC) for at in (steps[0], steps[-1]))
        return self._ask(
            partial(self._client.custom_query_range, query, first, last, str(steps.step)),
            {},
            give_up_at=give_up_at,
        )

    def _ask(
        self, send: _Send, parameters: Mapping[str, str], *, give_up_at: float
    ) -> QueryResponse:
        for _ in range(RETRIES_MAX):
            try:
                return self._ask_once(send, parameters, give_up_at=give_up_at)
            except _BusyError:
                time.sleep(BUSY_PAUSE_SECONDS)
        return self._ask_once(send, parameters, give_up_at=give_up_at)

    def _ask_once(
        self, send: _Send, parameters: Mapping[str, str], *, give_up_at: float
    ) -> QueryResponse:
        now = time.monotonic()
        if give_up_at - now < 1:
            raise SourceUnavailableError(
                "Prometheus took too long for all of the hour's queries together.",
                reason="timeout",
            )
        self._session.give_up_at = min(now + QUERY_SECONDS_MAX, give_up_at)
        limits = {
            "timeout": f"{math.ceil(self._session.give_up_at - now)}s",
            "partial_response": "false",  # Thanos would answer with what it has otherwise.
        }
        with _as_unavailable():
            answer = send(params={**parameters, **limits})
        assert isinstance(answer, QueryResponse)  # noqa: S101 - The hook made it; narrows the type.
        return answer

    def retention(self) -> str:
        """Return the retention a Prometheus reports; "" for any other server.

        Raises:
            SourceUnavailableError: No response, or a rejected one.
        """
        return str(self._status(RUNTIME_PATH)[0].get("storageRetention", ""))

    def build(self) -> tuple[str, str]:
        """Return a server's version and the Date of its answer; "" for what it does not say.

        Raises:
            SourceUnavailableError: No response, or a rejected one.
        """
        found, date = self._status(BUILD_PATH)
        return str(found.get("version", "")), date

    def _status(self, path: str) -> tuple[Mapping[str, Any], str]:
        """Return the data at a path, empty from servers without it, and the Date of the answer."""
        self._session.give_up_at = time.monotonic() + QUERY_SECONDS_MAX
        with _as_unavailable():
            response = self._session.request(
                "GET",
                f"{self._client.url}{path}",
                hooks={"response": [lambda found, *_, **__: found]},
            )
            with contextlib.closing(response):
                date = response.headers.get("Date", "")
                if response.status_code in _NOT_A_PROMETHEUS:
                    return {}, date
                _check_status(response)
                text = response.raw.read(RUNTIME_BYTES_MAX)
        try:
            found = json.loads(text)["data"]
        except (ValueError, KeyError, TypeError):
            return {}, date
        return found if isinstance(found, dict) else {}, date


def read_retention(text: str) -> timedelta | None:
    """Return a retention such as "15d" or "1y or 50GB"; None where time has no part in it."""
    found = _RETENTION.fullmatch(text.partition(" ")[0])
    seconds = 0
    if found is not None:
        seconds = sum(
            int(amount) * _UNIT_SECONDS[unit] for unit, amount in found.groupdict("0").items()
        )
    return timedelta(seconds=min(seconds, RETENTION_SECONDS_MAX)) if seconds else None


@contextlib.contextmanager
def _as_unavailable() -> Iterator[None]:
    """Convert an exception of the library into the reason a source is unavailable."""
    try:
        yield
    except requests.Timeout as error:
        raise SourceUnavailableError(
            "Prometheus did not answer in time.", reason="timeout"
        ) from error
    except requests.exceptions.SSLError as error:
        raise SourceUnavailableError(
            "Prometheus does not prove who it is.", reason="tls_failed"
        ) from error
    except (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema) as error:
        raise SourceUnavailableError(
            "The URL of Prometheus cannot be used.", reason="bad_target"
        ) from error
    except requests.RequestException as error:
        raise SourceUnavailableError(
            "Prometheus cannot be reached.", reason="unreachable"
        ) from error


class _BusyError(SourceUnavailableError):
    """The server, or a proxy before it, is busy: the same query may succeed a moment later."""


class _StreamedResponse(requests.Response):
    """A response whose body is still to be read."""

    payload: Mapping[str, Any]

    def json(self, **_: Any) -> Any:  # noqa: ANN401 - As inherited.
        return self.payload


def _check_status(response: requests.Response) -> None:
    """Refuse all but 200; the body is not repeated, since it may hold untrusted text."""
    status = response.status_code
    if status == requests.codes.ok:
        return
    reason = _REASONS.get(status, "http_error")
    if requests.codes.multiple_choices <= status < requests.codes.bad_request:
        reason = "redirected"
    if status >= requests.codes.server_error:
        reason = "server_error"
    text = f"Prometheus answered with HTTP status {status}."
    if status == requests.codes.service_unavailable and TIMED_OUT in _error_of(response):
        raise SourceUnavailableError(text, reason="query_timeout")
    if status in BUSY_STATUSES:
        raise _BusyError(text, reason=reason)
    raise SourceUnavailableError(text, reason=reason)


def _error_of(response: requests.Response) -> bytes:
    """Return the beginning of an error's body, which is only searched and never repeated."""
    try:
        return next(response.iter_content(ERROR_BYTES_MAX), b"")
    except requests.RequestException:
        return b""


def _received(response: requests.Response, *, give_up_at: float) -> Iterator[bytes]:
    """Yield the body as it arrives, and release the connection in any case."""
    size_bytes = 0
    try:
        # `iter_content` would wait for a whole chunk, however slowly its bytes arrive.
        while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
            size_bytes += len(chunk)
            if size_bytes > ANSWER_BYTES_MAX:
                raise SourceUnavailableError(
                    f"The answer is larger than {ANSWER_BYTES_MAX} bytes.", reason="too_large"
                )
            left = give_up_at - time.monotonic()
            if left <= 0:
                raise SourceUnavailableError("The answer comes too slowly.", reason="timeout")
            _wait_at_most(response, left)
            yield chunk
    except ReadTimeoutError as error:
        raise SourceUnavailableError("The answer stopped coming.", reason="timeout") from error
    except (HTTPError, OSError) as error:
        raise SourceUnavailableError("The answer breaks off.", reason="truncated") from error
    finally:
        response.close()


def _wait_at_most(response: requests.Response, seconds: float) -> None:
    """Let the next read end in time; a connection that is closed afterwards keeps its first limit.

    Reading the rows in between takes time too, so the limit may be up a moment earlier.
    """
    waiting = getattr(response.raw.connection, "sock", None)
    if waiting is not None:
        waiting.settimeout(seconds)


def _checked_url(url: str) -> str:
    if not _is_plain_url(url):
        raise SourceUnavailableError(
            "The URL of Prometheus must be http or https, with a host and without credentials,"
            " query or fragment.",
            reason="bad_target",
        )
    return url.rstrip("/")


def _is_plain_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_bare = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in {"http", "https"} and has_place and is_bare
