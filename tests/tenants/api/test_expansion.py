"""Names beside the ids of an answer: what `expand` adds, to whom, and at what cost."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client, problem


def rows_of(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["slug"]: row for row in body["results"]}


def test_a_row_names_what_it_points_at(cast: Cast) -> None:
    client = api_client(cast.frank)

    plain = rows_of(client.get("/api/v1/projects/").json())
    named = rows_of(client.get("/api/v1/projects/?expand=organization").json())

    acme = {"id": str(cast.acme.pk), "slug": "acme", "name": "Acme"}
    assert named["llm"] == {**plain["llm"], "expanded": {"organization": acme}}
    assert named["virus"]["expanded"]["organization"]["slug"] == "umbrella"
    one = client.get(f"/api/v1/projects/{cast.llm.pk}/?expand=organization")
    assert (one.json(), one["ETag"]) == (named["llm"], '"1"')


def test_names_cost_one_statement_a_kind_however_many_rows_there_are(cast: Cast) -> None:
    client = api_client(cast.frank)
    hopper = make_cluster()
    bind(hopper, "a", cast.llm)
    client.get("/api/v1/me/")

    def statements(address: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
        return len(captured)

    plain = statements("/api/v1/namespace-bindings/")
    one = statements("/api/v1/namespace-bindings/?expand=project")
    bind(hopper, "b", cast.vision)
    many = statements("/api/v1/namespace-bindings/?expand=project")

    assert (one, many) == (plain + 1, plain + 1)


def test_an_answer_without_such_ids_expands_nothing(cast: Cast) -> None:
    client = api_client(cast.frank)

    for address, remedy in (
        ("projects/?expand=organization,cluster", "Use some of: organization."),
        (f"projects/{cast.llm.pk}/?expand=version", "Use some of: organization."),
        ("organizations/?expand=", "Leave `expand` out."),
    ):
        answer = client.get(f"/api/v1/{address}")
        assert problem(answer) == (422, "invalid_input")
        assert (answer.json()["field"], answer.json()["remedy"]) == ("expand", remedy)


@pytest.mark.parametrize("name", ["carol", "mallory"])
def test_a_name_is_shown_only_to_those_who_see_the_object(cast: Cast, name: str) -> None:
    answer = api_client(getattr(cast, name)).get("/api/v1/memberships/?expand=organization,project")

    seen = {
        named["slug"]
        for row in answer.json()["results"]
        for named in row["expanded"].values()
        if named is not None
    }
    assert seen == ({"llm"} if name == "carol" else {"umbrella"})


def test_the_parameter_may_be_repeated_as_clients_of_the_description_do(cast: Cast) -> None:
    client = api_client(cast.alice)

    answers = [
        client.get(f"/api/v1/memberships/?{query}").json()["results"]
        for query in ("expand=organization,project", "expand=organization&expand=project")
    ]

    assert answers[0] == answers[1]
    assert {"organization", "project"} <= set(answers[0][0]["expanded"])
