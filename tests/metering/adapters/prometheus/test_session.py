"""The session: who is asked, how long, how often, and through whom."""

import json
import socket
from datetime import timedelta

import pytest

from metering.adapters.prometheus import PrometheusUsageSource, session
from tenants.domain.errors import SourceUnavailableError
from tests.metering.adapters.prometheus.canned import (
    HOUR,
    Reply,
    World,
    answer,
    observe,
    serving,
    sound_world,
    target_of,
)

OK = json.dumps(answer([], "matrix")).encode()


def whole(reply: Reply) -> World:
    return World(sights=reply)


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
    monkeypatch.setattr(session, "READ_SECONDS_MAX", 0.05)

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(whole(reply))

    assert refusal.value.reason == "timeout"


def test_an_answer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER_SECONDS_MAX", -1)

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(whole(Reply(OK)))

    assert refusal.value.reason == "timeout"


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


def _observe(url: str) -> None:
    PrometheusUsageSource().observe(
        target_of(url),
        start_at=HOUR,
        end_at=HOUR + timedelta(hours=1),
        as_of=HOUR + timedelta(hours=2),
    )
