"""The matrix beside its table: a second project, a person without a role, bodies and filters.

Rules stand here for cells. To LLM's people a row of Vision, and to a person without a role every
row, is answered like one that does not exist. All others answer alike for both projects of Acme.
What differs is explained beside its cell.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.http import HttpResponse

from tests.flows.test_who_reaches_what import answered, client_of, letter_of
from tests.support.builders import make_user
from tests.support.digest import ledger_digest
from tests.support.flows.estate import Estate, add_second_project
from tests.support.flows.filters import FILTERS
from tests.support.flows.operations import BODIES, handler_view, operations, reported
from tests.support.flows.reach import CALLERS, PUBLIC, REACH
from tests.support.sampling import sampled
from tests.support.tenants.clients import api_client

pytestmark = pytest.mark.usefixtures("unlogged")
PEOPLE_OF_LLM: Final = ("carol", "bob")
WORDS_OF_VISION: Final = ("wanda",)
REFERENCES: Final = {
    "organization": "organizations",
    "project": "projects",
    "borrower": "projects",
    "lender": "projects",
    "endpoint": "notification-endpoints",
    "invoice": "invoices",
    "limit": "quota-limits",
    "object_id": "organizations",
    "owner": "user",
    "namespace": "namespace",
    "period": "billing-periods",
    "customer_class": "customer-classes",
    "price_book": "price-books",
    "requested_by": "user",
    "service_account": "service-accounts",
    "user": "user",
}
"""Filters that name a row, by what they name."""
MIXED: Final[dict[str, dict[str, Any]]] = {
    "POST isolation-policies/": BODIES["POST isolation-policies/"],
    "POST quota-limits/": BODIES["POST quota-limits/"],
    "POST suspensions/": {**BODIES["POST suspensions/"], "project": "{projects}"},
    "POST protected-windows/": {**BODIES["POST protected-windows/"], "project": "{projects}"},
    "POST price-book-assignments/": BODIES["POST price-book-assignments/"],
    "POST customer-class-memberships/": BODIES["POST customer-class-memberships/"],
}
"""Bodies with two references, which have to belong to one organization."""


AS_OF = re.compile(rb'"as_of":"[^"]*"')
"""When the database had what an answer says: not of what it says."""


def is_alike(one: HttpResponse, other: HttpResponse) -> bool:
    first, second = (AS_OF.sub(b"", answer.content) for answer in (one, other))
    return (one.status_code, first) == (other.status_code, second)


@pytest.mark.parametrize("name", sampled(CALLERS, every=len(CALLERS)))
def test_the_second_project_of_an_organization_is_a_place_of_its_own(
    estate: Estate, name: str
) -> None:
    second = add_second_project(estate)
    nothing = {noun: estate.places["nonexistent"][noun] for noun in OF_A_PROJECT}
    without_project = {**estate.places["own"], **nothing}
    client, before = client_of(estate, name), ledger_digest()
    client.get("/api/v1/me/")
    unexplained, leaks = [], []
    for operation in REACH:
        own, here, nowhere = (
            answered(client, operation, place)
            for place in (estate.places["own"], second, without_project)
        )
        if name not in PEOPLE_OF_LLM:
            is_right = letter_of(own, operation) == letter_of(here, operation)
        elif _names_a_project(operation):
            is_right = is_alike(here, nowhere)
        else:
            is_right = letter_of(own, operation) == letter_of(here, operation)
        if not is_right and (operation, name) not in EXPLAINED:
            unexplained.append((operation, letter_of(own, operation), letter_of(here, operation)))
        if name in PEOPLE_OF_LLM:
            leaks += [(operation, word) for word in WORDS_OF_VISION if word in reported(here)]

    assert unexplained == []
    assert leaks == []
    assert ledger_digest() == before


@pytest.mark.parametrize("place", sampled(["own", "other"], every=2))
def test_to_a_person_without_a_role_everything_is_nowhere(estate: Estate, place: str) -> None:
    client, before = api_client(make_user("nina")), ledger_digest()
    client.get("/api/v1/me/")
    unexplained = []
    for operation in REACH:
        here = answered(client, operation, estate.places[place])
        nowhere = answered(client, operation, estate.places["nonexistent"])
        is_hidden = letter_of(here, operation) in "enf" or operation in OPEN_TO_ALL
        if not is_hidden or not is_alike(here, nowhere):
            unexplained.append((operation, letter_of(here, operation)))

    assert unexplained == []
    assert ledger_digest() == before


@pytest.mark.parametrize("name", sampled(CALLERS, every=4))
def test_a_body_does_not_join_rows_of_two_organizations(estate: Estate, name: str) -> None:
    client, before = client_of(estate, name), ledger_digest()
    own, other, nowhere = (estate.places[place] for place in ("own", "other", "nonexistent"))
    accepted, oracles = [], []
    for operation, body in MIXED.items():
        for noun in ("organizations", "projects", "price-books"):
            if f"{{{noun}}}" not in body.values():
                continue
            foreign, missing = (
                answered(client, operation, {**own, noun: place[noun]}, body=body)
                for place in (other, nowhere)
            )
            if foreign.status_code < 400 and (operation, noun) not in FOR_ALL_ORGANIZATIONS:
                accepted.append((operation, noun))
            if name in {"carol", "bob", "alice", "robot"} and not is_alike(foreign, missing):
                oracles.append((operation, noun))

    assert accepted == []
    assert oracles == []
    assert ledger_digest() == before


@pytest.mark.parametrize("name", sampled(["carol", "bob", "alice", "robot", "nina"], every=5))
def test_a_filter_finds_what_is_foreign_no_more_than_what_is_nowhere(
    estate: Estate, name: str
) -> None:
    second = add_second_project(estate)
    client = api_client(make_user("nina")) if name == "nina" else client_of(estate, name)
    foreign = [estate.places["other"], *([second] if name in PEOPLE_OF_LLM else [])]
    tried, differing = 0, []
    for operation, filter_name, noun in _filters():
        path = operation.split(" ")[1]
        query = FILTERS.get(path.removesuffix("/"), "").format(**estate.places["own"])
        base = "&".join(part for part in query.split("&") if not part.startswith(filter_name))
        places = [place for place in foreign if place[noun] != estate.places["own"][noun]]
        answers = [
            client.get(f"/api/v1/{path}?{base}&{filter_name}={place[noun]}")
            for place in [estate.places["nonexistent"], *places]
        ]
        tried += len(places)
        differing += [
            (operation, filter_name)
            for one in answers[1:]
            if not is_alike(one, answers[0]) and (operation, filter_name) not in SHARED
        ]

    assert tried > 70
    assert differing == []


def _names_a_project(operation: str) -> bool:
    """Whether an operation names a row of one project, by its address or in its body."""
    noun = operation.split(" ")[1].split("/", maxsplit=1)[0]
    named = json.dumps(BODIES.get(operation, {})) + FILTERS.get(noun, "")
    return ("/pk/" in operation and noun in OF_A_PROJECT) or any(
        f"{{{one}}}" in named for one in OF_A_PROJECT
    )


def _filters() -> Iterator[tuple[str, str, str]]:
    for operation in operations():
        if operation in PUBLIC or not operation.startswith("GET ") or "/pk/" in operation:
            continue
        filters = getattr(handler_view(operation), "filterset_class", None)
        for name in filters.base_filters if filters else ():
            if name in REFERENCES:
                yield operation, name, REFERENCES[name]


OF_A_PROJECT: Final = frozenset(
    {
        "projects",
        "memberships",
        "namespace-bindings",
        "invitations",
        "usage-records",
        "usage-corrections",
        "waste-findings",
        "credit-proposals",
        "metering-exceptions",
        "incidents",
        "isolation-policies",
        "quota-limits",
        "quota-grants",
        "suspensions",
        "reservations",
        "admission-refusals",
        "protected-windows",
        "quota-requests",
        "renewable-requests",
        "enforcement-targets",
        "charges",
        "accrual-exceptions",
        "namespace",
    }
)
"""What belongs to one project; everything else is its organization's or the platform's."""
EXPLAINED: Final[dict[tuple[str, str], str]] = {
    ("POST quota-requests/pk/approve/", "alice"): "Allowed; Vision's limit changed meanwhile.",
    ("POST quota-requests/pk/approve/", "frank"): "As above.",
}
"""Cells of the second project that follow no rule, each with the reason."""
OPEN_TO_ALL: Final[dict[str, str]] = {
    "GET me/": "Who one is, and that one holds no role.",
    "POST sessions/end-others/": "One's own sessions, of which there is no other.",
    "GET costs/csv/": "The header of a table without rows.",
    "GET costs/xlsx/": "As above.",
    "GET reports/ageing/csv/": "The header of a table without rows.",
    "GET reports/device-sharing/csv/": "The header of a table without rows.",
}
"""What a person without a role is answered, each with the reason."""
SHARED: Final = {
    ("GET quota-loans/", "borrower"): "What LLM lends to Vision is LLM's loan as well.",
}
"""Filters that find what belongs to two projects, each with the reason."""
FOR_ALL_ORGANIZATIONS: Final = {
    ("POST price-book-assignments/", "organizations"): "Finance gives any book to any payer.",
    ("POST price-book-assignments/", "price-books"): "As above.",
    ("POST customer-class-memberships/", "organizations"): "Finance puts any payer into any class.",
    ("POST customer-class-memberships/", "customer-classes"): "As above.",
}
"""References that need not belong to one organization, each with the reason."""
