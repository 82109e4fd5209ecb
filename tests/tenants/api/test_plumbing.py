"""Tests of what every endpoint shares: problems, versions, pages, filters, strict bodies."""

import base64
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from django_filters import rest_framework as filters
from rest_framework.test import APIClient

from tenants.api.filters import StrictFilterSet
from tenants.models import Organization, Project
from tests.support.builders import make_organization, make_project
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client, problem


@pytest.fixture
def frank(cast: Cast) -> APIClient:
    return api_client(cast.frank)


# ---------------------------------------------------------------- versions


def test_an_object_is_changed_at_the_version_of_its_etag(cast: Cast, frank: APIClient) -> None:
    path = f"/api/v1/organizations/{cast.acme.pk}/"
    etag = frank.get(path)["ETag"]

    changed = frank.patch(path, {"cost_center": "C1"}, HTTP_IF_MATCH=etag)
    stale = frank.patch(path, {"cost_center": "C2"}, HTTP_IF_MATCH=etag)

    assert (etag, changed["ETag"]) == ('"1"', '"2"')
    assert (changed.status_code, changed.json()["cost_center"]) == (200, "C1")
    assert problem(stale) == (412, "stale_version")
    assert Organization.objects.get(pk=cast.acme.pk).cost_center == "C1"


@pytest.mark.parametrize("header", [None, "*", "1", 'W/"1"', '"1", "2"', '""', '"x"'])
def test_a_change_without_a_version_is_refused(
    cast: Cast, frank: APIClient, header: str | None
) -> None:
    headers = {} if header is None else {"HTTP_IF_MATCH": header}

    response = frank.patch(f"/api/v1/organizations/{cast.acme.pk}/", {"name": "X"}, **headers)  # type: ignore[arg-type]

    assert problem(response) == (428, "precondition_required")
    assert Organization.objects.get(pk=cast.acme.pk).name == "Acme"


# ---------------------------------------------------------------- bodies


def test_every_problem_of_a_body_is_reported_at_once_unknown_fields_included(
    frank: APIClient,
) -> None:
    response = frank.post(
        "/api/v1/organizations/",
        {"slug": "x" * 64, "billing_currency": 7, "state": "closed", "nmae": "New"},
    )

    assert problem(response) == (422, "invalid_input")
    assert {(p["field"], p["code"]) for p in response.json()["problems"]} == {
        ("slug", "max_length"),
        ("name", "required"),
        ("state", "unknown_field"),
        ("nmae", "unknown_field"),
    }


def test_rules_of_the_service_are_reported_by_field_too(frank: APIClient) -> None:
    response = frank.post(
        "/api/v1/organizations/",
        {"slug": "new", "name": "New", "billing_currency": "eur", "time_zone": "Mars/Olympus"},
    )

    assert problem(response) == (422, "invalid_input")
    assert {(p["field"], p["code"]) for p in response.json()["problems"]} == {
        ("billing_currency", "invalid"),
        ("time_zone", "unknown_time_zone"),
    }


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        ("{", "application/json", (400, "parse_error")),
        ("[]", "application/json", (422, "invalid_input")),
        ('"x"', "application/json", (422, "invalid_input")),
        ('{"name": "a\\u0000b"}', "application/json", (422, "invalid_input")),
        ("slug=new", "application/x-www-form-urlencoded", (415, "unsupported_media_type")),
    ],
)
def test_a_body_of_another_form_is_a_problem_and_no_crash(
    frank: APIClient, body: str, content_type: str, expected: tuple[int, str]
) -> None:
    response = frank.generic("POST", "/api/v1/organizations/", body, content_type)

    assert problem(response) == expected


# ---------------------------------------------------------------- lists


def test_pages_follow_each_other_without_gap_or_repetition(cast: Cast, frank: APIClient) -> None:
    for number in range(7):
        make_project(cast.acme, f"same-{number % 2}-{number}")
    path, seen = "/api/v1/projects/?page_size=3", []
    while path:
        answer = frank.get(path).json()
        seen += [row["slug"] for row in answer["results"]]
        path = answer["next"]

    assert seen == sorted(Project.objects.values_list("slug", flat=True))


def test_pages_ordered_by_a_column_that_repeats_are_complete(frank: APIClient) -> None:
    for number in range(5):
        make_project(make_organization(f"o{number}"), "same")
    first = frank.get("/api/v1/projects/?slug=same&page_size=2").json()
    second = frank.get(first["next"]).json()
    third = frank.get(second["next"]).json()

    ids = [row["id"] for page in (first, second, third) for row in page["results"]]
    assert (len(ids), len(set(ids)), third["next"]) == (5, 5, None)


def test_newest_audit_entries_come_first_and_page_on(cast: Cast, frank: APIClient) -> None:
    for _ in range(3):
        api_client(cast.carol)

    first = frank.get("/api/v1/audit-entries/?page_size=2").json()
    rest = frank.get(first["next"]).json()

    ids = [row["id"] for row in first["results"] + rest["results"]]
    assert len(ids) == 4
    assert ids == sorted(ids, reverse=True)


@pytest.mark.parametrize("position", ["x", "p=\x00", "o=1&p=not-a-uuid", "o=-1"])
def test_a_cursor_of_another_making_is_a_problem(frank: APIClient, position: str) -> None:
    cursor = base64.b64encode(position.encode()).decode()

    for path in ("/api/v1/memberships/", "/api/v1/audit-entries/"):
        response = frank.get(path, {"cursor": cursor})
        assert response.status_code in {200, 422}
        if response.status_code == 422:
            assert problem(response) == (422, "invalid_input")


def test_a_page_is_never_longer_than_200(cast: Cast, frank: APIClient) -> None:
    Project.objects.bulk_create(
        Project(organization=cast.acme, slug=f"p{n}", name="P", created_at=cast.acme.created_at)
        for n in range(205)
    )

    answer = frank.get("/api/v1/projects/?page_size=200").json()

    assert len(answer["results"]) == 200
    assert "cursor" in parse_qs(urlsplit(answer["next"]).query)


@pytest.mark.parametrize("size", ["201", "500", "0", "-1", "ten", "", "1.5", "٣", "9" * 5_000])
def test_a_page_of_another_size_is_refused(frank: APIClient, size: str) -> None:
    response = frank.get("/api/v1/projects/", {"page_size": size})

    assert problem(response) == (422, "invalid_input")
    assert response.json()["field"] == "page_size"
    assert response.json()["remedy"] == "Use a whole number from 1 to 200, and follow `next`."


def test_the_root_leads_to_the_sign_in_of_everybody() -> None:
    response = APIClient().get("/")

    assert (response.status_code, response["Location"]) == (302, "/accounts/sign-in/")


def test_lists_are_filtered(cast: Cast, frank: APIClient) -> None:
    answer = frank.get("/api/v1/projects/", {"organization": str(cast.umbrella.pk)}).json()
    people = frank.get("/api/v1/memberships/", {"user": "carol"}).json()

    assert [row["slug"] for row in answer["results"]] == ["virus"]
    assert [row["role"] for row in people["results"]] == ["member"]


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ("organisation=x", "organisation", "unknown_filter"),
        ("organization=x", "organization", "invalid"),
        ("state=gone", "state", "invalid_choice"),
    ],
)
def test_a_filter_that_cannot_be_used_does_not_widen_the_list(
    frank: APIClient, query: str, field: str, code: str
) -> None:
    response = frank.get(f"/api/v1/projects/?{query}")

    assert problem(response) == (422, "invalid_input")
    assert [(p["field"], p["code"]) for p in response.json()["problems"]] == [(field, code)]


@pytest.mark.parametrize("path", ["usage-records/?revision", "metering-exceptions/?window"])
@pytest.mark.parametrize(
    "number",
    ["1.5", "1e3", "-1e1000000", "-1e999999999", "1" * 5_000, str(2**63), "NaN", "%00", "x"],
)
def test_a_number_that_no_row_can_have_is_refused_at_once(
    frank: APIClient, path: str, number: str
) -> None:
    response = frank.get(f"/api/v1/{path}={number}")

    assert problem(response) == (422, "invalid_input")
    assert response.json()["field"] == path.rpartition("?")[2]


@pytest.mark.parametrize("number", ["7", "-7", "7.0", str(2**63 - 1), str(1 - 2**63)])
def test_a_whole_number_filters_a_list(frank: APIClient, number: str) -> None:
    response = frank.get(f"/api/v1/metering-exceptions/?window={number}")

    assert (response.status_code, response.json()["results"]) == (200, [])


def test_no_list_reads_decimals() -> None:
    numbers = [
        (one.__name__, name, type(column).__name__)
        for one in StrictFilterSet.__subclasses__()
        for name, column in one.base_filters.items()
        if isinstance(column, filters.NumberFilter)
    ]

    assert len(numbers) >= 7
    assert {kind for *_, kind in numbers} == {"IntegerFilter"}


def test_a_filter_that_is_no_choice_names_the_choices(frank: APIClient) -> None:
    (wrong,) = frank.get("/api/v1/projects/?state=gone").json()["problems"]

    assert wrong["message"] == "Use one of: active, closed."


@pytest.mark.parametrize(
    "resource",
    [
        "organizations",
        "projects",
        "memberships",
        "clusters",
        "namespace-bindings",
        "service-accounts",
        "api-tokens",
        "audit-entries",
    ],
)
def test_a_list_takes_the_same_statements_however_long_it_is(
    frank: APIClient, resource: str, django_assert_num_queries: object
) -> None:
    frank.get("/api/v1/me/")
    for number in range(20):
        make_project(make_organization(f"o{number}"), "p")

    with django_assert_num_queries(3):  # type: ignore[operator]
        frank.get(f"/api/v1/{resource}/")


# ---------------------------------------------------------------- paths


def test_a_reader_without_the_last_slash_is_sent_on(frank: APIClient) -> None:
    response = frank.get("/api/v1/organizations?x=1")

    assert (response.status_code, response["Location"]) == (308, "/api/v1/organizations/?x=1")


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_without_the_last_slash_is_reported_the_right_address(method: str) -> None:
    response = APIClient(enforce_csrf_checks=True).generic(
        method, "/api/v1/organizations", "{}", HTTP_AUTHORIZATION="Bearer gpl_x"
    )

    assert problem(response) == (404, "not_found")
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["remedy"] == (
        "Send it to /api/v1/organizations/, with the slash at its end."
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothing/",
        "/api/v1/nothing",
        "/api/v1/organizations/not-a-uuid/",
        "/api/v1/quota-limits//",
        "/api/v1/quota-limit/abc/",
        "/api/v1",
        "/api/v2/me/",
        "/api",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_where_nothing_hangs_a_problem_answers(method: str, path: str) -> None:
    response = APIClient(enforce_csrf_checks=True).generic(method, path)

    assert problem(response) == (404, "not_found")
    assert response["Content-Type"] == "application/problem+json"
    assert "/api/v1/docs/" in response.json()["remedy"]


def test_a_method_that_is_not_offered_names_those_that_are(cast: Cast, frank: APIClient) -> None:
    response = frank.delete(f"/api/v1/organizations/{cast.acme.pk}/")

    assert problem(response) == (405, "method_not_allowed")
    assert "PATCH" in response["Allow"]


@pytest.mark.django_db
def test_the_description_and_its_page_are_open() -> None:
    client = APIClient()

    schema = client.get("/api/v1/schema/")
    page = client.get("/api/v1/docs/")

    assert yaml.safe_load(schema.content)["openapi"] == "3.1.0"
    assert client.get("/api/v1/schema/", HTTP_IF_NONE_MATCH=schema["ETag"]).status_code == 304
    assert page.status_code == 200
    assert "swagger-ui" in page.content.decode()
    assert "https://cdn" not in page.content.decode()


@pytest.mark.django_db
def test_the_description_shows_of_headers_problems_and_credentials() -> None:
    schema = yaml.load(APIClient().get("/api/v1/schema/").content, Loader=yaml.CSafeLoader)
    change = schema["paths"]["/api/v1/projects/{id}/"]["patch"]
    make = schema["paths"]["/api/v1/projects/"]["post"]

    assert _headers(change) == {"If-Match": True}
    assert _headers(make) == {"Idempotency-Key": False}
    assert change["responses"]["412"] == {"$ref": "#/components/responses/412"}
    assert set(schema["components"]["responses"]["412"]["content"]) == {"application/problem+json"}
    assert schema["components"]["securitySchemes"]["apiToken"]["scheme"] == "bearer"


def _headers(operation: dict[str, list[dict[str, object]]]) -> dict[object, object]:
    return {
        p["name"]: p.get("required", False) for p in operation["parameters"] if p["in"] == "header"
    }
