"""Prices succeed each other on whole hours and never touch what is charged."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from billing.domain.errors import (
    AssignmentInUseError,
    AssignmentOverlapError,
    CurrencyMismatchError,
    CurrencyUnknownError,
    NotOnTheHourError,
    PriceBookExistsError,
    PriceChangeTooLargeError,
    PriceInUseError,
    PriceInvalidError,
    PriceKeyInvalidError,
    PriceOverlapError,
)
from billing.models import Price, PriceBook, PriceBookAssignment
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import create_price_book, set_price
from tenants.domain.errors import DomainError, InvalidInputError
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    SMALL_GROUP,
    Use,
    accrue_everything,
    make_book,
    make_ledger,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_organization

pytestmark = pytest.mark.django_db


def spans(book: PriceBook) -> list[tuple[str, str, datetime, datetime | None]]:
    return [
        (price.price_group, f"{price.unit_price:.2f}", price.valid.lower, price.valid.upper)
        for price in Price.objects.filter(price_book=book).order_by("price_group", "valid")
    ]


def put(book: PriceBook, price: str = "3.00", **fields: object) -> Price:
    given: dict[str, object] = {"size": "small", "valid_from": MONTH_START, **fields}
    return set_price(price_book=book, unit_price=Decimal(price), actor=DORA, at=AT, **given)  # type: ignore[arg-type]


def test_a_price_book_is_made_empty_and_reported_to_the_audit_trail() -> None:
    book = create_price_book(slug="standard", name="Standard", currency="CHF", actor=DORA, at=AT)

    assert (book.slug, book.currency, book.prices.count()) == ("standard", "CHF", 0)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id) == ("billing:price_book:create", str(book.pk))


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"slug": "standard"}, PriceBookExistsError),
        ({"currency": "ABC"}, CurrencyUnknownError),
        ({"slug": "Not A Slug"}, InvalidInputError),
    ],
)
def test_a_price_book_that_cannot_be_is_refused(
    fields: dict[str, Any], refusal: type[DomainError]
) -> None:
    make_book("standard")

    with pytest.raises(refusal) as refused:
        create_price_book(
            **{"slug": "other", "name": "Other", "currency": "EUR", **fields}, actor=DORA, at=AT
        )

    assert refused.value.code == refusal.code
    assert PriceBook.objects.count() == 1
    assert not AuditEntry.objects.exists()


def test_a_new_price_ends_the_one_before_it() -> None:
    book = make_book()
    change = MONTH_START + 10 * HOUR

    put(book, "2.00")
    put(book, "3.00", valid_from=change)

    assert spans(book) == [("*", "2.00", MONTH_START, change), ("*", "3.00", change, None)]
    newest = AuditEntry.objects.first()
    assert newest is not None
    assert newest.facts["was"] == "2.0000000000"
    assert newest.facts["unit_price"] == "3.00"


@pytest.mark.parametrize("price", ["20.0000000001", "2000", "0.1999999999", "0"])
def test_a_price_far_from_the_one_before_it_needs_a_draft(price: str) -> None:
    book = make_book()
    put(book, "2.00")

    with pytest.raises(PriceChangeTooLargeError) as refused:
        put(book, price, valid_from=MONTH_START + HOUR)

    assert (refused.value.code, refused.value.field) == ("price_change_too_large", "unit_price")
    assert refused.value.facts == {"unit_price": price, "price_before": "2"}
    assert spans(book) == [("*", "2.00", MONTH_START, None)]
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize("price_group", ["H100/*", SMALL_GROUP])
def test_the_first_price_of_a_key_far_from_the_one_that_applies_needs_a_draft(
    price_group: str,
) -> None:
    book = make_book()
    put(book, "2.00")

    with pytest.raises(PriceChangeTooLargeError) as refused:
        put(book, "2000", price_group=price_group)
    put(book, "4.00", price_group="H100/*", valid_from=MONTH_START + HOUR)
    put(book, "2000", price_group=f"{price_group}/burst", is_drafted=True)

    assert refused.value.facts == {"unit_price": "2000", "price_before": "2"}
    assert [group for group, *_ in spans(book)] == ["*", "H100/*", f"{price_group}/burst"]


def test_a_price_of_ten_times_or_a_tenth_is_set_directly() -> None:
    book = make_book()

    put(book, "2.00")
    put(book, "20.00", valid_from=MONTH_START + HOUR)
    put(book, "2.00", valid_from=MONTH_START + 2 * HOUR)

    assert [price for _, price, _, _ in spans(book)] == ["2.00", "20.00", "2.00"]


def test_a_replacement_far_from_the_wrong_price_may_go_back_to_the_one_before_it() -> None:
    book = make_book()
    put(book, "2.00")
    wrong = put(book, "2000", valid_from=MONTH_START + HOUR, is_drafted=True)
    repair = {"valid_from": MONTH_START + HOUR, "replaces": wrong.pk, "reason": "Typed wrong."}

    with pytest.raises(PriceChangeTooLargeError):
        put(book, "21.00", **repair)
    put(book, "2.10", **repair)

    published = Price.objects.filter(superseded_at__isnull=True).order_by("valid")
    assert [f"{price.unit_price:.2f}" for price in published] == ["2.00", "2.10"]


def test_prices_of_other_groups_are_left_alone() -> None:
    book = make_book()

    put(book, "2.00")
    put(book, "9.00", price_group="H100/whole", valid_from=MONTH_START + HOUR)

    assert spans(book) == [
        ("*", "2.00", MONTH_START, None),
        ("H100/whole", "9.00", MONTH_START + HOUR, None),
    ]


@pytest.mark.parametrize("hours", [0, 5, 10])
def test_a_price_within_older_ones_is_refused(hours: int) -> None:
    book = make_book()
    change = MONTH_START + 10 * HOUR
    put(book, "2.00")
    put(book, "3.00", valid_from=change)

    with pytest.raises(PriceOverlapError) as refused:
        put(book, valid_from=MONTH_START + hours * HOUR)

    assert refused.value.code == "price_overlap"
    assert spans(book) == [("*", "2.00", MONTH_START, change), ("*", "3.00", change, None)]


def test_a_price_before_the_earliest_lasts_until_that_begins() -> None:
    book = make_book()
    second, third = MONTH_START + 5 * HOUR, MONTH_START + 9 * HOUR
    put(book, "2.00", valid_from=second)
    put(book, "3.00", valid_from=third)

    put(book, "1.00")

    assert spans(book) == [
        ("*", "1.00", MONTH_START, second),
        ("*", "2.00", second, third),
        ("*", "3.00", third, None),
    ]
    newest = AuditEntry.objects.first()
    assert newest is not None
    assert newest.facts["valid_until"] == second.isoformat()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize(
    ("price", "fields", "refusal"),
    [
        ("-1", {}, PriceInvalidError),
        ("0.00000000001", {}, PriceInvalidError),
        ("1", {"size": "huge"}, PriceKeyInvalidError),
        ("1", {"price_group": "H100"}, PriceKeyInvalidError),
        ("1", {"valid_from": MONTH_START + timedelta(minutes=30)}, NotOnTheHourError),
    ],
)
def test_a_price_that_cannot_be_is_refused(
    price: str, fields: dict[str, object], refusal: type[DomainError]
) -> None:
    book = make_book()

    with pytest.raises(refusal) as refused:
        put(book, price, **fields)

    assert refused.value.code == refusal.code
    assert spans(book) == []


def test_a_price_inside_charged_hours_is_refused() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 5 * HOUR)
    accrue_everything()

    with pytest.raises(PriceInUseError) as refused:
        put(ledger.book, valid_from=MONTH_START + 5 * HOUR)

    assert refused.value.code == "price_in_use"
    assert refused.value.facts == {"last_charged_hour": "2026-10-01T05:00:00+00:00"}
    assert spans(ledger.book) == [("*", "2.00", MONTH_START, None)]
    put(ledger.book, valid_from=MONTH_START + 6 * HOUR)


def test_a_price_for_a_group_that_was_charged_by_the_any_price_is_refused() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()

    with pytest.raises(PriceInUseError):
        put(ledger.book, price_group=SMALL_GROUP)

    put(ledger.book, price_group="H100/whole")


def test_an_any_price_beside_a_charged_group_price_is_taken() -> None:
    ledger = make_ledger()
    put(ledger.book, price_group=SMALL_GROUP)
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + HOUR)
    accrue_everything()

    put(ledger.book, valid_from=MONTH_START + HOUR)

    assert len(spans(ledger.book)) == 3


def test_an_organization_changes_its_book_from_an_hour_on() -> None:
    organization = make_organization()
    first, second = make_book("first"), make_book("second")
    change = MONTH_START + 24 * HOUR

    for book, begin in ((first, MONTH_START), (second, change)):
        assign_price_book(
            organization=organization, price_book=book, valid_from=begin, actor=DORA, at=AT
        )

    assert [
        *PriceBookAssignment.objects.order_by("valid").values_list(
            "price_book__slug", "valid__startswith", "valid__endswith"
        )
    ] == [("first", MONTH_START, change), ("second", change, None)]
    assert AuditEntry.objects.filter(organization_id=organization.pk).count() == 2


def test_a_book_in_another_currency_is_refused() -> None:
    organization = make_organization(billing_currency="USD")

    with pytest.raises(CurrencyMismatchError) as refused:
        assign_price_book(
            organization=organization,
            price_book=make_book(currency="EUR"),
            valid_from=MONTH_START,
            actor=DORA,
            at=AT,
        )

    assert refused.value.facts == {
        "price_book": "EUR",
        "organization": "USD",
        "slug": "acme",
    }
    assert not PriceBookAssignment.objects.exists()


def test_an_assignment_that_does_not_follow_the_newest_is_refused() -> None:
    ledger = make_ledger()

    with pytest.raises(AssignmentOverlapError):
        assign_price_book(
            organization=ledger.organization,
            price_book=ledger.book,
            valid_from=MONTH_START,
            actor=DORA,
            at=AT,
        )

    assert PriceBookAssignment.objects.count() == 1


def test_an_assignment_inside_charged_hours_is_refused() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 5 * HOUR)
    accrue_everything()

    with pytest.raises(AssignmentInUseError) as refused:
        assign_price_book(
            organization=ledger.organization,
            price_book=make_book("other"),
            valid_from=MONTH_START + HOUR,
            actor=DORA,
            at=AT,
        )

    assert refused.value.facts == {"last_charged_hour": "2026-10-01T05:00:00+00:00"}
    assert PriceBookAssignment.objects.get().valid.upper is None


def test_an_assignment_before_the_earliest_lasts_until_that_begins() -> None:
    ledger = make_ledger()
    earlier = MONTH_START - 3 * HOUR

    assign_price_book(
        organization=ledger.organization,
        price_book=make_book("earlier"),
        valid_from=earlier,
        actor=DORA,
        at=AT,
    )

    assert [
        *PriceBookAssignment.objects.order_by("valid").values_list(
            "price_book__slug", "valid__startswith", "valid__endswith"
        )
    ] == [("earlier", earlier, MONTH_START), (ledger.book.slug, MONTH_START, None)]
