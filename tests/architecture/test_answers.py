"""What the API answers is what its description says: every list and every detail."""

import json
from typing import Any

import pytest
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator, ValidationError
from rest_framework.test import APIClient

from tenants.domain.identity.roles import Role
from tests.architecture.rows import make_set
from tests.architecture.test_queries import NEEDS_RANGE, RANGE, lists
from tests.support.builders import grant, make_user

ROWS_MAX = 5
"""Of each list: rows of one making differ in nothing that their schema says."""

OTHER_KEYS = ("organization", "project", "limit", "version")
"""What names a row in its path where its answer has no field of the parameter's name."""


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    return SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-any-return,no-untyped-call]


def problems(description: dict[str, Any], operation: str, answer: HttpResponse) -> list[str]:
    """Return where an answer is not what the operation's description says."""
    assert answer.status_code == 200, (operation, answer.content)
    responses = description["paths"][operation]["get"]["responses"]
    schema = responses["200"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator(
        {**schema, "components": description["components"]},
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    return sorted(
        {
            f"{operation} {_place(error)}: {error.message[:160]}"
            for error in validator.iter_errors(json.loads(answer.content))
        }
    )


def _place(error: ValidationError) -> str:
    return ".".join("*" if isinstance(part, int) else str(part) for part in error.absolute_path)


@pytest.mark.django_db
def test_every_list_and_every_detail_is_what_the_description_says(
    description: dict[str, Any],
) -> None:
    frank = make_user("frank")
    grant(frank, Role.PLATFORM_ADMIN)
    grant(frank, Role.FINANCE_ADMIN)
    client = APIClient()
    client.force_login(frank)
    for number in range(2):
        make_set(number)
    details = {path for path in description["paths"] if path.endswith("}/")}

    wrong = []
    for name in lists():
        answer = client.get(f"/api/v1/{name}/", RANGE if name in NEEDS_RANGE else {})
        wrong += problems(description, f"/api/v1/{name}/", answer)
        body = json.loads(answer.content)
        rows = body.get("results", []) if isinstance(body, dict) else body
        for path in sorted(details):
            place, _, key = path.rstrip("}/").rpartition("{")
            if place != f"/api/v1/{name}/" or "get" not in description["paths"][path]:
                continue
            for row in rows[:ROWS_MAX]:
                value = next(row[name] for name in (key, *OTHER_KEYS) if name in row)
                wrong += problems(description, path, client.get(f"{place}{value}/"))

    assert not wrong, "\n" + "\n".join(dict.fromkeys(wrong))
