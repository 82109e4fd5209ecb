"""The figures of a limit over REST: only for those who may read it, in every answer."""

import re
from typing import Any
from uuid import uuid4

import pytest
from rest_framework.test import APIClient

from quotas.models import AdmissionRefusal, QuotaLimit
from tenants.domain.identity.roles import Role
from tests.quotas.api.conftest import Answer, Caller
from tests.support.builders import AT, grant, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.asking import ask, make_policy, steps_of
from tests.support.quotas.builders import make_limit, make_refusal

REFUSALS = "/api/v1/admission-refusals/"
REQUESTS = "/api/v1/quota-requests/"
ACME_FULL = "organization acme: 6 of 6 large held, 0 reserved, 1 asked."
LLM_FULL = "project llm: 4 of 4 large held, 0 reserved, 1 asked."
NO_ROOM = "organization acme has no room left for as many."
NUMBERS = re.compile(r"\d")


def refuse(cast: Cast, message: str) -> AdmissionRefusal:
    refusal = make_refusal(make_cluster(f"c{uuid4().hex[:6]}"), cast.llm)
    AdmissionRefusal.objects.filter(pk=refusal.pk).update(message=message)
    return refusal


def messages(client: APIClient, refusal: AdmissionRefusal) -> set[str]:
    listed = client.get(REFUSALS).json()["results"]
    one = client.get(f"{REFUSALS}{refusal.pk}/").json()
    return {row["message"] for row in (*listed, one)}


def post(client: APIClient, path: str, body: dict[str, Any]) -> Answer:
    key = {"Idempotency-Key": str(uuid4())}
    answer: Answer = client.post(f"{REQUESTS}{path}", body, format="json", headers=key)
    return answer


def preview(caller: Caller, name: str, cast: Cast, **further: object) -> list[dict[str, str]]:
    body = {"project": str(cast.llm.pk), "size": "large", "requested_units": 9, **further}
    answer = post(caller(name), "preview/", body)
    assert answer.status_code == 200
    problems: list[dict[str, str]] = answer.json()["problems"]
    return problems


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("carol", NO_ROOM),
        ("bob", NO_ROOM),
        ("alice", ACME_FULL),
        ("frank", ACME_FULL),
        ("dora", ACME_FULL),
        ("ann", ACME_FULL),
    ],
)
def test_a_refusal_by_the_organization_shows_figures_to_who_reads_its_limit(
    cast: Cast, caller: Caller, name: str, expected: str
) -> None:
    refusal = refuse(cast, ACME_FULL)

    assert messages(caller(name), refusal) == {expected}
    refusal.refresh_from_db()
    assert refusal.message == ACME_FULL


@pytest.mark.parametrize("name", ["carol", "bob", "alice", "ann"])
def test_a_refusal_by_the_project_shows_its_figures_to_everybody_in_it(
    cast: Cast, caller: Caller, name: str
) -> None:
    assert messages(caller(name), refuse(cast, LLM_FULL)) == {LLM_FULL}


def test_a_lead_is_reported_what_is_in_the_way_without_the_organizations_numbers(
    cast: Cast, caller: Caller
) -> None:
    make_limit(cast.acme, units=6)

    reported = {name: preview(caller, name, cast) for name in ("bob", "alice")}

    assert reported["bob"] == [
        {
            "field": "requested_units",
            "code": "above_organization_limit",
            "message": "The organization's large limit does not allow as many.",
        }
    ]
    assert reported["alice"] == [
        {
            "field": "requested_units",
            "code": "project_exceeds_organization",
            "message": "Project llm would have 9 large, the organization's limit is 6: 3 too many.",
        }
    ]


def test_a_lead_learns_nothing_of_other_projects_from_a_preview(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, units=20)
    make_limit(cast.acme, cast.llm, units=5)
    make_limit(cast.acme, cast.vision, units=15)
    for name in ("carol", "bob"):
        make_limit(cast.acme, cast.vision, getattr(cast, name), units=15)
    QuotaLimit.objects.filter(project=cast.vision, user=None).update(limit_units=14)

    reported = preview(caller, "bob", cast)

    assert reported[0]["code"] == "above_organization_limit"
    assert (
        len({problem["message"] for problem in reported}) == 2 < len(preview(caller, "alice", cast))
    )
    assert not any(NUMBERS.search(problem["message"]) for problem in reported)
    assert "vision" not in str(reported)


def test_a_lead_cannot_tell_the_organizations_limit_from_what_others_hold_of_it(
    cast: Cast, caller: Caller
) -> None:
    make_limit(cast.acme, units=20)
    make_limit(cast.acme, cast.llm, units=5)
    make_limit(cast.acme, cast.vision, units=12)

    below, beside, above = (
        preview(caller, "bob", cast, requested_units=units) for units in (8, 9, 21)
    )
    full = preview(caller, "alice", cast, requested_units=21)

    assert below == []
    assert beside == above
    assert [problem["code"] for problem in above] == ["above_organization_limit"]
    assert [problem["code"] for problem in full] == [
        "projects_exceed_organization",
        "project_exceeds_organization",
    ]


def test_asking_for_a_user_shows_a_lead_no_more_of_the_organization(
    cast: Cast, caller: Caller
) -> None:
    make_limit(cast.acme, units=20)
    make_limit(cast.acme, cast.llm, units=5)

    few, many = (preview(caller, "bob", cast, user="carol", requested_units=n) for n in (6, 21))
    full = preview(caller, "alice", cast, user="carol", requested_units=21)

    assert [problem["code"] for problem in few] == ["user_exceeds_project"]
    assert [problem["code"] for problem in many] == ["user_exceeds_project"]
    assert {problem["code"] for problem in full} == {
        "user_exceeds_project",
        "user_exceeds_organization",
    }


def test_a_lead_is_reported_the_numbers_of_the_own_project(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, cast.llm, units=5)

    (reported,) = preview(caller, "bob", cast, user="carol")

    assert reported["message"] == (
        "User carol would have 9 large in project llm, the project's limit is 5: 4 too many."
    )


def test_a_lead_who_decides_is_refused_without_the_organizations_numbers(
    cast: Cast, caller: Caller
) -> None:
    make_policy(cast.acme, steps=[{"level": "project_lead"}])
    make_limit(cast.acme, units=6)
    request = ask(cast, at=AT)
    grant(cast.carol, Role.PROJECT_LEAD, project=cast.llm)

    refused = post(caller("carol"), f"{request.pk}/approve/", {})

    assert (refused.status_code, refused.json()["code"]) == (409, "quota_hierarchy_broken")
    assert not NUMBERS.search(str(refused.json()["problems"]) + refused.json()["detail"])
    assert steps_of(request) == [("project_lead", "open")]
    assert not QuotaLimit.objects.filter(project=cast.llm).exists()


def test_an_administrator_who_decides_is_reported_every_number(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, units=6)
    request = ask(cast, at=AT)

    refused = post(caller("alice"), f"{request.pk}/approve/", {})

    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "Project llm would have 8 large, the organization's limit is 6: 2 too many.",
    )
