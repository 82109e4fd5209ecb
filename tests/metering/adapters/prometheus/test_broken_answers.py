"""A corpus of broken answers: each is refused with a stable reason, and nothing is concluded."""

import json
import socket
from collections.abc import Callable
from datetime import timedelta

import pytest

from metering.adapters.prometheus import PrometheusUsageSource, session
from tenants.domain.errors import SourceUnavailableError
from tests.metering.adapters.prometheus.canned import (
    ASKED,
    END,
    FIRST,
    HOUR,
    START,
    Reply,
    World,
    answer,
    facts_of,
    identity,
    last,
    observe,
    raw,
    request,
    serving,
    sound_world,
    target_of,
    up,
)

OK = json.dumps(answer([], "matrix")).encode()
POD = identity()


def sights(*rows: object) -> World:
    world = sound_world()
    world.sights = [up(), *rows]  # type: ignore[list-item]
    return world


def facts(*rows: object) -> World:
    world = sound_world()
    world.facts = [*facts_of(POD), *rows]  # type: ignore[list-item]
    return world


def whole(reply: Reply) -> World:
    return World(sights=reply)


def body(payload: object) -> World:
    return whole(Reply(json.dumps(payload).encode()))


def valued(value: object, at: object = START) -> World:
    row = request(POD)
    row["values"] = [[at, value]]
    return sights(row)


def scheduled(text: str) -> World:
    world = sound_world()
    world.facts = [
        *facts_of(POD, scheduled=None),
        last("kube_pod_status_scheduled_time", POD, text),
    ]
    return world


BROKEN: dict[str, tuple[Callable[[], World], str]] = {
    "400": (lambda: whole(Reply(b"secret", 400)), "query_refused"),
    "401": (lambda: whole(Reply(b"secret", 401)), "unauthorized"),
    "403": (lambda: whole(Reply(b"secret", 403)), "unauthorized"),
    "404": (lambda: whole(Reply(b"secret", 404)), "http_error"),
    "422 too many samples": (lambda: whole(Reply(b"secret", 422)), "query_refused"),
    "429": (lambda: whole(Reply(b"secret", 429, {"Retry-After": "3600"})), "throttled"),
    "500": (lambda: whole(Reply(b"secret", 500)), "server_error"),
    "503 twice": (lambda: whole(Reply(b"secret", 503, {"Retry-After": "3600"})), "server_error"),
    "204 without a body": (lambda: whole(Reply(b"", 204)), "http_error"),
    "redirect": (
        lambda: whole(Reply(b"", 302, {"Location": "http://169.254.169.254/"})),
        "redirected",
    ),
    "body breaks off": (lambda: whole(Reply(OK[:20], length=len(OK))), "truncated"),
    "JSON breaks off": (lambda: whole(Reply(OK[:-2])), "truncated"),
    "empty body": (lambda: whole(Reply(b"")), "truncated"),
    "HTML login page": (lambda: whole(Reply(b"<html>Sign in</html>")), "truncated"),
    "not UTF-8": (lambda: whole(Reply(b"\xff\xfe\x00")), "truncated"),
    "garbage as gzip": (
        lambda: whole(Reply(b"abc", headers={"Content-Encoding": "gzip"})),
        "truncated",
    ),
    "JSON too deep": (lambda: whole(Reply(b"[" * 100_000)), "truncated"),
    "NaN as a token": (
        lambda: whole(Reply(OK.replace(b"[]", b'[{"metric":{},"values":[[NaN,"1"]]}]'))),
        "truncated",
    ),
    "status error": (
        lambda: body({"status": "error", "errorType": "execution", "error": "x"}),
        "query_failed",
    ),
    "a list": (lambda: body([]), "query_failed"),
    "warnings": (
        lambda: body(answer([], "matrix", warnings=["store 10.1.1.1 is down"])),
        "partial_response",
    ),
    "infos": (lambda: body(answer([], "matrix", infos=["not a counter"])), "partial_response"),
    "isPartial": (lambda: body(answer([], "matrix", isPartial=True)), "partial_response"),
    "no data": (lambda: body({"status": "success"}), "bad_answer"),
    "result null": (
        lambda: body({"status": "success", "data": {"resultType": "matrix", "result": None}}),
        "bad_answer",
    ),
    "vector for matrix": (lambda: body(answer([], "vector")), "wrong_result_type"),
    "scalar for matrix": (lambda: body(answer([], "scalar")), "wrong_result_type"),
    "matrix for vector": (
        lambda: World(facts=Reply(json.dumps(answer([], "matrix")).encode())),
        "wrong_result_type",
    ),
    "row is no object": (lambda: sights("row"), "bad_answer"),
    "row without values": (lambda: sights({"metric": POD}), "bad_answer"),
    "row without samples": (
        lambda: sights({"metric": {"__name__": "up"}, "values": []}),
        "bad_answer",
    ),
    "histogram": (
        lambda: sights({"metric": {"__name__": "up"}, "histograms": [[START, {}]]}),
        "bad_answer",
    ),
    "unknown metric": (lambda: sights(raw("up2", {})), "bad_answer"),
    "label is a number": (
        lambda: sights({"metric": {"__name__": "up", "a": 1}, "values": [[START, "1"]]}),
        "bad_answer",
    ),
    "value is a number": (lambda: valued(1), "bad_answer"),
    "sample of three": (
        lambda: sights({"metric": {"__name__": "up"}, "values": [[START, "1", "2"]]}),
        "bad_answer",
    ),
    "fact of three": (
        lambda: facts({"metric": {"__name__": "kube_pod_info"}, "value": [START, "1", "2"]}),
        "bad_answer",
    ),
    "request without uid": (
        lambda: sights(request({"namespace": "a", "pod": "b"})),
        "bad_answer",
    ),
    "time is text": (lambda: valued("1", str(START)), "bad_answer"),
    "time is null": (lambda: valued("1", None), "bad_answer"),
    "time before the range": (lambda: valued("1", FIRST - 1), "bad_sample"),
    "time after the query": (lambda: valued("1", ASKED + 1), "bad_sample"),
    "time beyond all numbers": (
        lambda: whole(
            Reply(OK.replace(b"[]", b'[{"metric":{"__name__":"up"},"values":[[1e999999999,"1"]]}]'))
        ),
        "bad_sample",
    ),
    "times out of order": (
        lambda: sights(request(POD, times=[START + 60, START])),
        "bad_sample",
    ),
    "time twice": (lambda: sights(request(POD, times=[START, START])), "bad_sample"),
    "units NaN": (lambda: valued("NaN"), "bad_sample"),
    "units infinite": (lambda: valued("+Inf"), "bad_sample"),
    "units negative": (lambda: valued("-1"), "bad_sample"),
    "units a fraction": (lambda: valued("0.5"), "bad_sample"),
    "units absurd": (lambda: valued("1e+18"), "bad_sample"),
    "units beyond all numbers": (lambda: valued("1e999999999"), "bad_sample"),
    "units no number": (lambda: valued("one"), "bad_sample"),
    "units empty": (lambda: valued(""), "bad_sample"),
    "up is two": (lambda: sights(up(value="2")), "bad_sample"),
    "up is NaN": (lambda: sights(up(value="NaN")), "bad_sample"),
    "copies disagree about a request": (
        lambda: sights(request(POD, "1"), request({**POD, "replica": "b"}, "2")),
        "conflicting_series",
    ),
    "a request changes": (
        lambda: sights(request(POD, "1", times=[START]), request(POD, "2", times=[START + 60])),
        "conflicting_series",
    ),
    "one uid has two names": (
        lambda: sights(request(POD), request(identity("other-0"))),
        "conflicting_series",
    ),
    "one pod on two nodes": (
        lambda: facts(last("kube_pod_info", {**POD, "node": "gpu-h100-02"})),
        "conflicting_series",
    ),
    "bound at two times": (
        lambda: facts(last("kube_pod_status_scheduled_time", POD, str(START))),
        "conflicting_series",
    ),
    "bound before 2000": (lambda: scheduled("0"), "bad_sample"),
    "bound in the future": (lambda: scheduled(str(ASKED + 301)), "bad_sample"),
    "bound in milliseconds": (lambda: scheduled(str(START * 1000)), "bad_sample"),
    "bound at NaN": (lambda: scheduled("NaN"), "bad_sample"),
    "requests but no up": (lambda: World(sights=[request(POD)]), "no_coverage_clock"),
    "requests but nothing of the pod": (
        lambda: World(sights=[up(), request(POD)]),
        "incomplete_answer",
    ),
    "bound pods but no time of bind": (
        lambda: World(sights=[up(), request(POD)], facts=facts_of(POD, scheduled=None)),
        "incomplete_answer",
    ),
    "terminal, and no sight of it": (
        lambda: facts(last("kube_pod_status_phase", {**POD, "phase": "Failed"})),
        "incomplete_answer",
    ),
    "two owners, and no sight of either": (
        lambda: facts(
            last("kube_pod_labels", {**POD, "label_user": "alice"}),
            last("kube_pod_labels", {**POD, "label_user": "bob"}),
        ),
        "incomplete_answer",
    ),
}


@pytest.mark.parametrize(("broken", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_refused(broken: Callable[[], World], reason: str) -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        observe(broken(), user_label="user")

    assert refusal.value.reason == reason
    assert "secret" not in str(refusal.value)


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


def test_samples_at_the_edges_are_inside() -> None:
    world = sights(request(POD, times=[FIRST + 1, END, ASKED]))

    (pod,) = observe(world).pods

    assert (pod.first_seen_at.timestamp(), pod.last_seen_at.timestamp()) == (FIRST + 1, ASKED)


def _observe(url: str) -> None:
    PrometheusUsageSource().observe(
        target_of(url),
        start_at=HOUR,
        end_at=HOUR + timedelta(hours=1),
        as_of=HOUR + timedelta(hours=2),
    )
