"""AdmissionReviews: what is read, what is refused, and what is answered."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.admission.review import (
    REVIEW_BYTES_MAX,
    NoReviewError,
    Requester,
    answer_of,
    read_review,
)
from tests.support.quotas.reviews import REVIEW_UID, body, job, pod, review


def json_of(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[object]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | numbers | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )


json_values = json_of(st.floats())


def test_a_review_is_read_as_it_was_sent() -> None:
    reported = read_review(body(pod(2), user="oidc:alice", subResource="ephemeralcontainers"))

    assert reported.uid == REVIEW_UID
    assert (reported.group, reported.kind, reported.resource) == ("", "Pod", "pods")
    assert (reported.subresource, reported.operation) == ("ephemeralcontainers", "CREATE")
    assert (reported.namespace, reported.name) == ("team-llm", "train-x7k2p")
    assert reported.requester == Requester("oidc:alice", ("system:authenticated",))
    assert reported.obj == pod(2)
    assert reported.old is None
    assert reported.is_dry_run is False


def test_a_group_and_a_dry_run_are_reported() -> None:
    reported = read_review(body(job(), dryRun=True, oldObject=job(2)))

    assert (reported.group, reported.kind, reported.is_dry_run) == ("batch", "Job", True)
    assert reported.old == job(2)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"no json",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": []}',
        json.dumps({**review(pod()), "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
        json.dumps({**review(pod()), "kind": "Pod"}).encode(),
        b"[" * 100_000,
        b'{"a": ' * 20_000,
        b" " * (REVIEW_BYTES_MAX + 1),
        body(pod()).replace(b'"dryRun": false', b'"dryRun": NaN'),
        body(pod()).replace(b'"dryRun": false', b'"dryRun": Infinity'),
        body(pod()).replace(b'"dryRun": false', b'"dryRun": 1e1000000000000000000000'),
        body(pod()).replace(b'"dryRun": false', b'"dryRun": ' + b"9" * 5_000),
        body(pod()).replace(b'"dryRun": false', b'"x": "\\ud800"'),
        body(pod()).replace(b'"dryRun": false', b'"x": "a\x01b"'),
        body(pod()) + b"{}",
    ],
)
def test_what_is_no_review_is_refused(sent: bytes) -> None:
    with pytest.raises(NoReviewError):
        read_review(sent)


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": ""},
        {"uid": None},
        {"uid": 7},
        {"uid": "x" * 300},
        {"uid": "a\nb"},
        {"kind": "Pod"},
        {"kind": {"kind": ""}},
        {"resource": None},
        {"operation": None},
        {"namespace": ["team-llm"]},
        {"dryRun": "yes"},
        {"dryRun": 1},
        {"userInfo": None},
        {"userInfo": {"username": 7}},
        {"userInfo": {"username": "alice", "groups": "all"}},
        {"userInfo": {"username": "alice", "groups": [1]}},
        {"userInfo": {"username": "alice", "groups": ["g"] * 1_001}},
        {"object": "pod"},
        {"oldObject": []},
    ],
)
def test_a_forged_review_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NoReviewError):
        read_review(body(pod(), **changes))


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(sent: bytes) -> None:
    with pytest.raises(NoReviewError):
        read_review(sent)


@given(st.sampled_from(list(review(pod())["request"])), json_values)
def test_no_field_makes_it_fail_otherwise(field: str, value: object) -> None:
    changes: dict[str, Any] = {field: value}
    try:
        reported = read_review(body(pod(), **changes))
    except NoReviewError:
        return

    assert reported.uid


def test_a_point_number_is_kept_exactly() -> None:
    reported = read_review(body(pod()).replace(b'"containers"', b'"x": 0.1, "containers"'))

    assert reported.obj is not None
    assert str(reported.obj["spec"]["x"]) == "0.1"


@given(json_of(st.floats(allow_nan=False, allow_infinity=False)))
def test_an_object_is_read_as_the_standard_library_reads_it(value: object) -> None:
    sent = body(pod(), object={"x": value})

    reported = read_review(sent)

    assert reported.obj == json.loads(sent, parse_float=Decimal)["request"]["object"]


def test_an_answer_lets_in_or_says_why_not() -> None:
    yes = answer_of("u", is_allowed=True, warnings=("near",), annotations={"decision": "allowed"})
    no = answer_of("u", is_allowed=False, message="limit 8")
    bad = answer_of("u", is_allowed=False, message="no pod", code=400)

    assert yes == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "u",
            "allowed": True,
            "warnings": ["near"],
            "auditAnnotations": {"decision": "allowed"},
        },
    }
    assert no["response"] == {
        "uid": "u",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "limit 8"},
    }
    assert bad["response"]["status"]["reason"] == "BadRequest"
