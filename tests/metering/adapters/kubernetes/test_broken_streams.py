"""Every broken answer ends in a relist, in a retry, or in an object that is for a person.

Nothing is skipped in silence: what came before the fault is handed out, what comes after is not.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from metering.adapters.kubernetes import lines
from metering.adapters.kubernetes.session import ApiSession
from metering.protocols.watch import (
    Change,
    PodState,
    WatchedKind,
    WatchEvent,
    WatchExpiredError,
)
from metering.services.allocations.pods import snapshot_of
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.allocations.kubernetes import (
    GPU,
    NOW,
    Answer,
    Reported,
    bookmark,
    event,
    make_watch,
    pod,
)

PODS = WatchedKind.PODS
FIRST = event("ADDED", pod("uid-1", version="11"))


def without(obj: dict[str, Any], *path: str) -> dict[str, Any]:
    place = obj
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return obj


def error(code: int, reason: str = "", **details: object) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "details": details}
    return event("ERROR", status)


def asking(quantity: object) -> dict[str, Any]:
    return pod(containers=[{"name": "main", "resources": {"requests": {GPU: quantity}}}])


def telling(**times: str) -> dict[str, Any]:
    obj = pod("uid-2", nodeName="node-1")
    obj["metadata"]["creationTimestamp"] = times.get("created", "2026-10-05T11:00:00Z")
    scheduled = times.get("scheduled", "2026-10-05T11:00:05Z")
    obj["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}
    ]
    return obj


def read(reported: Reported, **options: Any) -> tuple[list[WatchEvent], Exception | None]:  # noqa: ANN401 - Passed on.
    """Watch until the stream ends; return the events after the opening one, and the refusal."""
    stream = make_watch(**options).watch(
        reported.target(), PODS, resource_version="10", timeout_seconds=60
    )
    found: list[WatchEvent] = []
    try:
        found.extend(stream)
    except (SourceUnavailableError, WatchExpiredError) as refusal:
        return found[1:], refusal
    return found[1:], None


@dataclass(frozen=True)
class Broken:
    """A stream that refuses: after how many events, and with which reason; "" for a relist."""

    answer: Answer
    reason: str
    events_before: int = 1


BROKEN = {
    "cut between two lines": Broken(Answer((FIRST,), is_cut=True), "truncated"),
    "cut inside a line": Broken(Answer((FIRST, FIRST[:50]), is_cut=True), "truncated"),
    "ends inside a line": Broken(Answer((FIRST, FIRST[:50])), "truncated"),
    "invalid JSON": Broken(Answer((FIRST, b'{"type": ADDED}\n')), "bad_answer"),
    "no object at all": Broken(Answer((FIRST, b"17\n")), "bad_answer"),
    "a list instead of an object": Broken(Answer((FIRST, b"[]\n")), "bad_answer"),
    "null": Broken(Answer((FIRST, b"null\n")), "bad_answer"),
    "not a number": Broken(Answer((FIRST, b'{"type": NaN}\n')), "bad_answer"),
    "a number of ten thousand digits": Broken(
        Answer((FIRST, b'{"type":' + b"9" * 10_000 + b"}\n")), "bad_answer"
    ),
    "nested a hundred thousand deep": Broken(Answer((FIRST, b"[" * 100_000 + b"\n")), "bad_answer"),
    "raw NUL bytes": Broken(
        Answer((FIRST, FIRST.replace(b"pod-uid-1", b"pod\x00uid"))), "bad_answer"
    ),
    "NUL in a name": Broken(
        Answer((FIRST, FIRST.replace(b"pod-uid-1", b"pod\\u0000uid"))), "bad_answer"
    ),
    "half a surrogate in a name": Broken(
        Answer((FIRST, FIRST.replace(b"pod-uid-1", b"pod\\ud800"))), "bad_answer"
    ),
    "bytes that are no UTF-8": Broken(
        Answer((FIRST, FIRST.replace(b"pod-uid-1", b"pod\xff\xfe"))), "bad_answer"
    ),
    "another kind": Broken(
        Answer((FIRST, event("ADDED", {**pod(), "kind": "Secret"}))), "bad_answer"
    ),
    "no uid": Broken(
        Answer((FIRST, event("ADDED", without(pod(), "metadata", "uid")))), "bad_answer"
    ),
    "a uid of a thousand letters": Broken(
        Answer((FIRST, event("ADDED", pod("u" * 1000)))), "bad_answer"
    ),
    "no namespace": Broken(
        Answer((FIRST, event("ADDED", without(pod(), "metadata", "namespace")))), "bad_answer"
    ),
    "no version": Broken(
        Answer((FIRST, event("ADDED", without(pod(), "metadata", "resourceVersion")))),
        "bad_answer",
    ),
    "a version that is a number": Broken(
        Answer((FIRST, FIRST.replace(b'"11"', b"11"))), "bad_answer"
    ),
    "an event without an object": Broken(Answer((FIRST, b'{"type":"ADDED"}\n')), "bad_answer"),
    "an event without a type": Broken(
        Answer((FIRST, json.dumps({"object": pod()}).encode() + b"\n")), "bad_answer"
    ),
    "an unknown type": Broken(Answer((FIRST, event("RENAMED"))), "bad_answer"),
    "a bookmark without a version": Broken(
        Answer((FIRST, event("BOOKMARK", {"kind": "Pod", "metadata": {}}))), "bad_answer"
    ),
    "an error of 410": Broken(Answer((FIRST, error(410, "Expired"))), ""),
    "an error that only says it is gone": Broken(Answer((FIRST, error(0, "Gone"))), ""),
    "an error of 500": Broken(Answer((FIRST, error(500, "InternalError"))), "server_error"),
    "an error of 429": Broken(Answer((FIRST, error(429, retryAfterSeconds=7))), "throttled"),
    "410 at once": Broken(Answer(code=410), "", 0),
    "400": Broken(Answer(code=400), "http_error", 0),
    "401": Broken(Answer(code=401), "unauthorized", 0),
    "403": Broken(Answer(code=403), "forbidden", 0),
    "404": Broken(Answer(code=404), "not_served", 0),
    "429": Broken(Answer(code=429, headers=(("Retry-After", "9"),)), "throttled", 0),
    "500": Broken(Answer(code=500), "server_error", 0),
    "503 with a date to come back at": Broken(
        Answer(code=503, headers=(("Retry-After", "Mon, 05 Oct 2026 13:00:00 GMT"),)),
        "server_error",
        0,
    ),
    "a redirect": Broken(
        Answer(code=302, headers=(("Location", "https://127.0.0.1:1/"),)), "redirected", 0
    ),
    "a page of a proxy": Broken(
        Answer((b"<html>Sign in</html>",), content_type="text/html"), "bad_answer", 0
    ),
    "protobuf": Broken(
        Answer((FIRST,), content_type="application/vnd.kubernetes.protobuf;stream=watch"),
        "bad_answer",
        0,
    ),
    "a page of a proxy that says it is JSON": Broken(
        Answer((b"<html>Sign in</html>\n",)), "bad_answer", 0
    ),
    "a body in gzip": Broken(
        Answer((b"\x1f\x8b\x08\x00\n",), headers=(("Content-Encoding", "gzip"),)), "bad_answer", 0
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_is_refused_after_what_came_before_the_fault(
    reported: Reported, name: str
) -> None:
    broken = BROKEN[name]
    reported.answers = [broken.answer]

    found, refusal = read(reported)

    if broken.reason:
        assert isinstance(refusal, SourceUnavailableError)
        assert refusal.reason == broken.reason
    else:
        assert isinstance(refusal, WatchExpiredError)
    assert [one.state and one.state.uid for one in found] == ["uid-1"] * broken.events_before
    assert "sesame" not in str(refusal)
    assert "Sign in" not in str(refusal)


@pytest.mark.parametrize(
    ("containers", "why"),
    [("main", "spec.containers is not a list."), (["main"], "spec.containers is not an object.")],
)
def test_a_pod_that_cannot_be_read_does_not_stop_the_stream(
    reported: Reported, containers: object, why: str
) -> None:
    unreadable = event("MODIFIED", pod("uid-2", version="12", containers=containers))
    reported.answers = [Answer((FIRST, unreadable, event("MODIFIED", pod("uid-3", version="13"))))]

    found, refusal = read(reported)

    assert refusal is None
    states = [one.state for one in found if isinstance(one.state, PodState)]
    assert [(one.uid, one.defects) for one in states] == [
        ("uid-1", ()),
        ("uid-2", (f"Its object cannot be read: {why}",)),
        ("uid-3", ()),
    ]
    observation = snapshot_of(states[1], observed_at=NOW, is_list=True)
    assert observation is not None
    assert (observation.uid, observation.gone_at, observation.alive_at) == ("uid-2", None, NOW)


@pytest.mark.parametrize(("name", "seconds"), [("429", 9), ("an error of 429", 7), ("500", 0)])
def test_how_long_the_server_wants_to_be_left_alone_is_kept(
    reported: Reported, name: str, seconds: int
) -> None:
    reported.answers = [BROKEN[name].answer]

    _, refusal = read(reported)

    assert isinstance(refusal, SourceUnavailableError)
    assert refusal.retry_after_seconds == seconds


def test_a_server_cannot_ask_to_be_left_alone_for_a_day(reported: Reported) -> None:
    reported.answers = [Answer(code=429, headers=(("Retry-After", "86400"),))]

    _, refusal = read(reported)

    assert isinstance(refusal, SourceUnavailableError)
    assert refusal.retry_after_seconds == 300


def test_a_silent_stream_is_given_up(reported: Reported) -> None:
    reported.answers = [Answer((FIRST,), stalls=True)]

    found, refusal = read(reported, stall_seconds=0.3)

    assert isinstance(refusal, SourceUnavailableError)
    assert (len(found), refusal.reason) == (1, "stalled")


def test_a_stream_that_drips_one_endless_line_is_given_up(reported: Reported) -> None:
    reported.answers = [Answer((b" ",) * 5, stalls=True)]

    with ApiSession(reported.target(), read_seconds=20) as session:
        response = session.get("/api/v1/pods", {})
        with pytest.raises(SourceUnavailableError) as refusal:
            list(lines.read_lines(response, slug="hopper", stall_seconds=-1))
        response.close()

    assert refusal.value.reason == "stalled"


def test_a_line_that_is_too_long_is_never_held(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 100_000)
    reported.answers = [Answer((FIRST, *([b"x" * 30_000] * 5)))]

    found, refusal = read(reported)

    assert isinstance(refusal, SourceUnavailableError)
    assert (len(found), refusal.reason) == (1, "too_large")


def test_an_empty_stream_is_no_error_and_says_only_that_it_was_opened(reported: Reported) -> None:
    reported.answers = [Answer()]

    stream = make_watch().watch(reported.target(), PODS, resource_version="10", timeout_seconds=60)

    assert list(stream) == [WatchEvent(Change.BOOKMARK, "10", NOW)]


def test_events_reported_twice_or_out_of_order_come_out_as_they_came(reported: Reported) -> None:
    late = event("MODIFIED", pod("uid-1", version="9"))
    reported.answers = [Answer((FIRST, FIRST, late, b"\n", bookmark("12")))]

    found, refusal = read(reported)

    assert refusal is None
    assert [(one.change, one.resource_version) for one in found] == [
        (Change.ADDED, "11"),
        (Change.ADDED, "11"),
        (Change.MODIFIED, "9"),
        (Change.BOOKMARK, "12"),
    ]


@pytest.mark.parametrize(
    "quantity", ["-1", "500m", "1.5", "1e30", "1e999999999", "", "one", 0.5, None, [], "9" * 50]
)
def test_an_amount_no_pod_can_have_is_marked_for_a_person(
    reported: Reported, quantity: object
) -> None:
    reported.answers = [Answer((event("ADDED", asking(quantity)),))]

    found, refusal = read(reported)

    assert refusal is None
    (only,) = found
    assert isinstance(only.state, PodState)
    assert [request.units for request in only.state.requests] == [-1]
    (defect,) = only.state.defects
    assert defect.startswith(f"The request of container main for {GPU} cannot be ")


@pytest.mark.parametrize(("quantity", "units"), [("2", 2), ("1k", 1000), ("2000m", 2), (4, 4)])
def test_an_amount_in_any_spelling_is_read_exactly(
    reported: Reported, quantity: object, units: int
) -> None:
    reported.answers = [Answer((event("ADDED", asking(quantity)),))]

    found, _ = read(reported)

    assert isinstance(found[0].state, PodState)
    assert [request.units for request in found[0].state.requests] == [units]
    assert found[0].state.defects == ()


@pytest.mark.parametrize(
    "text",
    [
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00Z",
        "2026-10-05T11:00:05",
        "2026-13-05T11:00:05Z",
        "yesterday",
        "2026-10-07T12:00:00Z",
    ],
)
def test_a_time_that_cannot_be_is_marked_and_never_used(reported: Reported, text: str) -> None:
    reported.answers = [
        Answer((event("ADDED", telling(scheduled=text)), event("ADDED", telling(created=text))))
    ]

    (bound, made), refusal = read(reported)

    assert refusal is None
    assert isinstance(bound.state, PodState)
    assert isinstance(made.state, PodState)
    assert bound.state.scheduled_at is None
    assert bound.state.defects == (f'The time of PodScheduled cannot be "{text}".',)
    assert made.state.created_at == NOW
    assert made.state.defects == (f'metadata.creationTimestamp cannot be "{text}".',)


def test_a_pod_that_hides_control_characters_in_its_own_words_stops_no_stream(
    reported: Reported,
) -> None:
    obj = pod()
    obj["metadata"]["ownerReferences"] = [
        {"kind": "Jo\u0000b", "name": "x" * 1000, "controller": True}
    ]
    obj["metadata"]["labels"] = {"user": "li\u0000na\ud800"}
    obj["status"]["reason"] = "Ev\u0000icted" + "!" * 1000
    reported.answers = [Answer((event("ADDED", obj),))]

    stream = make_watch().watch(
        reported.target(user_label="user"), PODS, resource_version="10", timeout_seconds=60
    )
    state = list(stream)[1].state

    assert isinstance(state, PodState)
    assert state.owner == "lina"
    assert state.controller == "Job/" + "x" * 315
    assert state.reason == "Evicted" + "!" * 120
