"""Which price a device share has in an hour, and which were passed over."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from billing.models import Price, PriceBookAssignment
from billing.services.pricing.assignments import assign_price_book
from tests.support.billing.ledger import DORA, HOUR, make_book, make_discount_book, make_price
from tests.support.billing.office import Office
from tests.support.builders import AT, MONTH_START, make_cluster, make_organization
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


def test_every_candidate_is_shown_with_the_reason_why_it_lost(office: Office) -> None:
    hopper, ampere = make_cluster("in-hopper"), make_cluster("in-ampere")
    group = "H100/1g.10gb"
    wrong = make_price(office.book, "9.00", price_group="H100/*")
    Price.objects.filter(pk=wrong.pk).update(superseded_at=AT)
    later = MONTH_START + 3 * HOUR
    make_price(office.book, "3.00", price_group="H100/*", begin_at=MONTH_START + HOUR)
    make_price(office.book, "4.00", price_group=group, begin_at=later)
    make_price(office.book, "5.00", price_group="H100/*", cluster=ampere)
    make_price(office.book, "6.00", price_group="H100/*", cluster=hopper, begin_at=later)
    default = make_book("default")
    assign_price_book(
        price_book=default, is_default=True, valid_from=MONTH_START, actor=DORA, at=AT
    )

    answer = ask(api_client(office.cast.dora), office, cluster=str(hopper.pk)).json()

    assert [(c["price_group"], c["unit_price"], c["outcome"]) for c in answer["candidates"]] == [
        (group, "4", "not_in_force"),
        ("H100/*", "6", "not_in_force"),
        ("H100/*", "5", "other_cluster"),
        ("H100/*", "3", "applies"),
        ("H100/*", "9", "superseded"),
        ("*", "2", "less_specific"),
    ]
    assert [(b["price_book"], b["organization"], b["outcome"]) for b in answer["books"]] == [
        (str(office.book.pk), str(office.cast.acme.pk), "applies"),
        (str(default.pk), None, "behind_another"),
    ]


def test_a_price_of_the_base_loses_to_the_own_price_of_its_key(office: Office) -> None:
    academic = make_discount_book("academic", office.book, "20")
    make_price(academic, "1.90")
    assign_price_book(
        organization=office.cast.acme,
        price_book=academic,
        valid_from=MONTH_START,
        replaces=PriceBookAssignment.objects.get(organization=office.cast.acme).pk,
        reason="Academic.",
        actor=DORA,
        at=AT,
    )

    answer = ask(api_client(office.cast.dora), office).json()

    assert [(c["unit_price"], c["is_own"], c["outcome"]) for c in answer["candidates"]] == [
        ("1.9", True, "applies"),
        ("1.6", False, "base_overridden"),
    ]


def test_without_a_book_the_assignments_that_do_not_apply_are_shown(office: Office) -> None:
    umbrella = make_organization("hive", billing_currency="USD")
    assign_price_book(
        price_book=office.book, is_default=True, valid_from=MONTH_START, actor=DORA, at=AT
    )

    answer = ask(api_client(office.cast.dora), office, organization=str(umbrella.pk)).json()

    assert (answer["missing"], answer["candidates"]) == ("no_price_book", [])
    assert [b["outcome"] for b in answer["books"]] == ["other_currency"]
