"""No way into another organization: every operation of the API, by every caller, at every place.

What stands in `reach.py` is what must happen; here it happens.
"""

import json
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.http import HttpResponse
from rest_framework.test import APIClient

from tests.support.digest import ledger_digest
from tests.support.flows.estate import (
    PLACES,
    WORDS_OF_ACME,
    WORDS_OF_UMBRELLA,
    Estate,
)
from tests.support.flows.operations import BODIES, operations, reported, send_body
from tests.support.flows.reach import CALLERS, PUBLIC, REACH
from tests.support.sampling import soaked
from tests.support.tenants.clients import api_client, problem

pytestmark = pytest.mark.usefixtures("unlogged")
LETTERS = {401: "-", 403: "f", 404: "n", 409: "r"}
FOREIGN_WORDS = {
    **dict.fromkeys(("carol", "bob", "alice", "robot"), WORDS_OF_UMBRELLA),
    "mallory": WORDS_OF_ACME,
}
"""What no answer to a tenant's people may say; the platform's people see everything."""


def client_of(estate: Estate, name: str) -> APIClient:
    if name == "robot":
        return api_client(estate.robot, scopes=("billing:invoice:read",))
    return api_client(getattr(estate.cast, name))


def answered(
    client: APIClient, operation: str, place: dict[str, Any], *, body: dict[str, Any] | None = None
) -> HttpResponse:
    """Send an operation; what it did is undone, unless it was refused."""
    before = transaction.savepoint()
    answer = send_body(
        client, operation, place, BODIES.get(operation, {}) if body is None else body
    )
    if answer.status_code < 400:
        transaction.savepoint_rollback(before)
    else:
        transaction.savepoint_commit(before)
        problem(answer)
    return answer


def letter_of(answer: HttpResponse, operation: str) -> str:
    if answer.status_code >= 400:
        return LETTERS.get(answer.status_code, f"?{answer.status_code}")
    is_json = answer.headers.get("Content-Type", "").startswith("application/json")
    is_list = operation.startswith("GET") and "pk" not in operation.split("/")
    rows = json.loads(answer.content) if is_list and is_json else {}
    return "e" if [] in (rows.get("results"), rows.get("totals")) else "y"


def test_every_operation_stands_in_the_table_and_no_other() -> None:
    assert sorted({*REACH, *PUBLIC}) == operations()
    assert {len(word) for row in REACH.values() for word in row} == {len(CALLERS)}


@pytest.mark.parametrize("name", [name if name == "mallory" else soaked(name) for name in CALLERS])
def test_a_caller_reaches_what_the_table_says_and_hears_of_nothing_else(
    estate: Estate, name: str
) -> None:
    client = client_of(estate, name)
    client.get("/api/v1/me/")
    column = CALLERS.index(name)
    before = ledger_digest()
    reached, leaks, oracles = {}, [], []
    for operation in REACH:
        answers = [answered(client, operation, estate.places[place]) for place in PLACES]
        reached[operation] = "".join(letter_of(answer, operation) for answer in answers)
        for place, answer in zip(PLACES, answers, strict=True):
            words = _foreign_words(estate, name, place)
            text = reported(answer) if words else ""
            leaks += [(operation, place, word) for word in words if word in text]
        hidden, missing = answers[1:]
        if (hidden.status_code, missing.status_code) == (404, 404):
            oracles += [operation] if hidden.content != missing.content else []

    assert reached == {
        operation: "".join(word[column] for word in row) for operation, row in REACH.items()
    }
    assert leaks == []
    assert oracles == []
    assert ledger_digest() == before


def _foreign_words(estate: Estate, name: str, place: str) -> list[str]:
    """Return the words and identifiers that must not be in an answer at a place."""
    words = list(FOREIGN_WORDS.get(name, ()))
    foreign = "own" if name == "mallory" else "other"
    if words and place != foreign:
        here = set(estate.places[place].values())
        keys = set(estate.places[foreign].values()) - here
        words += [str(key) for key in keys if isinstance(key, UUID)]
    return words


def test_who_does_not_say_who_calls_is_refused_everywhere(estate: Estate) -> None:
    client, before = APIClient(), ledger_digest()
    statuses = {
        operation: answered(client, operation, estate.places["own"]).status_code
        for operation in (*REACH, *PUBLIC)
    }

    assert {operation for operation, status in statuses.items() if status == 200} == PUBLIC
    assert set(statuses.values()) == {200, 401}
    assert ledger_digest() == before


def test_a_body_cannot_move_a_row_between_organizations(estate: Estate) -> None:
    """A field that names another place is unknown where a row is changed."""
    frank, before = client_of(estate, "frank"), ledger_digest()
    for noun in ("organizations", "projects", "clusters", "quota-limits"):
        answer = frank.patch(
            f"/api/v1/{noun}/{estate.places['own'][noun]}/",
            {"organization": str(estate.cast.umbrella.pk), "id": str(estate.cast.virus.pk)},
            headers={"If-Match": '"1"'},
        )

        assert problem(answer) == (422, "invalid_input"), noun
        codes = {(found["field"], found["code"]) for found in answer.json()["problems"]}
        assert {("id", "unknown_field"), ("organization", "unknown_field")} <= codes
    assert ledger_digest() == before
