"""Tests of the headers of every answer."""

import pytest
from django.test import Client

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
