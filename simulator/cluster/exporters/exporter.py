"""A live exporter of simulated clusters, for a real Prometheus to scrape.

`GET /<cluster>/kube-state-metrics/metrics` and `GET /<cluster>/dcgm/metrics` on 127.0.0.1 answer
for the present moment. The scenario grows as time passes: it is made anew, some days further,
before its end is near.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self

from simulator.cluster.exporters.exposition import ClusterExposition
from simulator.cluster.exporters.object_series import QuotaStatus
from simulator.cluster.exporters.scraping import DEVICE_PATH, OBJECT_PATH
from simulator.cluster.scenario import Scenario

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
GROWTH: Final = timedelta(days=3)
MARGIN: Final = timedelta(days=1)
"""A scenario is grown when less than this is left: pods may be created before they are seen."""
REQUEST_TIMEOUT_SECONDS: Final = 10
_PATH_PARTS: Final = 3
_POLL_SECONDS: Final = 0.05
"""How soon a stop is noticed."""


class GrowingScenario:
    """A scenario that is always true for the present, grown from its own factory.

    Args:
        make: Returns the scenario that is true until a moment; a later moment adds pods and
            changes none.
    """

    def __init__(self, make: Callable[[datetime], Scenario]) -> None:
        """Nothing is made yet."""
        self._make = make
        self._lock = threading.Lock()
        self._until: datetime | None = None
        self._expositions: Mapping[str, ClusterExposition] = {}

    def expositions(self, at: datetime) -> Mapping[str, ClusterExposition]:
        """Return every cluster's exposition, by slug, true for a moment."""
        with self._lock:
            if self._until is None or at + MARGIN > self._until:
                self._until = at + MARGIN + GROWTH
                scenario = self._make(self._until)
                self._expositions = {
                    cluster.slug: ClusterExposition(cluster) for cluster in scenario.clusters
                }
            return self._expositions


class LiveExporter:
    """An HTTP server on a free port of 127.0.0.1; use it as a context.

    Args:
        scenario: The scenario to export.
        clock: Returns the present moment, aware UTC.
        port: The port to listen on; 0 for a free one.
        quotas: Returns a cluster's present quotas; none by default.
    """

    def __init__(
        self,
        scenario: GrowingScenario,
        *,
        clock: Callable[[], datetime],
        port: int = 0,
        quotas: Callable[[str], Iterable[QuotaStatus]] | None = None,
    ) -> None:
        """Bind the port; nothing is answered before `start`."""
        self._scenario = scenario
        self._clock = clock
        self._quotas = quotas
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start answering."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop answering."""
        self.stop()

    @property
    def port(self) -> int:
        """Return the port it listens on."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """Return "host:port", as a scrape configuration names it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server in its own thread."""
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_POLL_SECONDS,),
            name="live-exporter",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and give the port back."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def answer(self, path: str) -> str | None:
        """Return what a path answers now; None when nothing is there."""
        parts = path.split("?", maxsplit=1)[0].strip("/").split("/")
        if len(parts) != _PATH_PARTS or parts[2] != "metrics":
            return None
        at = self._clock()
        exposition = self._scenario.expositions(at).get(parts[0])
        if exposition is None:
            return None
        if parts[1] == DEVICE_PATH:
            return exposition.dcgm_text(at)
        if parts[1] == OBJECT_PATH:
            quotas = self._quotas(parts[0]) if self._quotas else ()
            return exposition.kube_state_metrics_text(at, quotas)
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            """Answers one scrape."""

            protocol_version = "HTTP/1.1"
            timeout = REQUEST_TIMEOUT_SECONDS

            def do_GET(self) -> None:
                text = answer(self.path)
                status = HTTPStatus.OK if text is not None else HTTPStatus.NOT_FOUND
                body = (text if text is not None else "Nothing is exported here.\n").encode()
                self.send_response(status)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing: there is a scrape every few seconds."""

        return Handler
