"""Every list of the API costs the same few statements, with three rows and with thirty.

tests/query_counts.json holds the golden figures. A higher one needs a reason; a lower one is
written down, so that it stays.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from tenants.domain.identity.roles import Role
from tests.architecture.rows import make_set
from tests.architecture.source import ROOT
from tests.support.builders import grant, make_user

GOLDEN = ROOT / "tests" / "query_counts.json"
FEW, MANY = 3, 30
RANGE = {
    "window_start_from": "2026-10-01T00:00:00Z",
    "window_start_before": "2026-10-02T00:00:00Z",
}
UNPAGED = ("usage-summary",)
NEEDS_RANGE = ("usage-records", "usage-summary", "capacity-records")


def routes(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, prefix + str(pattern.pattern))
        else:
            yield prefix + str(pattern.pattern), pattern


def lists() -> list[str]:
    """Return the names of all lists in the API, such as "quota-limits"."""
    return sorted(
        route.removeprefix("api/v1/").rstrip("/")
        for route, pattern in routes(get_resolver())
        if getattr(pattern.callback, "actions", {}).get("get") == "list"
    )


def ask(reader: User, name: str) -> tuple[int, int]:
    """Return how many statements a list cost, and how many rows it had.

    In a session that has just begun: one that is a minute old is written with its first answer,
    which takes three statements more, and the rows may have taken longer than that to make.
    """
    client = APIClient()
    client.force_login(reader)
    pages = {} if name in UNPAGED else {"page_size": "200"}
    query = {**pages, **(RANGE if name in NEEDS_RANGE else {})}
    with CaptureQueriesContext(connection) as statements:
        answer = client.get(f"/api/v1/{name}/", query)
    assert answer.status_code == 200, (name, answer.content)
    body: Any = answer.json()
    rows = body if isinstance(body, list) else body.get("results", body.get("totals"))
    assert rows is not None, (name, list(body))
    return len(statements), len(rows)


def without_figure(names: Iterable[str], golden: Collection[str]) -> list[str]:
    """Return lists that have no golden figure, and figures of lists that are no more."""
    return sorted(set(names) ^ set(golden))


def test_every_list_has_a_golden_figure() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))

    assert without_figure(lists(), golden) == []
    assert list(golden) == sorted(golden)


@pytest.mark.django_db
def test_no_list_costs_more_statements_for_more_rows() -> None:
    frank = make_user("frank")
    grant(frank, Role.PLATFORM_ADMIN)
    grant(frank, Role.FINANCE_ADMIN)
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))

    for number in range(FEW):
        make_set(number)
    few = {name: ask(frank, name) for name in lists()}
    for number in range(FEW, MANY):
        make_set(number)
    many = {name: ask(frank, name) for name in lists()}

    costs = {name: cost for name, (cost, _) in few.items()}
    assert costs == golden, json.dumps(costs, indent=2)
    assert {name: cost for name, (cost, _) in many.items()} == golden
    assert [name for name, (_, rows) in few.items() if rows < FEW] == []
    assert [name for name, (_, rows) in many.items() if rows < MANY] == []
