"""The session: who is asked, how long, how often, and through whom."""

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from metering.adapters.prometheus import PrometheusUsageSource, session
from metering.adapters.prometheus.session import Conversation, read_retention
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import (
    ASKED_AFTER,
    Reply,
    Row,
    World,
    answer,
    observe,
    serving,
    sound_world,
    target_of,
)

OK = json.dumps(answer([], "matrix")).encode()


def whole(reply: Reply) -> World:
    return World(observations=reply)


def test_a_busy_proxy_gets_one_more_try_and_nobody_else_does() -> None:
    busy, failing = whole(Reply(b"", 503)), whole(Reply(b"", 500))

    for world in (busy, failing):
        with pytest.raises(SourceUnavailableError):
            observe(world)

    assert (len(busy.asked), len(failing.asked)) == (2, 1)


def test_a_redirect_is_not_followed() -> None:
    world = whole(Reply(b"", 307, {"Location": "/api/v1/query?query=up"}))

    with pytest.raises(SourceUnavailableError):
        observe(world)

    assert len(world.asked) == 1


def test_an_answer_larger_than_allowed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER_BYTES_MAX", 1000)

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(whole(Reply(b" " * 1001)))

    assert refusal.value.reason == "too_large"


@pytest.mark.parametrize(
    "reply",
    [Reply(OK, silence_seconds=0.3), Reply(OK, pause_seconds=0.3)],
    ids=["no headers", "no body"],
)
def test_an_answer_that_does_not_come_is_given_up(
    monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setattr(session, "QUERY_SECONDS_MAX", 0.05)

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(whole(reply))

    assert refusal.value.reason == "timeout"


def test_an_answer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "QUERY_SECONDS_MAX", 0.3)
    began = time.monotonic()

    with dripping() as url, pytest.raises(SourceUnavailableError) as refusal:
        _observe(url)

    assert refusal.value.reason == "timeout"
    assert time.monotonic() - began < DRIP_SECONDS / 2


DRIP_SECONDS = 10


@contextmanager
def dripping() -> Iterator[str]:
    """Serve one answer, a byte every 20 ms, on a connection that is always alive."""

    def serve() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            for _ in range(DRIP_SECONDS * 50):
                time.sleep(0.02)
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_all_queries_share_one_budget_and_each_is_given_what_is_left() -> None:
    world = sound_world()
    whole_answer = Reply(json.dumps(answer(sound_rows(world.observations), "matrix")).encode())
    world.observations = replace(whole_answer, silence_seconds=1.5)

    with serving(world) as url, pytest.raises(SourceUnavailableError) as refusal:
        _observe(url, seconds_max=2.2)

    assert refusal.value.reason == "timeout"
    assert [one["timeout"] for one in world.asked] == ["3s"]


def sound_rows(rows: list[Row] | Reply) -> list[Row]:
    assert isinstance(rows, list)
    return rows


class Overloaded(World):
    """A Prometheus that gives up the first query of all over its whole range."""

    def reply(self, parameters: dict[str, str]) -> Reply:
        """Answer as Prometheus 2.42 does after its own timeout."""
        if parameters["query"].endswith("[4440s]"):
            self.asked.append(parameters)
            text = b'{"status":"error","errorType":"timeout","error":"query timed out"}'
            return Reply(text, 503)
        if parameters["query"].endswith("[2220s]"):
            self.asked.append(parameters)
            asked, rows = int(parameters["time"]), sound_rows(self.observations)
            part = [
                {**row, "values": [one for one in row["values"] if asked - 2220 < one[0] <= asked]}
                for row in rows
            ]
            return Reply(json.dumps(answer(part, "matrix")).encode())
        return super().reply(parameters)


def test_a_query_that_prometheus_gave_up_is_asked_in_halves() -> None:
    world = sound_world()
    busy = Overloaded(observations=world.observations, facts=world.facts)

    with serving(busy) as url:
        divided = PrometheusUsageSource().observe(target_of(url), **ASKED_AFTER)

    whole_one = observe(world)
    assert (divided.pods, divided.nodes, divided.ticks) == (
        whole_one.pods,
        whole_one.nodes,
        whole_one.ticks,
    )
    ranges = [re.findall(r"\[(\d+)s\]$", one["query"]) for one in busy.asked[:3]]
    assert ranges == [["4440"], ["2220"], ["2220"]]


def test_nobody_listening_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(SourceUnavailableError) as refusal:
        _observe(f"http://127.0.0.1:{port}")

    assert refusal.value.reason == "unreachable"


def test_plain_HTTP_where_TLS_is_expected_proves_nothing() -> None:  # noqa: N802 - Names.
    with serving(World()) as url, pytest.raises(SourceUnavailableError) as refusal:
        _observe(url.replace("http:", "https:"))

    assert refusal.value.reason == "tls_failed"


def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert observe(sound_world()).pods != ()


def _observe(url: str, **options: float) -> None:
    PrometheusUsageSource(**options).observe(target_of(url), **ASKED_AFTER)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reported", "seconds"),
    [
        ("15d", 15 * 86_400),
        ("1y or 50GB", 365 * 86_400),
        ("2w3d12h", 17 * 86_400 + 12 * 3_600),
        ("50GB", None),
        ("0s", None),
        ("", None),
        ("for ever", None),
    ],
)
def test_a_retention_is_read_as_prometheus_spells_it(reported: str, seconds: int | None) -> None:
    found = read_retention(reported)

    assert found == (None if seconds is None else timedelta(seconds=seconds))


@contextmanager
def status_page(body: bytes, status: int = 200) -> Iterator[Conversation]:
    """Give a conversation with a server whose status pages all answer this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Conversation(f"http://127.0.0.1:{server.server_address[1]}", ())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_build_has_a_version_and_the_time_of_its_answer() -> None:
    with status_page(b'{"status": "success", "data": {"version": "3.8.0"}}') as asked:
        version, date = asked.build()

    assert version == "3.8.0"
    assert abs(parsedate_to_datetime(date) - datetime.now(UTC)) < timedelta(seconds=30)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no such page", 404),
        (b"not json", 200),
        (b'{"data": ["version"]}', 200),
        (b'{"status": "success"}', 200),
        (b"[]", 200),
    ],
)
def test_a_server_that_says_nothing_of_itself_has_no_version_and_no_retention(
    body: bytes, status: int
) -> None:
    with status_page(body, status) as asked:
        version, date = asked.build()
        retention = asked.retention()

    assert (version, retention) == ("", "")
    assert date


def test_a_status_that_is_refused_is_an_error() -> None:
    with status_page(b"", 401) as asked, pytest.raises(SourceUnavailableError) as refusal:
        asked.build()

    assert refusal.value.reason == "unauthorized"
