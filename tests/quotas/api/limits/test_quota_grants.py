"""/api/v1/quota-grants/ through HTTP."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from quotas.models import QuotaGrant, QuotaLimit
from tenants.models import AuditEntry
from tests.quotas.api.conftest import Answer, Caller
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import make_grant, make_limit

URL = "/api/v1/quota-grants/"
NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def post(client: APIClient, on: QuotaLimit, *, key: str = "key-1", **further: object) -> Answer:
    body = {"limit": str(on.pk), "units": 4, "valid_until": reported(NOW + DAY), **further}
    answer: Answer = client.post(URL, body, format="json", headers={"Idempotency-Key": key})
    return answer


def end(client: APIClient, grant: QuotaGrant, *, etag: str = '"1"', **body: object) -> Answer:
    headers = {"If-Match": etag} if etag else {}
    answer: Answer = client.post(f"{URL}{grant.pk}/end/", body, format="json", headers=headers)
    return answer


def reported(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def problem_of(answer: Answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_an_administrator_grants_units_until_tomorrow_once(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    made = post(caller("alice"), limit, note="For the demo.")
    again = post(caller("alice"), limit, note="For the demo.")

    assert (made.status_code, made["ETag"]) == (201, '"1"')
    assert made.json() == again.json()
    body = made.json()
    assert (body["limit"], body["units"], body["grant_state"]) == (str(limit.pk), 4, "in_force")
    assert (body["organization"], body["project"]) == (str(cast.acme.pk), str(cast.llm.pk))
    assert (body["reason"], body["note"], body["reference"]) == ("manual", "For the demo.", "")
    assert body["valid_until"] == reported(NOW + DAY)
    assert QuotaGrant.objects.count() == AuditEntry.objects.count() == 1
    shown = caller("alice").get(f"/api/v1/quota-limits/{limit.pk}/").json()
    assert (shown["limit_units"], shown["units_in_force"], shown["free_units"]) == (8, 12, 12)


def test_a_key_is_not_used_for_another_grant(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    post(caller("alice"), limit)

    answer = post(caller("alice"), limit, units=5)

    assert problem_of(answer) == (422, "idempotency_key_reused")
    assert QuotaGrant.objects.get().units == 4


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("units", 0, "whole number of units"),
        ("units", 1.5, "whole number of units"),
        ("units", "4", "whole number of units"),
        ("units", True, "whole number of units"),
        ("units", 10**30, "whole number of units"),
        ("units", None, "null"),
        ("limit", "acme", "UUID"),
        ("valid_from", "2020-01-01T00:00:00Z", "Leave valid_from out to begin now"),
        ("valid_from", "yesterday", "format"),
        ("valid_from", "9999-12-31T23:59:59Z", "Name a time before"),
        ("valid_until", "2020-01-01T00:00:00Z", "Name a time to come"),
        ("valid_until", "9999-12-31T23:59:59Z", "Name a time before"),
        ("valid_until", 7, "format"),
        ("reason", "loan", "not known here"),
        ("reference", "loan-1", "not known here"),
    ],
)
def test_what_cannot_be_a_grant_is_refused_by_field_with_a_remedy(
    cast: Cast, caller: Caller, field: str, value: object, remedy: str
) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    wrong: dict[str, Any] = {field: value}

    answer = post(caller("alice"), limit, **wrong)

    assert answer.status_code in {400, 422}
    shown_of = {p["field"]: p["message"] for p in answer.json()["problems"]}
    assert remedy in shown_of[field]
    assert not QuotaGrant.objects.exists()


def test_a_grant_that_breaks_the_hierarchy_shows_every_reason(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, units=10)
    make_limit(cast.acme, cast.vision, units=4)
    limit = make_limit(cast.acme, cast.llm, units=6)

    answer = post(caller("alice"), limit, units=5)

    assert problem_of(answer) == (409, "quota_hierarchy_broken")
    assert [(p["field"], p["code"]) for p in answer.json()["problems"]] == [
        ("units", "projects_exceed_organization"),
        ("units", "project_exceeds_organization"),
    ]
    assert not QuotaGrant.objects.exists()


@pytest.mark.parametrize(
    ("name", "status"),
    [("bob", 403), ("carol", 403), ("dora", 403), ("ann", 403), ("mallory", 404)],
)
def test_who_may_not_write_the_limit_grants_nothing(
    cast: Cast, caller: Caller, name: str, status: int
) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    grant = make_grant(limit, 1)

    assert post(caller(name), limit).status_code == status
    assert end(caller(name), grant).status_code == status
    assert QuotaGrant.objects.get().version == 1


def test_a_grant_ends_at_its_version_now_or_when_reported(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    first, second = make_grant(limit, 1), make_grant(limit, 2)
    client = caller("alice")

    without = end(client, first, etag="")
    stale = end(client, first, etag='"2"')
    at_once = end(client, first)
    later = end(client, second, valid_until=reported(NOW + DAY))

    assert problem_of(without) == (428, "precondition_required")
    assert problem_of(stale) == (412, "stale_version")
    assert (at_once.status_code, at_once["ETag"]) == (200, '"2"')
    assert at_once.json()["grant_state"] == "over"
    assert (later.json()["grant_state"], later.json()["valid_until"]) == (
        "in_force",
        reported(NOW + DAY),
    )


def test_a_grant_to_come_is_cancelled(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    grant = make_grant(limit, 1, NOW + DAY, NOW + 2 * DAY)

    before = caller("bob").get(f"{URL}{grant.pk}/").json()
    after = end(caller("alice"), grant).json()

    assert (before["grant_state"], before["valid_from"]) == ("coming", reported(NOW + DAY))
    assert (after["grant_state"], after["valid_from"], after["valid_until"]) == (
        "cancelled",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("reason", "body", "code"),
    [
        ("loan", {}, (409, "quota_grant_lent")),
        ("manual", {"valid_until": "2020-01-01T00:00:00Z"}, (422, "quota_input_invalid")),
        ("manual", {"valid_until": reported(NOW + 3 * DAY)}, (409, "quota_grant_over")),
        ("manual", {"units": 3}, (422, "invalid_input")),
    ],
)
def test_an_end_that_cannot_be_is_refused_and_the_grant_stays(
    cast: Cast, caller: Caller, reason: str, body: dict[str, Any], code: tuple[int, str]
) -> None:
    grant = make_grant(make_limit(cast.acme, cast.llm), 1, AT, NOW + 2 * DAY, reason=reason)

    answer = end(caller("alice"), grant, **body)

    assert problem_of(answer) == code
    grant.refresh_from_db()
    assert (grant.version, grant.valid.upper) == (1, NOW + 2 * DAY)


@pytest.mark.parametrize(
    ("name", "units"),
    [("alice", [1, 2]), ("frank", [1, 2, 3]), ("bob", [2]), ("mallory", [3])],
)
def test_grants_are_listed_as_far_as_a_role_reaches(
    cast: Cast, caller: Caller, name: str, units: list[int]
) -> None:
    make_grant(make_limit(cast.acme), 1)
    make_grant(make_limit(cast.acme, cast.llm), 2)
    make_grant(make_limit(cast.umbrella), 3)

    listed = caller(name).get(URL).json()["results"]

    assert sorted(row["units"] for row in listed) == units


def test_grants_are_filtered_by_what_they_are(
    cast: Cast, caller: Caller, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    limit = make_limit(cast.acme, cast.llm)
    make_grant(limit, 1, AT, AT + DAY)
    make_grant(limit, 2, AT + DAY, None, reason="loan", reference="loan-1")
    make_grant(make_limit(cast.acme), 3, AT, AT + 3 * DAY)
    client = caller("alice")

    def units(query: str) -> list[int]:
        return sorted(row["units"] for row in client.get(f"{URL}?{query}").json()["results"])

    with django_assert_max_num_queries(5):
        assert units(f"limit={limit.pk}") == [1, 2]
    assert units("reason=loan&reference=loan-1") == [2]
    assert units(f"project={cast.llm.pk}") == [1, 2]
    assert units("in_force_at=2026-11-02T09:00:00Z") == [1, 3]
    assert units("in_force_at=2026-11-03T09:00:00Z") == [2, 3]
