"""Price books, prices and assignments over REST."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from rest_framework.test import APIClient

from billing.models import Price, PriceBook, PriceBookAssignment
from tests.support.billing.ledger import assign, make_book, make_discount_book, make_price
from tests.support.billing.office import Office
from tests.support.builders import AT, MONTH_START, make_cluster
from tests.support.tenants.clients import api_client, problem

NIL = UUID(int=0)
CLASSES, MEMBERSHIPS = "/api/v1/customer-classes/", "/api/v1/customer-class-memberships/"
BOOKS, PRICES, ASSIGNMENTS = (
    "/api/v1/price-books/",
    "/api/v1/prices/",
    "/api/v1/price-book-assignments/",
)


def post(client: APIClient, path: str, body: dict[str, Any], key: str = "k1") -> Any:  # noqa: ANN401
    return client.post(path, body, headers={"Idempotency-Key": key})


def price_body(office: Office, **fields: object) -> dict[str, Any]:
    return {
        "price_book": str(office.book.pk),
        "size": "large",
        "price_group": "H100/whole",
        "unit_price": "4.125",
        "valid_from": "2026-10-01T00:00:00Z",
        **fields,
    }


def test_the_finance_admin_makes_a_book_and_sets_a_price(office: Office) -> None:
    client = api_client(office.cast.dora)

    made = post(client, BOOKS, {"slug": "usd", "name": "Dollars", "currency": "USD"})
    set_ = post(client, PRICES, price_body(office), key="k2")

    assert (made.status_code, made.json()["currency"], made["ETag"]) == (201, "USD", '"1"')
    assert set_.status_code == 201
    body = set_.json()
    assert body["unit_price"] == {"amount": "4.125", "currency": "EUR"}
    assert (body["valid_from"], body["valid_until"]) == ("2026-10-01T00:00:00Z", None)
    assert Price.objects.filter(size="large").count() == 1


def test_a_price_for_a_cluster_is_set_and_found_by_it(office: Office) -> None:
    client, cluster = api_client(office.cast.dora), make_cluster("hopper-2")

    made = post(client, PRICES, price_body(office, cluster=str(cluster.pk)))
    unknown = post(client, PRICES, price_body(office, cluster=str(NIL)), key="k2")

    assert (made.status_code, made.json()["cluster"]) == (201, str(cluster.pk))
    assert unknown.status_code == 404
    rows = client.get(PRICES, {"cluster": str(cluster.pk)}).json()["results"]
    assert [row["id"] for row in rows] == [made.json()["id"]]


def test_a_class_is_made_joined_and_given_a_book(office: Office) -> None:
    client, begin = api_client(office.cast.dora), {"valid_from": "2027-01-01T00:00:00Z"}
    made = post(client, CLASSES, {"slug": "hospital", "name": "Hospital"}).json()["id"]

    joined = post(
        client,
        MEMBERSHIPS,
        {"organization": str(office.cast.acme.pk), "customer_class": made, **begin},
        key="k7",
    ).json()
    book = {"price_book": str(office.book.pk), **begin}
    of_class = post(client, ASSIGNMENTS, {"customer_class": made, **book}, key="k2").json()
    default = post(client, ASSIGNMENTS, {"is_default": True, **book}, key="k3").json()
    refused = post(client, ASSIGNMENTS, book, key="k4")
    ended = post(
        client,
        ASSIGNMENTS,
        {"organization": str(office.cast.acme.pk), "price_book": None, **begin},
        key="k5",
    ).json()

    assert (joined["customer_class"], joined["valid_until"]) == (made, None)
    assert (of_class["organization"], of_class["customer_class"]) == (None, made)
    assert (default["organization"], default["customer_class"]) == (None, None)
    assert problem(refused) == (422, "price_book_assignment_owner")
    assert ended["price_book"] is None
    withdrawn = post(client, f"{MEMBERSHIPS}{joined['id']}/withdraw/", {"reason": "Wrong."}, "k6")
    assert withdrawn.json()["superseded_at"] is not None
    alice = api_client(office.cast.alice)
    assert [row["id"] for row in alice.get(CLASSES).json()["results"]] == [made]
    assert [row["id"] for row in alice.get(MEMBERSHIPS).json()["results"]] == [joined["id"]]


def test_a_price_sent_twice_is_set_once(office: Office) -> None:
    client = api_client(office.cast.dora)
    first = post(client, PRICES, price_body(office))

    again = post(client, PRICES, price_body(office))

    assert again.json() == first.json()
    assert again["Idempotent-Replayed"] == "true"
    assert Price.objects.filter(size="large").count() == 1


def test_a_price_without_a_key_is_refused(office: Office) -> None:
    answer = api_client(office.cast.dora).post(PRICES, price_body(office))

    assert problem(answer)[1] == "idempotency_key_required"
    assert not Price.objects.filter(size="large").exists()


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"unit_price": "-1"}, "invalid_input", "unit_price"),
        ({"unit_price": "NaN"}, "invalid_input", "unit_price"),
        ({"unit_price": "0.00000000001"}, "invalid_input", "unit_price"),
        ({"size": "huge"}, "price_key_invalid", "size"),
        ({"price_group": "H100"}, "price_key_invalid", "price_group"),
        ({"valid_from": "2026-10-01T00:30:00Z"}, "not_on_the_hour", "valid_from"),
        ({"size": "small", "price_group": "*"}, "price_overlap", "valid_from"),
        ({"surprise": 1}, "invalid_input", "surprise"),
    ],
)
def test_a_price_that_cannot_be_names_its_field(
    office: Office, fields: dict[str, Any], code: str, field: str
) -> None:
    answer = post(api_client(office.cast.dora), PRICES, price_body(office, **fields))

    assert problem(answer)[1] == code
    assert json.loads(answer.content)["field"] == field
    assert Price.objects.count() == 1


@pytest.mark.parametrize("name", ["alice", "bob", "frank", "ann"])
def test_nobody_else_sets_prices(office: Office, name: str) -> None:
    client = api_client(getattr(office.cast, name))

    priced = post(client, PRICES, price_body(office))
    made = post(client, BOOKS, {"slug": "x", "name": "X", "currency": "EUR"}, key="k2")
    assigned = post(
        client,
        ASSIGNMENTS,
        {
            "organization": str(office.cast.acme.pk),
            "price_book": str(office.book.pk),
            "valid_from": "2027-01-01T00:00:00Z",
        },
        key="k3",
    )

    assert [problem(a)[0] for a in (priced, made, assigned)] == [403, 403, 403]
    assert (Price.objects.count(), PriceBook.objects.count()) == (1, 1)
    assert PriceBookAssignment.objects.count() == 2


def test_an_organization_sees_the_books_it_is_billed_by_and_no_other(office: Office) -> None:
    hidden = make_book("hidden")
    make_price(hidden)
    client = api_client(office.cast.alice)

    books = client.get(BOOKS).json()["results"]
    prices = client.get(PRICES).json()["results"]
    assignments = client.get(ASSIGNMENTS).json()["results"]

    assert [book["slug"] for book in books] == ["standard"]
    assert [price["price_book"] for price in prices] == [str(office.book.pk)]
    assert [a["organization"] for a in assignments] == [str(office.cast.acme.pk)]
    assert problem(client.get(f"{BOOKS}{hidden.pk}/"))[0] == 404


def test_prices_of_a_former_book_are_seen_as_of_its_hours(office: Office) -> None:
    january = datetime(2027, 1, 1, tzinfo=UTC)
    own = api_client(office.cast.dora)
    moved = {
        "organization": str(office.cast.acme.pk),
        "price_book": str(make_book("other").pk),
        "valid_from": january.isoformat(),
    }
    assert post(own, ASSIGNMENTS, moved).status_code == 201
    later = price_body(office, size="small", unit_price="9", valid_from=january.isoformat())
    assert post(own, PRICES, later, key="k2").status_code == 201

    shown = api_client(office.cast.alice).get(PRICES).json()["results"]

    assert [(price["price_book"], price["unit_price"]["amount"]) for price in shown] == [
        (str(office.book.pk), "2.00")
    ]


def test_prices_of_a_base_are_seen_as_of_the_hours_of_the_discount_book(office: Office) -> None:
    january = datetime(2027, 1, 1, tzinfo=UTC)
    base = make_book("base")
    make_price(base, end_at=january)
    make_price(base, "9.00", begin_at=january)
    PriceBookAssignment.objects.filter(organization=office.cast.acme).update(superseded_at=AT)
    assign(office.cast.acme, make_discount_book("academic", base), end_at=january)

    shown = api_client(office.cast.alice).get(PRICES).json()["results"]

    assert [price["unit_price"]["amount"] for price in shown] == ["2.00"]


def test_a_price_that_cannot_be_seen_is_nowhere(office: Office) -> None:
    january = datetime(2027, 1, 1, tzinfo=UTC)
    PriceBookAssignment.objects.filter(organization=office.cast.acme).update(superseded_at=AT)
    assign(office.cast.acme, office.book, end_at=january)
    later = make_price(office.book, "9.00", size="large", begin_at=january)

    for person, status in ((office.cast.alice, 404), (office.cast.dora, 200)):
        assert api_client(person).get(f"{PRICES}{later.pk}/").status_code == status


def test_a_member_without_the_capability_sees_no_price(office: Office) -> None:
    client = api_client(office.cast.carol)

    assert client.get(PRICES).json()["results"] == []
    assert problem(client.get(f"{PRICES}{Price.objects.get().pk}/"))[0] == 404


def test_a_book_is_assigned_and_read_back(office: Office) -> None:
    other = make_book("other")
    client = api_client(office.cast.dora)

    made = post(
        client,
        ASSIGNMENTS,
        {
            "organization": str(office.cast.acme.pk),
            "price_book": str(other.pk),
            "valid_from": "2027-01-01T00:00:00Z",
        },
    )

    assert made.status_code == 201
    assert client.get(made["Location"]).json() == made.json()
    found = client.get(f"{ASSIGNMENTS}?price_book={other.pk}").json()["results"]
    assert [a["id"] for a in found] == [made.json()["id"]]


def test_prices_are_found_by_the_time_they_hold(office: Office) -> None:
    client = api_client(office.cast.ann)

    before = client.get(f"{PRICES}?valid_at=2026-09-30T23:00:00Z").json()["results"]
    after = client.get(f"{PRICES}?valid_at=2026-10-01T00:00:00Z&size=small").json()["results"]

    assert (len(before), len(after)) == (0, 1)
    assert problem(client.get(f"{PRICES}?sise=small"))[1] == "invalid_input"


def test_a_book_is_read_by_its_id(office: Office) -> None:
    answer = api_client(office.cast.ann).get(f"{BOOKS}{office.book.pk}/")

    assert (answer.status_code, answer.json()["slug"]) == (200, "standard")


def test_a_discount_book_is_made_and_its_payers_read_its_base(office: Office) -> None:
    hidden = make_book("hidden")
    client = api_client(office.cast.dora)
    body = {"slug": "academic", "name": "Academic", "currency": "EUR", "discount_percent": "20.00"}

    refused = post(client, BOOKS, body)
    made = post(client, BOOKS, {**body, "base_book": str(hidden.pk)}, key="k2")

    assert (problem(refused)[1], PriceBook.objects.count()) == ("discount_invalid", 3)
    assert made.status_code == 201
    assert (made.json()["base_book"], made.json()["discount_percent"]) == (str(hidden.pk), "20.00")
    PriceBookAssignment.objects.filter(organization=office.cast.acme).update(superseded_at=AT)
    assign(office.cast.acme, PriceBook.objects.get(slug="academic"), begin_at=MONTH_START)
    seen = api_client(office.cast.alice).get(BOOKS).json()["results"]
    assert [book["slug"] for book in seen] == ["academic", "hidden"]
