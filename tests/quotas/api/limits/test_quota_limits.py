"""/api/v1/quota-limits/ through HTTP."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from quotas.models import QuotaLimit
from tenants.models import AuditEntry
from tests.quotas.api.conftest import Answer, Caller
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_limit

URL = "/api/v1/quota-limits/"


def post(client: APIClient, cast: Cast, *, key: str = "key-1", **further: object) -> Answer:
    body = {
        "scope": "project",
        "organization": str(cast.acme.pk),
        "project": str(cast.llm.pk),
        "size": "large",
        "limit_units": 8,
        **further,
    }
    answer: Answer = client.post(URL, body, format="json", headers={"Idempotency-Key": key})
    return answer


def put(client: APIClient, limit: QuotaLimit, units: object, *, etag: str = '"1"') -> Answer:
    headers = {"If-Match": etag} if etag else {}
    answer: Answer = client.put(
        f"{URL}{limit.pk}/", {"limit_units": units}, format="json", headers=headers
    )
    return answer


def problem_of(answer: Answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_an_administrator_sets_a_projects_limit_once(cast: Cast, caller: Caller) -> None:
    made, again = post(caller("alice"), cast), post(caller("alice"), cast)

    assert made.status_code == 201
    assert made["ETag"] == '"1"'
    assert made.json() == again.json()
    assert made.json()["limit_units"] == 8
    assert (made.json()["used_units"], made.json()["free_units"]) == (0, 8)
    assert QuotaLimit.objects.count() == AuditEntry.objects.count() == 1


def test_a_limit_that_is_set_is_not_set_over_unseen(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4)

    answer = post(caller("alice"), cast)

    assert problem_of(answer) == (409, "quota_limit_exists")
    assert answer.json()["facts"] == {"limit_id": str(limit.pk), "limit_units": 4}
    assert QuotaLimit.objects.get().limit_units == 4


def test_a_users_limit_names_a_person_of_the_organization(cast: Cast, caller: Caller) -> None:
    member = post(caller("alice"), cast, scope="user", user="carol")
    stranger = post(caller("alice"), cast, key="key-2", scope="user", user="mallory")
    nobody = post(caller("alice"), cast, key="key-3", scope="user", user="nobody")

    assert (member.status_code, member.json()["user"]) == (201, "carol")
    assert problem_of(stranger) == problem_of(nobody) == (404, "not_found")
    assert stranger.json() == nobody.json()
    assert QuotaLimit.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limit_units", -1),
        ("limit_units", 1.5),
        ("limit_units", "8"),
        ("limit_units", 10**30),
        ("size", "huge"),
        ("scope", "galaxy"),
        ("organization", "acme"),
        ("generation", 7),
        ("used_units", 7),
    ],
)
def test_what_cannot_be_a_limit_is_refused_by_field(
    cast: Cast, caller: Caller, field: str, value: object
) -> None:
    wrong: dict[str, Any] = {field: value}

    answer = post(caller("alice"), cast, **wrong)

    assert answer.status_code in {400, 422}
    assert field in {p["field"] for p in answer.json()["problems"]}
    assert not QuotaLimit.objects.exists()


def test_a_project_of_another_organization_is_refused(cast: Cast, caller: Caller) -> None:
    hidden = post(caller("alice"), cast, project=str(cast.virus.pk))
    seen = post(caller("frank"), cast, project=str(cast.virus.pk))
    foreign = post(caller("mallory"), cast)

    assert problem_of(hidden) == problem_of(foreign) == (404, "not_found")
    assert problem_of(seen) == (422, "quota_scope_invalid")
    assert seen.json()["field"] == "project"
    assert not QuotaLimit.objects.exists()


@pytest.mark.parametrize("name", ["bob", "carol", "ann", "dora"])
def test_who_only_reads_sets_nothing(cast: Cast, caller: Caller, name: str) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4)

    assert problem_of(post(caller(name), cast, size="small")) == (403, "forbidden")
    assert problem_of(put(caller(name), limit, 5)) == (403, "forbidden")
    assert QuotaLimit.objects.get().limit_units == 4


def test_an_organization_does_not_raise_its_own_ceiling(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, units=4)

    assert problem_of(put(caller("alice"), limit, 400)) == (403, "forbidden")
    assert put(caller("frank"), limit, 5).json()["limit_units"] == 5


@pytest.mark.parametrize("method", ["put", "patch"])
def test_a_change_names_the_version_it_was_made_from(
    cast: Cast, caller: Caller, method: str
) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4)
    send = getattr(caller("alice"), method)
    url, body = f"{URL}{limit.pk}/", {"limit_units": 5}

    without = send(url, body, format="json")
    changed = send(url, body, format="json", headers={"If-Match": '"1"'})
    lost = send(url, {"limit_units": 6}, format="json", headers={"If-Match": '"1"'})

    assert problem_of(without) == (428, "precondition_required")
    assert (changed.status_code, changed["ETag"], changed.json()["generation"]) == (200, '"2"', 2)
    assert problem_of(lost) == (412, "stale_version")
    assert QuotaLimit.objects.get().limit_units == 5


def test_a_change_that_breaks_the_hierarchy_shows_why(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, units=6)
    limit = make_limit(cast.acme, cast.llm, units=4)

    answer = put(caller("alice"), limit, 7)

    assert problem_of(answer) == (409, "quota_hierarchy_broken")
    assert answer.json()["problems"][0]["field"] == "limit_units"
    limit.refresh_from_db()
    assert (limit.limit_units, limit.version) == (4, 1)


def test_a_limit_is_removed_at_its_version(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4)
    client = caller("alice")

    without = client.delete(f"{URL}{limit.pk}/")
    foreign = caller("mallory").delete(f"{URL}{limit.pk}/", headers={"If-Match": '"1"'})
    removed = client.delete(f"{URL}{limit.pk}/", headers={"If-Match": '"1"'})

    assert problem_of(without) == (428, "precondition_required")
    assert problem_of(foreign) == (404, "not_found")
    assert removed.status_code == 204
    assert not QuotaLimit.objects.exists()


@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("alice", ["organization", "project", "user"]),
        ("frank", ["organization", "project", "user"]),
        ("bob", ["project", "user"]),
        ("mallory", []),
    ],
)
def test_limits_are_listed_as_far_as_a_role_reaches(
    cast: Cast, caller: Caller, name: str, scopes: list[str]
) -> None:
    make_limit(cast.acme)
    make_limit(cast.acme, cast.llm)
    make_limit(cast.acme, cast.llm, cast.carol)

    listed = caller(name).get(URL).json()["results"]

    assert sorted(row["scope"] for row in listed) == scopes


def test_a_list_shows_what_is_used_in_a_fixed_number_of_statements(
    cast: Cast, caller: Caller, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    cluster = make_cluster()
    bind(cluster, "llm", cast.llm)
    bind(cluster, "vision", cast.vision)
    hold(cluster, "llm", units=3, owner="carol")
    hold(cluster, "vision", units=2)
    hold(cluster, "nobodys", units=9)
    make_limit(cast.acme, units=9)
    make_limit(cast.acme, cast.llm, units=2)
    make_limit(cast.acme, cast.llm, cast.carol, units=1)
    client = caller("alice")

    with django_assert_max_num_queries(7):
        listed = client.get(URL).json()["results"]

    reported = {(row["limit_units"], row["used_units"], row["free_units"]) for row in listed}
    assert reported == {(9, 5, 4), (2, 3, 0), (1, 3, 0)}


def test_one_limit_is_answered_with_its_etag(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm)

    answer = caller("bob").get(f"{URL}{limit.pk}/")

    assert (answer.status_code, answer["ETag"]) == (200, '"1"')
    assert answer.json()["project"] == str(cast.llm.pk)


def test_a_limit_has_a_selector_burst_and_an_allowance(cast: Cast, caller: Caller) -> None:
    bind(make_cluster(), "llm", cast.llm)

    made = post(
        caller("alice"),
        cast,
        model_group="H100",
        cluster="hopper",
        burst_units=2,
        overcommit_percent=150,
        monthly_unit_hours=700,
    ).json()
    wide = post(caller("alice"), cast, key="key-2").json()

    assert (made["model_group"], made["cluster"], made["burst_units"]) == ("H100", "hopper", 2)
    assert (made["overcommit_percent"], made["monthly_unit_hours"]) == (150, 700)
    assert (wide["model_group"], wide["cluster"], wide["burst_units"]) == ("", None, 0)
    assert (wide["overcommit_percent"], wide["monthly_unit_hours"]) == (100, None)
    assert QuotaLimit.objects.count() == 2


def test_unlimited_is_said_with_null_and_never_by_leaving_it_out(
    cast: Cast, caller: Caller
) -> None:
    limit = make_limit(cast.acme, cast.vision, units=4)
    client, url = caller("alice"), f"{URL}{limit.pk}/"
    body = {
        "scope": "project",
        "organization": str(cast.acme.pk),
        "project": str(cast.llm.pk),
        "size": "large",
    }

    absent = client.post(URL, body, format="json", headers={"Idempotency-Key": "key-9"})
    put = client.put(url, {"burst_units": 1}, format="json", headers={"If-Match": '"1"'})
    unlimited = post(client, cast, limit_units=None)

    for answer in (absent, put):
        (problem,) = answer.json()["problems"]
        assert (answer.status_code, problem["field"]) == (422, "limit_units")
        assert problem["message"] == (
            "Send a whole number of units, or null for no limit at this level."
        )
    assert unlimited.status_code == 201
    reported = unlimited.json()
    assert (reported["limit_units"], reported["units_in_force"], reported["free_units"]) == (
        None,
        None,
        None,
    )
    limit.refresh_from_db()
    assert (limit.limit_units, limit.burst_units) == (4, 0)


def test_a_patch_changes_only_what_it_says(cast: Cast, caller: Caller) -> None:
    limit = make_limit(
        cast.acme, cast.llm, units=4, burst_units=1, overcommit_percent=200, monthly_unit_hours=9
    )
    url = f"{URL}{limit.pk}/"

    def patch(version: int, **body: object) -> dict[str, Any]:
        headers = {"If-Match": f'"{version}"'}
        answer: dict[str, Any] = (
            caller("alice").patch(url, body, format="json", headers=headers).json()
        )
        return {name: answer[name] for name in TERMS}

    assert patch(1, burst_units=3) == dict(zip(TERMS, (4, 3, 200, 9), strict=True))
    assert patch(2, monthly_unit_hours=None) == dict(zip(TERMS, (4, 3, 200, None), strict=True))
    assert patch(3, limit_units=None) == dict(zip(TERMS, (None, 3, 200, None), strict=True))
    assert patch(4, overcommit_percent=100) == dict(zip(TERMS, (None, 3, 100, None), strict=True))


TERMS = ("limit_units", "burst_units", "overcommit_percent", "monthly_unit_hours")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("burst_units", -1),
        ("burst_units", None),
        ("burst_units", "2"),
        ("overcommit_percent", 99),
        ("overcommit_percent", 1_001),
        ("overcommit_percent", True),
        ("overcommit_percent", 150.0),
        ("monthly_unit_hours", 0),
        ("monthly_unit_hours", 1.5),
        ("monthly_unit_hours", 10**12),
        ("model_group", "H100/whole"),
        ("model_group", "x" * 33),
        ("model_group", 7),
        ("model_group", " H100"),
        ("cluster", "nowhere"),
        ("cluster", "ada"),
        ("limit_units", True),
    ],
)
def test_terms_that_cannot_be_are_refused_by_field(
    cast: Cast, caller: Caller, field: str, value: object
) -> None:
    bind(make_cluster("ada"), "virus", cast.virus)

    wrong: dict[str, Any] = {field: value}

    answer = post(caller("alice"), cast, **wrong)

    assert answer.status_code in {400, 404, 422}
    body = answer.json()
    assert field in {body.get("field"), *(p["field"] for p in body.get("problems", []))}
    assert not QuotaLimit.objects.exists()


def test_a_key_is_not_used_for_another_limit(cast: Cast, caller: Caller) -> None:
    post(caller("alice"), cast)

    answer = post(caller("alice"), cast, limit_units=9)

    assert problem_of(answer) == (422, "idempotency_key_reused")
    assert QuotaLimit.objects.get().limit_units == 8


def test_a_limit_below_its_children_is_refused_with_every_one_of_them(
    cast: Cast, caller: Caller
) -> None:
    limit = make_limit(cast.acme, units=20)
    make_limit(cast.acme, cast.llm, units=9)
    make_limit(cast.acme, cast.vision, units=8)

    answer = put(caller("frank"), limit, 4)

    assert problem_of(answer) == (409, "quota_hierarchy_broken")
    assert [p["message"] for p in answer.json()["problems"]] == [
        (
            "The large limits of the projects would add up to 17, the organization's limit is 4: "
            "13 too many."
        ),
        "Project llm would have 9 large, the organization's limit is 4: 5 too many.",
        "Project vision would have 8 large, the organization's limit is 4: 4 too many.",
    ]
    limit.refresh_from_db()
    assert (limit.limit_units, limit.version) == (20, 1)


def test_a_narrow_limit_counts_only_what_it_selects(cast: Cast, caller: Caller) -> None:
    hopper, ada = make_cluster(), make_cluster("ada")
    bind(hopper, "llm", cast.llm)
    bind(ada, "llm", cast.llm)
    hold(hopper, "llm", units=3)
    hold(ada, "llm", units=4)
    for columns in (
        {},
        {"cluster": hopper},
        {"model_group": "H100", "cluster": ada},
        {"model_group": "A100"},
    ):
        make_limit(cast.acme, cast.llm, units=9, **columns)

    listed = caller("alice").get(URL).json()["results"]
    narrowed = caller("alice").get(f"{URL}?model_group=H100&cluster=ada").json()["results"]

    assert {(row["cluster"], row["model_group"], row["used_units"]) for row in listed} == {
        (None, "", 7),
        ("hopper", "", 3),
        ("ada", "H100", 4),
        (None, "A100", 0),
    }
    assert [row["used_units"] for row in narrowed] == [4]
