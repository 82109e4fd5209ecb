"""Tests of the headers of every answer."""

import pytest
from django.test import Client

from tenants.domain.identity.roles import Role
from tests.support.builders import grant, make_organization, make_project, make_user
from tests.support.tenants.clients import api_client


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/v1/me/", "/api/v1/no-such-thing/", "/api/v1/docs/"])
def test_no_answer_of_the_api_may_be_kept(path: str) -> None:
    assert Client().get(path)["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/admin/login/", "/api/v1/docs/", "/no-such-page"])
def test_a_page_runs_no_script_and_no_style_that_is_not_a_file_of_ours(path: str) -> None:
    policy = dict(
        rule.split(" ", 1) for rule in Client().get(path)["Content-Security-Policy"].split("; ")
    )

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self' 'unsafe-eval'"
    assert "'unsafe-inline'" not in policy["style-src"]
    assert policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "Content-Security-Policy" not in api_client().get("/api/v1/me/")


@pytest.mark.django_db
def test_a_list_that_is_as_the_caller_has_it_is_not_sent_again() -> None:
    frank, address = make_user("frank"), "/api/v1/projects/"
    grant(frank, Role.PLATFORM_ADMIN)
    client = api_client(frank)
    first = client.get(address)

    same = client.get(address, headers={"If-None-Match": first["ETag"]})
    make_project(make_organization("acme"), "llm")
    other = client.get(address, headers={"If-None-Match": first["ETag"]})

    assert first["ETag"].startswith('W/"')
    assert (same.status_code, same.content, same["ETag"]) == (304, b"", first["ETag"])
    assert (other.status_code, len(other.json()["results"])) == (200, 1)
    assert other["ETag"] != first["ETag"]
