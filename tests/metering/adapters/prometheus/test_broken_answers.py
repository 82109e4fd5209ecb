"""A corpus of broken answers: each is refused with a stable reason, and nothing is concluded.

What is wrong with a single pod refuses that pod alone, beside them.
"""

import json
from collections.abc import Callable

import pytest

from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import (
    ASKED,
    END,
    FIRST,
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
    sound_world,
    up,
)

OK = json.dumps(answer([], "matrix")).encode()
POD = identity()


def observations(*rows: object) -> World:
    world = sound_world()
    world.observations = [up(), *rows]  # type: ignore[list-item]
    return world


def facts(*rows: object) -> World:
    world = sound_world()
    world.facts = [*facts_of(POD), *rows]  # type: ignore[list-item]
    return world


def whole(reply: Reply) -> World:
    return World(observations=reply)


def body(payload: object) -> World:
    return whole(Reply(json.dumps(payload).encode()))


def valued(value: object, at: object = START) -> World:
    row = request(POD)
    row["values"] = [[at, value]]
    return observations(row)


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
    "row is no object": (lambda: observations("row"), "bad_answer"),
    "row without values": (lambda: observations({"metric": POD}), "bad_answer"),
    "row without samples": (
        lambda: observations({"metric": {"__name__": "up"}, "values": []}),
        "bad_answer",
    ),
    "histogram": (
        lambda: observations({"metric": {"__name__": "up"}, "histograms": [[START, {}]]}),
        "bad_answer",
    ),
    "unknown metric": (lambda: observations(raw("up2", {})), "bad_answer"),
    "label is a number": (
        lambda: observations({"metric": {"__name__": "up", "a": 1}, "values": [[START, "1"]]}),
        "bad_answer",
    ),
    "value is a number": (lambda: valued(1), "bad_answer"),
    "sample of three": (
        lambda: observations({"metric": {"__name__": "up"}, "values": [[START, "1", "2"]]}),
        "bad_answer",
    ),
    "fact of three": (
        lambda: facts({"metric": {"__name__": "kube_pod_info"}, "value": [START, "1", "2"]}),
        "bad_answer",
    ),
    "request without uid": (
        lambda: observations(request({"namespace": "a", "pod": "b"})),
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
        lambda: observations(request(POD, times=[START + 60, START])),
        "bad_sample",
    ),
    "time twice": (lambda: observations(request(POD, times=[START, START])), "bad_sample"),
    "up is two": (lambda: observations(up(value="2")), "bad_sample"),
    "up is NaN": (lambda: observations(up(value="NaN")), "bad_sample"),
    "requests but no up": (lambda: World(observations=[request(POD)]), "no_coverage_clock"),
    "requests but nothing of the pod": (
        lambda: World(observations=[up(), request(POD)]),
        "incomplete_answer",
    ),
    "bound pods but no time of bind": (
        lambda: World(observations=[up(), request(POD)], facts=facts_of(POD, scheduled=None)),
        "incomplete_answer",
    ),
}

DEFECTIVE: dict[str, tuple[Callable[[], World], str]] = {
    "units NaN": (lambda: valued("NaN"), "cannot be 'NaN'"),
    "units infinite": (lambda: valued("+Inf"), "cannot be '+Inf'"),
    "units negative": (lambda: valued("-1"), "cannot be '-1'"),
    "units a fraction": (lambda: valued("0.5"), "cannot be '0.5'"),
    "units absurd": (lambda: valued("1e+18"), "cannot be '1e+18'"),
    "units beyond all numbers": (lambda: valued("1e999999999"), "cannot be '1e999999999'"),
    "units no number": (lambda: valued("one"), "cannot be 'one'"),
    "units empty": (lambda: valued(""), "cannot be ''"),
    "copies disagree about a request": (
        lambda: observations(request(POD, "1"), request({**POD, "replica": "b"}, "2")),
        "disagree about its request",
    ),
    "a request changes": (
        lambda: observations(
            request(POD, "1", times=[START]), request(POD, "2", times=[START + 60])
        ),
        "disagree about its request",
    ),
    "one uid has two names": (
        lambda: observations(request(POD), request(identity("other-0"))),
        "disagree about its name",
    ),
    "one pod on two nodes": (
        lambda: facts(last("kube_pod_info", {**POD, "node": "gpu-h100-02"})),
        "disagree about its node",
    ),
    "bound at two times": (
        lambda: facts(last("kube_pod_status_scheduled_time", POD, str(START))),
        "disagree about its time of bind",
    ),
    "bound before 2000": (lambda: scheduled("0"), "time of bind cannot be '0'"),
    "bound in the future": (lambda: scheduled(str(ASKED + 301)), "time of bind cannot be"),
    "bound in milliseconds": (lambda: scheduled(str(START * 1000)), "time of bind cannot be"),
    "bound at NaN": (lambda: scheduled("NaN"), "time of bind cannot be 'NaN'"),
    "terminal, and no observation of it": (
        lambda: facts(last("kube_pod_status_phase", {**POD, "phase": "Failed"})),
        "no sample shows since when",
    ),
    "two owners, and no observation of either": (
        lambda: facts(
            last("kube_pod_labels", {**POD, "label_user": "alice"}),
            last("kube_pod_labels", {**POD, "label_user": "bob"}),
        ),
        "disagree about its owner",
    ),
}
"""One pod contradicts itself or reports what cannot be; the answer is sound."""


@pytest.mark.parametrize(("broken", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_refused(broken: Callable[[], World], reason: str) -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        observe(broken(), user_label="user")

    assert refusal.value.reason == reason
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(("defective", "sentence"), DEFECTIVE.values(), ids=DEFECTIVE)
def test_one_pod_that_cannot_be_believed_is_distinguished_from_the_others(
    defective: Callable[[], World], sentence: str
) -> None:
    world, good = defective(), identity("good", "good")
    assert isinstance(world.observations, list)
    assert isinstance(world.facts, list)
    world.observations.append(request(good))
    world.facts += facts_of(good)

    bad, sound = observe(world, user_label="user").pods

    assert (sound.uid, sound.defects, sound.is_end_known) == ("good", (), True)
    assert sentence in " ".join(bad.defects)


def test_samples_at_the_edges_are_inside() -> None:
    world = observations(request(POD, times=[FIRST + 1, END, ASKED]))

    (pod,) = observe(world).pods

    assert (pod.first_seen_at.timestamp(), pod.last_seen_at.timestamp()) == (FIRST + 1, ASKED)
