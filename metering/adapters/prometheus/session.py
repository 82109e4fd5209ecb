"""One HTTP conversation with a Prometheus: every doubt about an answer is a refusal of it.

`custom_query` of prometheus-api-client hands out only the rows of an answer, and only once all of
it is in memory, so a response hook of a session of ours puts in their place a stream that tells
warnings, the type of the result and a digest of the body too.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import BaseAdapter
from urllib3 import Retry

from metering.adapters.prometheus.body import Answer
from metering.adapters.prometheus.guard import GuardedAdapter, Network
from tenants.domain.errors import SourceUnavailableError

CONNECT_SECONDS_MAX: Final = 5
READ_SECONDS_MAX: Final = 30
ANSWER_SECONDS_MAX: Final = 60
"""A body that drips slower than this is given up, however alive its connection is."""
ANSWER_BYTES_MAX: Final = 512 * 1024 * 1024
"""An hour of 10,000 pods at a scrape of 30 s is 32 MB of sights and, with their devices, 68 MB of
device samples. Nothing of this size is ever in memory; the limit is on what a server may send."""
CHUNK_BYTES: Final = 256 * 1024
RETRIES_MAX: Final = 1
"""The window itself is tried again with growing pauses, so one more try is enough here."""
_REASONS: Final[Mapping[int, str]] = {
    400: "query_refused",
    401: "unauthorized",
    403: "unauthorized",
    422: "query_refused",
    429: "throttled",
}
_BROKEN_OFF: Final = (
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)


class QuerySession(requests.Session):
    """A session that follows nobody, reads no environment and returns only sound answers."""

    def __init__(self, networks: Sequence[Network], *, ca_bundle: str = "") -> None:
        super().__init__()
        self.trust_env = False
        self._presented: frozenset[str] = frozenset()
        self.verify = ca_bundle or True
        # Compressing costs Prometheus twice the time of the query, and the size cap would not
        # bound what a small body unpacks to.
        self.headers["Accept-Encoding"] = "identity"
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        # Neither a read nor a redirect is ever repeated; a busy proxy gets a second chance.
        retry = Retry(
            total=None,
            connect=RETRIES_MAX,
            read=False,
            redirect=False,
            status=RETRIES_MAX,
            other=0,
            status_forcelist=(502, 503, 504),
            backoff_factor=0.2,
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        adapter = GuardedAdapter(retry, networks)
        self.mount("http://", adapter)
        self.mount("https://", adapter)
        self.hooks["response"] = [checked]

    def present(self, headers: Mapping[str, str]) -> None:
        """Send these headers from now on, instead of those that were given before."""
        for name in self._presented - headers.keys():
            del self.headers[name]
        self.headers.update(headers)
        self._presented = frozenset(headers)

    def mount(self, prefix: str | bytes, adapter: BaseAdapter) -> None:
        """Mount ours only: the library would put its own adapter and retries over it."""
        if isinstance(adapter, GuardedAdapter):
            super().mount(prefix, adapter)

    def request(self, method: str, url: str, **kwargs: Any) -> requests.Response:  # type: ignore[override]  # noqa: ANN401 - Passed through.
        """Ask, with our timeouts, without redirects and without reading the body unbounded."""
        kwargs["timeout"] = (CONNECT_SECONDS_MAX, READ_SECONDS_MAX)
        return super().request(method, url, allow_redirects=False, stream=True, **kwargs)


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

    def ask(self, query: str, *, at_seconds: int) -> Answer:
        """Return the answer to one instant query; its body arrives while its rows are read.

        Args:
            query: PromQL out of `queries`.
            at_seconds: Time of the query, Unix seconds.

        Raises:
            SourceUnavailableError: No answer, or one that cannot be believed.
        """
        parameters = {
            "time": str(at_seconds),
            "timeout": f"{READ_SECONDS_MAX}s",
            "partial_response": "false",  # Thanos would answer with what it has otherwise.
        }
        try:
            answer = self._client.custom_query(query, params=parameters)
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
        assert isinstance(answer, Answer)  # noqa: S101 - The hook made it; tells the type.
        return answer


class _StreamedResponse(requests.Response):
    """A response whose body is an answer that is still to be read."""

    payload: Mapping[str, Any]

    def json(self, **_: Any) -> Any:  # noqa: ANN401 - As inherited.
        return self.payload


def checked(response: requests.Response, *_: object, **__: object) -> requests.Response:
    """Return the response with its body as an answer, or refuse it; the hook of every request.

    Raises:
        SourceUnavailableError: The status is not that of an answer.
    """
    try:
        _check_status(response)
    except SourceUnavailableError:
        response.close()
        raise
    streamed = _StreamedResponse()
    streamed.status_code = response.status_code
    streamed.payload = {"data": {"result": Answer(_received(response))}}
    return streamed


def _check_status(response: requests.Response) -> None:
    """Refuse all but 200; the body is not repeated, since it may hold anybody's words."""
    status = response.status_code
    if status == requests.codes.ok:
        return
    reason = _REASONS.get(status, "http_error")
    if requests.codes.multiple_choices <= status < requests.codes.bad_request:
        reason = "redirected"
    if status >= requests.codes.server_error:
        reason = "server_error"
    raise SourceUnavailableError(f"Prometheus answered with HTTP status {status}.", reason=reason)


def _received(response: requests.Response) -> Iterator[bytes]:
    """Yield the body as it arrives, and let go of the connection however that ends."""
    give_up_at = time.monotonic() + ANSWER_SECONDS_MAX
    size_bytes = 0
    try:
        for chunk in response.iter_content(CHUNK_BYTES):
            size_bytes += len(chunk)
            if size_bytes > ANSWER_BYTES_MAX:
                raise SourceUnavailableError(
                    f"The answer is larger than {ANSWER_BYTES_MAX} bytes.", reason="too_large"
                )
            if time.monotonic() > give_up_at:
                raise SourceUnavailableError("The answer comes too slowly.", reason="timeout")
            yield chunk
    except _BROKEN_OFF as error:
        raise SourceUnavailableError("The answer breaks off.", reason="truncated") from error
    except requests.ConnectionError as error:
        raise SourceUnavailableError("The answer stopped coming.", reason="timeout") from error
    finally:
        response.close()


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
