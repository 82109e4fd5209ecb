"""Cursor pages: what was there at the start is reported exactly once, whatever comes in between."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tenants.domain.actors import system_actor
from tenants.domain.identity.roles import Role
from tenants.services.audit import record
from tenants.services.identity.tokens import create_service_account
from tests.support.builders import (
    AT,
    bind,
    grant,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client, problem

SEED = system_actor("seed")
ROWS = 7
UUID_TEXT = "01a2039e-0b83-79ed-972d-5f5f2e7a5ee4"
Maker = Callable[[Cast, int], object]


def note(cast: Cast, number: int) -> None:
    record(
        actor=SEED,
        at=AT,
        action="tenants:test:note",
        object_kind="note",
        object_id=number,
        organization_id=cast.acme.pk,
    )


MAKERS: dict[str, Maker] = {
    "organizations": lambda _, n: make_organization(f"org-{n:03}"),
    "projects": lambda cast, n: make_project(cast.acme, f"project-{n:03}"),
    "clusters": lambda _, n: make_cluster(f"cluster-{n:03}"),
    "memberships": lambda cast, n: grant(make_user(f"user-{n}"), Role.MEMBER, project=cast.llm),
    "service-accounts": lambda cast, n: create_service_account(
        organization=cast.acme, slug=f"bot-{n:03}", name="Bot", actor=SEED, at=AT
    ),
    "namespace-bindings": lambda cast, n: bind(make_cluster(f"c-{n:03}"), "ns", cast.llm),
    "audit-entries": note,
}


def page(client: APIClient, address: str) -> tuple[list[str], str | None, str | None]:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return [str(row["id"]) for row in body["results"]], body["next"], body["previous"]


@pytest.mark.parametrize("noun", sorted(MAKERS))
@pytest.mark.parametrize("first", [0, 500], ids=["behind", "before"])
def test_rows_that_come_in_between_neither_hide_nor_repeat_another(
    cast: Cast, noun: str, first: int
) -> None:
    make, client = MAKERS[noun], api_client(cast.frank)
    for number in range(100, 100 + ROWS):
        make(cast, number)
    there = set(page(client, f"/api/v1/{noun}/?page_size=200")[0])

    seen: list[str] = []
    address: str | None = f"/api/v1/{noun}/?page_size=2"
    for step in range(first, first + 40):
        if address is None:
            break
        found, address, _ = page(client, address)
        assert len(found) <= 2
        seen += found
        make(cast, step)
        if len(seen) >= len(there) + 8:
            break

    assert len(seen) == len(set(seen))
    assert there - set(seen) == set()


@pytest.mark.parametrize("noun", sorted(MAKERS))
def test_walking_back_shows_the_same_rows_in_the_same_order(cast: Cast, noun: str) -> None:
    client = api_client(cast.frank)
    for number in range(100, 100 + ROWS):
        MAKERS[noun](cast, number)
    address: str | None = f"/api/v1/{noun}/?page_size=3"
    forth: list[str] = []
    pages: list[str | None] = []
    back: list[str] = []
    while address is not None:
        found, address, behind = page(client, address)
        forth += found
        pages.append(behind)
    behind = pages[-1]
    last = len(found)
    while behind is not None:
        found, _, behind = page(client, behind)
        back = found + back

    assert forth == page(client, f"/api/v1/{noun}/?page_size=200")[0]
    assert back == forth[:-last]


@pytest.mark.parametrize("cursor", ["x", "bzE9", "cD0x", "%00", "cj0xJnA9eHl6", "é"])
@pytest.mark.parametrize("noun", ["projects", "audit-entries", "memberships"])
def test_a_cursor_of_nowhere_is_refused_or_a_page_and_never_a_crash(
    cast: Cast, noun: str, cursor: str
) -> None:
    answer = api_client(cast.frank).get(f"/api/v1/{noun}/", {"cursor": cursor})

    if answer.status_code != 200:
        assert problem(answer) == (422, "invalid_input")
        assert answer.json()["field"] == "cursor"


@pytest.mark.parametrize(
    ("noun", "values"),
    [
        ("clusters", ["\ud800", UUID_TEXT]),
        ("quota-limits", ["2026-01-01T00:00:00+23:59", UUID_TEXT]),
        ("waste-savings", ["1E+400000", "1"]),
    ],
)
@pytest.mark.parametrize("is_backwards", [0, 1])
def test_a_changed_cursor_whose_values_no_column_holds_is_refused(
    cast: Cast, noun: str, values: list[str], is_backwards: int
) -> None:
    cursor = urlsafe_b64encode(json.dumps([is_backwards, *values]).encode()).decode()

    answer = api_client(cast.frank).get(f"/api/v1/{noun}/", {"cursor": cursor})

    assert problem(answer) == (422, "invalid_input")
    assert answer.json()["field"] == "cursor"


@pytest.mark.parametrize(
    ("noun", "query", "reported"),
    [
        ("projects", "slug=llm", ["llm"]),
        ("projects", "slug=LLM", []),
        ("projects", "state=closed", []),
        ("organizations", "slug=umbrella&state=active", ["umbrella"]),
        ("organizations", "slug=acme&state=closed", []),
        ("projects", "organization={umbrella}", ["virus"]),
        ("projects", "organization={umbrella}&slug=llm", []),
    ],
)
def test_filters_are_exact_and_all_of_them_hold(
    cast: Cast, noun: str, query: str, reported: list[str]
) -> None:
    address = f"/api/v1/{noun}/?{query.format(umbrella=cast.umbrella.pk)}"

    rows = api_client(cast.frank).get(address).json()["results"]

    assert [row["slug"] for row in rows] == reported


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("organization=acme", "organization"),
        ("state=gone", "state"),
        ("name=llm", "name"),
        ("organisation=x", "organisation"),
        ("slug__startswith=l", "slug__startswith"),
    ],
)
def test_a_filter_that_cannot_be_used_is_refused_and_never_widens_the_list(
    cast: Cast, query: str, field: str
) -> None:
    answer = api_client(cast.frank).get(f"/api/v1/projects/?{query}")

    assert problem(answer) == (422, "invalid_input")
    assert [found["field"] for found in answer.json()["problems"]] == [field]


@pytest.mark.parametrize("order", ["name", "-name", "-created_at"])
def test_a_list_is_paged_in_the_order_asked_for(cast: Cast, order: str) -> None:
    for number, name in enumerate(("Zeta", "Alpha", "Mid")):
        project = make_project(cast.acme, f"project-{number}")
        type(project).objects.filter(pk=project.pk).update(name=name)
    client, field = api_client(cast.frank), order.removeprefix("-")

    rows, address = [], f"/api/v1/projects/?ordering={order}&page_size=2"
    while address:
        body = client.get(address).json()
        rows += body["results"]
        address = body["next"]

    assert len({row["id"] for row in rows}) == len(rows) == 6
    values = [row[field] for row in rows]
    assert values == sorted(values, reverse=order.startswith("-"))


def test_an_order_that_a_list_has_not_is_refused_with_those_it_has(cast: Cast) -> None:
    answer = api_client(cast.frank).get("/api/v1/projects/?ordering=tax_id")

    assert problem(answer) == (422, "invalid_input")
    assert answer.json()["field"] == "ordering"
    assert answer.json()["remedy"] == (
        "Use one of: slug, -slug, name, -name, created_at, -created_at."
    )


@pytest.mark.parametrize("other", ["", "&ordering=-slug", "&ordering=name"])
def test_a_cursor_of_another_order_is_refused(cast: Cast, other: str) -> None:
    client = api_client(cast.frank)
    begun = client.get("/api/v1/projects/?ordering=slug&page_size=1").json()["next"]
    cursor = begun.partition("cursor=")[2].partition("&")[0]

    answer = client.get(f"/api/v1/projects/?page_size=1&cursor={cursor}{other}")

    assert problem(answer) == (422, "invalid_input")
    assert answer.json()["field"] == "cursor"


@pytest.mark.parametrize(
    ("time", "status"),
    [("2026-10-01T00:00:00%2B23:59", 200), ("0001-01-01T00:00:00%2B01:00", 422)],
)
def test_a_time_may_have_any_offset_that_leads_to_a_time(
    cast: Cast, time: str, status: int
) -> None:
    answer = api_client(cast.frank).get(f"/api/v1/audit-entries/?occurred_from={time}")

    assert answer.status_code == status
    if status == 422:
        assert problem(answer) == (422, "invalid_input")
        assert answer.json()["field"] == "occurred_from"
