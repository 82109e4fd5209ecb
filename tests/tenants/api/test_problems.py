"""Tests of problem documents."""

import json

import pytest
from django.db import OperationalError, connection, transaction
from rest_framework.exceptions import Throttled

from tenants.api.problems import problem_response
from tenants.domain.errors import ConflictError, FieldProblem, InvalidInputError
from tenants.models import Organization
from tenants.selectors.locks import lock_rows
from tests.support.builders import make_organization
from tests.support.cast import make_cast
from tests.support.tenants.clients import api_client, problem
from tests.support.threads import in_thread


def test_a_refusal_is_reported_in_full() -> None:
    response = problem_response(
        InvalidInputError(
            "No.",
            field="slug",
            remedy="Do.",
            facts={"count": 1},
            problems=(FieldProblem("slug", "blank", "Name it."),),
        ),
        {},
    )

    assert response is not None
    assert response.data == {
        "type": "urn:gpu-ledger:problem:invalid_input",
        "title": "Invalid input",
        "status": 422,
        "detail": "No.",
        "code": "invalid_input",
        "remedy": "Do.",
        "field": "slug",
        "facts": {"count": 1},
        "problems": [{"field": "slug", "code": "blank", "message": "Name it."}],
    }
    assert response.content_type == "application/problem+json"


def test_what_a_refusal_has_not_is_left_out() -> None:
    response = problem_response(ConflictError("No."), {})

    assert response is not None
    assert set(response.data) == {"type", "title", "status", "detail", "code", "remedy"}


def test_a_caller_reported_to_wait_is_reported_how_long() -> None:
    response = problem_response(Throttled(wait=7), {})

    assert response is not None
    assert (response.status_code, response["Retry-After"]) == (429, "7")


@pytest.mark.parametrize("error", [ValueError("bug"), OperationalError("server gone")])
def test_a_programming_mistake_is_left_to_crash(error: Exception) -> None:
    assert problem_response(error, {}) is None


@pytest.mark.usefixtures("committed_db")
def test_a_row_somebody_else_keeps_is_busy_and_worth_another_try() -> None:
    cast = make_cast()
    other = make_organization("other")
    client = api_client(cast.frank)

    def change() -> tuple[int, str, str]:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        response = client.patch(
            f"/api/v1/organizations/{other.pk}/", {"name": "X"}, HTTP_IF_MATCH='"1"'
        )
        return (*problem(response), response["Retry-After"])

    with transaction.atomic():
        lock_rows(Organization.objects.filter(pk=other.pk))
        answer = in_thread(change)

    assert answer == (503, "busy", "1")
    other.refresh_from_db()
    assert other.name == "Other"
    assert json.loads(client.get("/api/v1/me/").content)["name"] == "frank"
