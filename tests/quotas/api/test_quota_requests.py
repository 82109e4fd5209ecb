"""/api/v1/quota-requests/ through HTTP."""

from typing import Any
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from quotas.models import QuotaLimit, QuotaRequest
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry
from tests.quotas.api.conftest import Answer, Caller
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit

URL = "/api/v1/quota-requests/"


def ask(client: APIClient, cast: Cast, *, key: str = "key-1", **further: object) -> Answer:
    body = {
        "project": str(cast.llm.pk),
        "size": "large",
        "requested_units": 8,
        "justification": "A bigger model.",
        **further,
    }
    answer: Answer = client.post(URL, body, format="json", headers={"Idempotency-Key": key})
    return answer


def decide(client: APIClient, pk: object, verb: str, **body: object) -> Answer:
    key = {"Idempotency-Key": str(uuid4())}
    answer: Answer = client.post(f"{URL}{pk}/{verb}/", body, format="json", headers=key)
    return answer


def problem_of(answer: Answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_a_lead_asks_and_an_administrator_grants(cast: Cast, caller: Caller) -> None:
    asked = ask(caller("bob"), cast)
    granted = decide(caller("alice"), asked.json()["id"], "approve", note="Fine.")

    assert asked.status_code == 201
    assert asked["Location"] == f"{URL}{asked.json()['id']}/"
    assert asked["ETag"] == '"1"'
    assert asked.json()["state"] == "submitted"
    assert (asked.json()["requested_by"], asked.json()["decided_by"]) == ("bob", None)
    assert granted.status_code == 200
    assert granted.json()["state"] == "approved"
    assert (granted.json()["decided_by"], granted.json()["decision_note"]) == ("alice", "Fine.")
    assert QuotaLimit.objects.get().limit_units == 8


def test_the_same_request_again_is_answered_the_same_and_made_once(
    cast: Cast, caller: Caller
) -> None:
    first, again = ask(caller("bob"), cast), ask(caller("bob"), cast)

    assert first.json() == again.json()
    assert again["Idempotent-Replayed"] == "true"
    assert QuotaRequest.objects.count() == 1


def test_a_replayed_key_with_another_body_is_refused(cast: Cast, caller: Caller) -> None:
    ask(caller("bob"), cast)

    other = ask(caller("bob"), cast, requested_units=9)

    assert problem_of(other) == (422, "idempotency_key_reused")
    assert QuotaRequest.objects.get().requested_units == 8


def test_asking_without_a_key_is_refused(cast: Cast, caller: Caller) -> None:
    body = {"project": str(cast.llm.pk), "size": "large", "requested_units": 1}

    answer = caller("bob").post(URL, body, format="json")

    assert problem_of(answer) == (400, "idempotency_key_required")


def test_a_key_is_the_callers_own(cast: Cast, caller: Caller) -> None:
    ask(caller("bob"), cast)

    other = ask(caller("alice"), cast)

    assert other.status_code == 201
    assert QuotaRequest.objects.count() == 2


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("requested_units", -1, "units_invalid"),
        ("requested_units", 2.5, "units_invalid"),
        ("requested_units", 8.0, "units_invalid"),
        ("requested_units", "8", "units_invalid"),
        ("requested_units", True, "units_invalid"),
        ("requested_units", 10**30, "units_invalid"),
        ("requested_units", None, "null"),
        ("size", "huge", "invalid_choice"),
        ("size", None, "null"),
        ("project", "llm", "invalid"),
        ("justification", "  ", "blank"),
        ("justification", "x" * 4_001, "max_length"),
        ("justification", "a\x00b", "null_characters_not_allowed"),
        ("state", "approved", "unknown_field"),
        ("requested_by", "alice", "unknown_field"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_field_and_nothing_is_made(
    cast: Cast, caller: Caller, field: str, value: object, code: str
) -> None:
    wrong: dict[str, Any] = {field: value}

    answer = ask(caller("bob"), cast, **wrong)

    problems = [(p["field"], p["code"]) for p in answer.json()["problems"]]
    assert answer.status_code in {400, 422}
    assert answer["Content-Type"] == "application/problem+json"
    assert (field, code) in problems
    assert answer.json()["remedy"]
    assert not QuotaRequest.objects.exists()
    assert not AuditEntry.objects.exists()


def test_several_problems_are_reported_at_once(cast: Cast, caller: Caller) -> None:
    answer = ask(caller("bob"), cast, size="huge", requested_units=-1, justification="")

    fields = {p["field"] for p in answer.json()["problems"]}
    assert fields == {"size", "requested_units", "justification"}


def test_another_tenants_project_does_not_exist(cast: Cast, caller: Caller) -> None:
    foreign = ask(caller("bob"), cast, project=str(cast.virus.pk))
    missing = ask(caller("bob"), cast, key="key-2", project=str(new_id()))

    assert problem_of(foreign) == problem_of(missing) == (404, "not_found")
    assert foreign.json()["title"] == missing.json()["title"]
    assert not QuotaRequest.objects.exists()


def test_a_member_sees_the_project_and_may_not_ask(cast: Cast, caller: Caller) -> None:
    assert problem_of(ask(caller("carol"), cast)) == (403, "forbidden")
    assert not QuotaRequest.objects.exists()


def test_nobody_signed_in_is_unauthenticated(cast: Cast) -> None:
    answer = ask(APIClient(), cast)

    assert answer.status_code == 401
    assert not QuotaRequest.objects.exists()


@pytest.mark.parametrize(
    ("name", "verb", "expected"),
    [
        ("bob", "approve", (403, "own_quota_request")),
        ("carol", "approve", (403, "forbidden")),
        ("ann", "approve", (403, "forbidden")),
        ("dora", "reject", (403, "forbidden")),
        ("carol", "cancel", (403, "forbidden")),
        ("mallory", "approve", (404, "not_found")),
        ("mallory", "cancel", (404, "not_found")),
    ],
)
def test_who_may_not_decide_changes_nothing(
    cast: Cast, caller: Caller, name: str, verb: str, expected: tuple[int, str]
) -> None:
    pk = ask(caller("bob"), cast).json()["id"]

    answer = decide(caller(name), pk, verb)

    assert problem_of(answer) == expected
    assert QuotaRequest.objects.get().state == "submitted"
    assert not QuotaLimit.objects.exists()


def test_nobody_approves_their_own(cast: Cast, caller: Caller) -> None:
    pk = ask(caller("alice"), cast).json()["id"]

    answer = decide(caller("alice"), pk, "approve")

    assert problem_of(answer) == (403, "own_quota_request")
    assert answer.json()["remedy"] == (
        "Ask another administrator to decide, or cancel the request."
    )
    assert not QuotaLimit.objects.exists()


def test_a_second_approval_answers_the_same(cast: Cast, caller: Caller) -> None:
    pk = ask(caller("bob"), cast).json()["id"]
    first = decide(caller("alice"), pk, "approve")

    second = decide(caller("frank"), pk, "approve", note="Me too.")

    assert second.json() == first.json()
    assert QuotaLimit.objects.get().generation == 1


def test_an_approval_that_breaks_the_hierarchy_shows_every_violation(
    cast: Cast, caller: Caller
) -> None:
    make_limit(cast.acme, units=6)
    make_limit(cast.acme, cast.llm, cast.carol, units=5)
    pk = ask(caller("bob"), cast, requested_units=4).json()["id"]
    make_limit(cast.acme, cast.vision, units=4)

    answer = decide(caller("alice"), pk, "approve")

    assert problem_of(answer) == (409, "quota_hierarchy_broken")
    assert [p["code"] for p in answer.json()["problems"]] == [
        "projects_exceed_organization",
        "user_exceeds_project",
    ]
    assert QuotaRequest.objects.get().state == "submitted"


@pytest.mark.parametrize(
    ("verb", "name", "state"), [("reject", "alice", "rejected"), ("cancel", "bob", "cancelled")]
)
def test_a_request_is_turned_down_or_withdrawn(
    cast: Cast, caller: Caller, verb: str, name: str, state: str
) -> None:
    pk = ask(caller("bob"), cast).json()["id"]

    ended = decide(caller(name), pk, verb)
    late = decide(caller("frank"), pk, "approve")

    assert (ended.status_code, ended.json()["state"]) == (200, state)
    assert problem_of(late) == (409, "quota_request_decided")
    assert not QuotaLimit.objects.exists()


@pytest.mark.parametrize(
    "body", [{"state": "approved"}, {"note": "x" * 4_001}, {"note": 5.5, "x": 1}]
)
def test_a_decision_says_a_note_and_nothing_else(
    cast: Cast, caller: Caller, body: dict[str, Any]
) -> None:
    pk = ask(caller("bob"), cast).json()["id"]

    answer = decide(caller("alice"), pk, "approve", **body)

    assert answer.status_code in {400, 422}
    assert QuotaRequest.objects.get().state == "submitted"


@pytest.mark.parametrize(
    ("name", "count"),
    [("alice", 1), ("bob", 1), ("carol", 1), ("ann", 1), ("frank", 1), ("mallory", 0)],
)
def test_a_request_is_listed_for_whom_it_concerns(
    cast: Cast, caller: Caller, name: str, count: int
) -> None:
    pk = ask(caller("bob"), cast).json()["id"]

    listed = caller(name).get(URL)
    one = caller(name).get(f"{URL}{pk}/")

    assert len(listed.json()["results"]) == count
    assert one.status_code == (200 if count else 404)


def test_lists_are_filtered_strictly(cast: Cast, caller: Caller) -> None:
    ask(caller("bob"), cast)
    client = caller("alice")

    assert len(client.get(URL, {"state": "submitted", "size": "large"}).json()["results"]) == 1
    assert client.get(URL, {"state": "approved"}).json()["results"] == []
    assert client.get(URL, {"stat": "approved"}).status_code in {400, 422}


def test_a_list_costs_the_same_statements_however_long_it_is(
    cast: Cast, caller: Caller, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = caller("alice")
    for number in range(6):
        ask(caller("bob"), cast, key=f"key-{number}")

    with django_assert_max_num_queries(6):
        listed = client.get(URL)

    assert len(listed.json()["results"]) == 6
