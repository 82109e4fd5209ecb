"""What the API answers is what its description says: every list and every detail."""

import json

import pytest
from rest_framework.test import APIClient

from tenants.domain.identity.roles import Role
from tests.architecture.rows import make_set
from tests.architecture.test_queries import NEEDS_RANGE, RANGE, lists
from tests.support.builders import grant, make_user
from tests.support.description import PREFIX, description, problems

ROWS_MAX = 5
"""Of each list: rows of one making differ in nothing that their schema says."""

OTHER_KEYS = ("organization", "project", "limit", "version")
"""What names a row in its path where its answer has no field of the parameter's name."""


@pytest.mark.django_db
def test_every_list_and_every_detail_is_what_the_description_says() -> None:
    frank = make_user("frank")
    grant(frank, Role.PLATFORM_ADMIN)
    grant(frank, Role.FINANCE_ADMIN)
    client = APIClient()
    client.force_login(frank)
    for number in range(2):
        make_set(number)
    details = {path for path in description()["paths"] if path.endswith("}/")}

    wrong = []
    for name in lists():
        answer = client.get(f"{PREFIX}{name}/", RANGE if name in NEEDS_RANGE else {})
        assert answer.status_code == 200, (name, answer.content)
        wrong += problems(f"GET {name}/", answer)
        body = json.loads(answer.content)
        rows = body.get("results", []) if isinstance(body, dict) else body
        for path in sorted(details):
            place, _, key = path.rstrip("}/").rpartition("{")
            if place != f"{PREFIX}{name}/" or "get" not in description()["paths"][path]:
                continue
            for row in rows[:ROWS_MAX]:
                value = next(row[name] for name in (key, *OTHER_KEYS) if name in row)
                detail = client.get(f"{place}{value}/")
                assert detail.status_code == 200, (place, value, detail.content)
                wrong += problems(f"GET {name}/pk/", detail)

    assert not wrong, "\n" + "\n".join(dict.fromkeys(wrong))


@pytest.mark.django_db
def test_every_order_and_every_name_that_a_list_offers_is_answered() -> None:
    frank = make_user("frank")
    grant(frank, Role.PLATFORM_ADMIN)
    grant(frank, Role.FINANCE_ADMIN)
    client = APIClient()
    client.force_login(frank)
    make_set(0)

    wrong, offered = [], 0
    for name in lists():
        path = f"{PREFIX}{name}/"
        choices = {
            one["name"]: one["schema"].get("enum") or one["schema"]["items"]["enum"]
            for one in description()["paths"][path]["get"].get("parameters", ())
            if one["name"] in {"ordering", "expand"}
        }
        queries = [{"ordering": order} for order in choices.get("ordering", ())]
        queries += [{"expand": ",".join(choices["expand"])}] if "expand" in choices else []
        for query in queries:
            answer = client.get(path, {**query, **(RANGE if name in NEEDS_RANGE else {})})
            assert answer.status_code == 200, (name, query, answer.content)
            wrong += problems(f"GET {name}/", answer)
        offered += len(queries)

    assert not wrong, "\n" + "\n".join(dict.fromkeys(wrong))
    assert offered > len(lists())
