"""/api/v1/suspensions/ through HTTP."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from quotas.models import QuotaSuspension
from quotas.services.limits.suspensions import suspend_tenant
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry
from tests.quotas.api.conftest import Answer, Caller
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit

URL = "/api/v1/suspensions/"
BILLING = system_actor("billing.budgets")


def post(client: APIClient, cast: Cast, *, key: str = "key-1", **further: object) -> Answer:
    body = {"organization": str(cast.acme.pk), "reason": "Arrears.", **further}
    answer: Answer = client.post(URL, body, format="json", headers={"Idempotency-Key": key})
    return answer


def resume(client: APIClient, suspension: QuotaSuspension, *, etag: str = '"1"') -> Answer:
    headers = {"If-Match": etag} if etag else {}
    answer: Answer = client.post(
        f"{URL}{suspension.pk}/resume/", {}, format="json", headers=headers
    )
    return answer


def suspend(cast: Cast, **further: object) -> QuotaSuspension:
    given = {"organization": cast.acme, "reason": "Arrears.", "actor": BILLING, "at": AT}
    return suspend_tenant(**{**given, **further})  # type: ignore[arg-type]


def problem_of(answer: Answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("name", ["frank", "dora"])
def test_the_platform_and_finance_suspend_once(cast: Cast, caller: Caller, name: str) -> None:
    limit = make_limit(cast.acme, cast.llm)

    made, again = post(caller(name), cast), post(caller(name), cast)

    assert (made.status_code, made["ETag"]) == (201, '"1"')
    assert made.json() == again.json()
    body = made.json()
    assert (body["organization"], body["project"]) == (str(cast.acme.pk), None)
    assert (body["reason"], body["source"], body["end_at"]) == ("Arrears.", "", None)
    assert QuotaSuspension.objects.count() == AuditEntry.objects.count() == 1
    shown = caller("bob").get(f"/api/v1/quota-limits/{limit.pk}/").json()
    assert (shown["is_suspended"], shown["limit_units"]) == (True, 8)


def test_a_suspension_is_resumed_at_its_version(cast: Cast, caller: Caller) -> None:
    suspension = suspend(cast)
    client = caller("dora")

    without = resume(client, suspension, etag="")
    stale = resume(client, suspension, etag='"3"')
    resumed = resume(client, suspension)
    lost = resume(client, suspension)

    assert problem_of(without) == (428, "precondition_required")
    assert problem_of(stale) == problem_of(lost) == (412, "stale_version")
    assert (resumed.status_code, resumed["ETag"]) == (200, '"2"')
    assert resumed.json()["end_at"] is not None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reason", ""),
        ("reason", "  "),
        ("reason", "x" * 4_001),
        ("reason", None),
        ("organization", "acme"),
        ("source", "budget"),
        ("begin_at", "2026-11-02T09:00:00Z"),
    ],
)
def test_what_cannot_be_a_suspension_is_refused_by_field(
    cast: Cast, caller: Caller, field: str, value: object
) -> None:
    wrong: dict[str, Any] = {field: value}

    answer = post(caller("frank"), cast, **wrong)

    assert answer.status_code in {400, 422}
    assert field in {p["field"] for p in answer.json()["problems"]}
    assert not QuotaSuspension.objects.exists()


def test_a_project_of_another_organization_is_refused(cast: Cast, caller: Caller) -> None:
    answer = post(caller("frank"), cast, project=str(cast.virus.pk))

    assert problem_of(answer) == (422, "quota_scope_invalid")
    assert answer.json()["field"] == "project"
    assert not QuotaSuspension.objects.exists()


@pytest.mark.parametrize(
    ("name", "made", "resumed"),
    [
        ("alice", 403, 403),
        ("bob", 403, 404),
        ("carol", 403, 404),
        ("ann", 403, 403),
        ("mallory", 404, 404),
    ],
)
def test_a_tenant_neither_suspends_nor_resumes(
    cast: Cast, caller: Caller, name: str, made: int, resumed: int
) -> None:
    suspension = suspend(cast)

    assert post(caller(name), cast).status_code == made
    assert resume(caller(name), suspension).status_code == resumed
    assert QuotaSuspension.objects.get().end_at is None


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("alice", ["arrears", "budget"]),
        ("ann", ["", "arrears", "budget"]),
        ("bob", []),
        ("mallory", [""]),
    ],
)
def test_suspensions_are_listed_as_far_as_a_role_reaches(
    cast: Cast, caller: Caller, name: str, sources: list[str]
) -> None:
    suspend(cast, source="budget")
    suspend(cast, source="arrears", project=cast.llm)
    suspend(cast, organization=cast.umbrella)

    listed = caller(name).get(URL).json()["results"]

    assert sorted(row["source"] for row in listed) == sources


def test_suspensions_are_filtered_by_who_why_and_whether_they_ended(
    cast: Cast, caller: Caller
) -> None:
    suspend(cast, source="budget")
    ended = suspend(cast, source="arrears", project=cast.llm)
    client = caller("frank")
    resume(client, ended)

    def sources(query: str) -> list[str]:
        return [row["source"] for row in client.get(f"{URL}?{query}").json()["results"]]

    assert sources("is_ended=false") == ["budget"]
    assert sources("is_ended=true") == ["arrears"]
    assert sources(f"project={cast.llm.pk}") == ["arrears"]
    assert sources("source=budget") == ["budget"]
    assert client.get(f"{URL}{ended.pk}/")["ETag"] == '"2"'
