"""Which price a device share has in an hour, and which were passed over."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.support.billing.ledger import HOUR, make_price
from tests.support.billing.office import Office
from tests.support.builders import MONTH_START
from tests.support.tenants.clients import api_client, problem

WHICH = "/api/v1/which-price/"


def ask(client: APIClient, office: Office, **query: str) -> Any:  # noqa: ANN401
    given = {
        "organization": str(office.cast.acme.pk),
        "size": "small",
        "price_group": "H100/1g.10gb",
        "at": "2026-10-01T02:59:59Z",
        **query,
    }
    return client.get(WHICH, given)


def test_the_most_specific_price_in_force_is_shown_with_its_key(office: Office) -> None:
    make_price(office.book, "3.00", price_group="H100/*", begin_at=MONTH_START + 2 * HOUR)
    make_price(office.book, "4.00", price_group="H100/1g.10gb", begin_at=MONTH_START + 3 * HOUR)
    client = api_client(office.cast.dora)

    answers = [ask(client, office, at=f"2026-10-01T0{hour}:30:00Z").json() for hour in (1, 2, 3)]

    assert [answer["price"]["unit_price"]["amount"] for answer in answers] == [
        "2.00",
        "3.00",
        "4.00",
    ]
    assert len({answer["price"]["sku_price_id"] for answer in answers}) == 3
    assert answers[0]["considered"] == ["H100/1g.10gb", "H100/*", "*"]
    assert {answer["missing"] for answer in answers} == {None}
    assert answers[2]["unit_price"] == {"amount": "4.00", "currency": "EUR"}
    assert answers[2]["list_unit_price"] == {"amount": "4.00", "currency": "EUR"}


@pytest.mark.parametrize(
    ("query", "missing"),
    [({"size": "large"}, "no_price"), ({"at": "2026-09-01T00:00:00Z"}, "no_price_book")],
)
def test_without_a_price_it_says_what_is_missing(
    office: Office, query: dict[str, str], missing: str
) -> None:
    answer = ask(api_client(office.cast.ann), office, **query).json()

    assert (answer["price"], answer["missing"]) == (None, missing)
    assert (answer["unit_price"], answer["list_unit_price"]) == (None, None)
    assert (answer["assignment"] is None) == (missing == "no_price_book")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"price_group": "H100"}, "price_key_invalid"),
        ({"size": "huge"}, "price_key_invalid"),
        ({"organization": "x"}, "invalid_input"),
    ],
)
def test_a_question_that_cannot_be_names_its_field(
    office: Office, query: dict[str, str], code: str
) -> None:
    answer = ask(api_client(office.cast.dora), office, **query)

    assert problem(answer) == (422, code)
    assert next(iter(query)) in answer.content.decode()
