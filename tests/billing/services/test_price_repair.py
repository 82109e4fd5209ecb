"""Wrong prices and assignments are withdrawn before their first hour, and replaced after it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing.domain.errors import (
    PriceInForceError,
    PriceInUseError,
    PriceOverlapError,
    PriceSupersededError,
    ReasonMissingError,
    ReplacedPriceError,
)
from billing.models import BillingPeriod, Charge, Price, PriceBook, PriceBookAssignment
from billing.selectors.assignment_verification import check_assignments
from billing.selectors.verification import check_charges, check_prices
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.price_history import withdraw_assignment, withdraw_price
from billing.services.pricing.prices import set_price
from billing.tasks import tick
from tenants.models import AuditEntry, Organization
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    SMALL_GROUP,
    TICK,
    Use,
    accrue_everything,
    charged,
    make_book,
    make_ledger,
    make_price,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_organization

pytestmark = pytest.mark.django_db
SOON = AT.replace(minute=0, second=0, microsecond=0) + 10 * HOUR


def put(book: PriceBook, price: str, **fields: Any) -> Price:  # noqa: ANN401 - Any column.
    given = {"size": "small", "valid_from": MONTH_START, "actor": DORA, "at": AT, **fields}
    return set_price(price_book=book, unit_price=Decimal(price), **given)


def assign(organization: Organization, book: PriceBook, **fields: Any) -> PriceBookAssignment:  # noqa: ANN401
    given = {"valid_from": MONTH_START, "actor": DORA, "at": AT, **fields}
    return assign_price_book(organization=organization, price_book=book, **given)


def in_force(book: PriceBook) -> list[tuple[str, str, datetime, datetime | None]]:
    check_gaps()
    rows = Price.objects.filter(price_book=book, superseded_at__isnull=True)
    return [
        (row.price_group, f"{row.unit_price:.2f}", row.valid.lower, row.valid.upper)
        for row in rows.order_by("price_group", "valid")
    ]


def check_gaps() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def findings() -> list[str]:
    """Return what verification finds in prices, assignments and charges made by services."""
    found: list[str] = []
    for check in (check_prices, check_assignments, check_charges):
        cursor: Any = {}
        while cursor is not None:
            batch = check(cursor)
            found += batch.differences
            cursor = batch.cursor
    return found


def test_a_future_price_typed_wrong_is_withdrawn_and_no_hour_is_charged_at_it() -> None:
    book = make_book()
    put(book, "2.00")
    wrong = put(book, "2000", valid_from=SOON, is_drafted=True)

    withdraw_price(price_id=wrong.pk, reason="A point was missing.", actor=DORA, at=AT)

    assert in_force(book) == [
        ("*", "2.00", MONTH_START, SOON),
        ("*", "2.00", SOON, None),
    ]
    wrong.refresh_from_db()
    assert wrong.superseded_at == AT
    assert Price.objects.get(replaces=wrong).published_at == AT
    entry = AuditEntry.objects.get(action="billing:price:withdraw")
    assert (entry.object_id, entry.facts["unit_price"], entry.facts["reason"]) == (
        str(wrong.pk),
        "2000.0000000000",
        "A point was missing.",
    )
    assert findings() == []


def test_the_first_price_of_a_key_is_withdrawn_without_another() -> None:
    book = make_book()
    wrong = put(book, "2000", price_group=SMALL_GROUP, valid_from=SOON)

    withdraw_price(price_id=wrong.pk, reason="Not agreed.", actor=DORA, at=AT)

    assert in_force(book) == []
    put(book, "1.00", price_group=SMALL_GROUP, valid_from=SOON)
    assert in_force(book) == [(SMALL_GROUP, "1.00", SOON, None)]


def test_a_price_withdrawn_between_others_leaves_no_gap() -> None:
    book = make_book()
    later = SOON + 5 * HOUR
    put(book, "2.00")
    wrong = put(book, "2000", valid_from=SOON, is_drafted=True)
    put(book, "3.00", valid_from=later, is_drafted=True)

    withdraw_price(price_id=wrong.pk, reason="Wrong.", actor=DORA, at=AT)

    assert in_force(book) == [
        ("*", "2.00", MONTH_START, SOON),
        ("*", "2.00", SOON, later),
        ("*", "3.00", later, None),
    ]


def test_a_future_price_is_replaced_by_the_right_one() -> None:
    book = make_book()
    put(book, "2.00")
    wrong = put(book, "2000", valid_from=SOON, is_drafted=True)

    put(book, "2.50", valid_from=SOON, replaces=wrong.pk, reason="A point was missing.")

    assert in_force(book) == [("*", "2.00", MONTH_START, SOON), ("*", "2.50", SOON, None)]


def test_what_is_in_force_is_not_withdrawn() -> None:
    book = make_book()
    price = put(book, "2.00")

    with pytest.raises(PriceInForceError) as refused:
        withdraw_price(price_id=price.pk, reason="Wrong.", actor=DORA, at=AT)

    assert refused.value.field == "valid_from"
    assert in_force(book) == [("*", "2.00", MONTH_START, None)]


def test_what_is_withdrawn_is_not_withdrawn_again() -> None:
    wrong = put(make_book(), "2000", valid_from=SOON)
    withdraw_price(price_id=wrong.pk, reason="Wrong.", actor=DORA, at=AT)
    entries = AuditEntry.objects.count()

    with pytest.raises(PriceSupersededError):
        withdraw_price(price_id=wrong.pk, reason="Wrong.", actor=DORA, at=AT)

    assert AuditEntry.objects.count() == entries


@pytest.mark.parametrize("reason", ["", "  "])
def test_nothing_is_withdrawn_or_replaced_without_a_reason(reason: str) -> None:
    book = make_book()
    wrong = put(book, "2000", valid_from=SOON, is_drafted=True)

    with pytest.raises(ReasonMissingError) as refused:
        withdraw_price(price_id=wrong.pk, reason=reason, actor=DORA, at=AT)
    with pytest.raises(ReasonMissingError):
        put(book, "2.00", valid_from=SOON, replaces=wrong.pk, reason=reason)

    assert refused.value.field == "reason"
    assert in_force(book) == [("*", "2000.00", SOON, None)]


def test_a_charged_price_is_replaced_and_its_charges_keep_it() -> None:
    ledger = make_ledger()
    wrong = Price.objects.get()
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()

    put(ledger.book, "3.00", replaces=wrong.pk, reason="Typed wrong.")
    second = sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + HOUR)
    accrue_everything()

    assert in_force(ledger.book) == [("*", "3.00", MONTH_START, None)]
    assert [f"{c.unit_price:.2f}" for c in Charge.objects.order_by("window_start")] == [
        "2.00",
        "3.00",
    ]
    assert Charge.objects.get(window_id=second.pk).price.replaces_id == wrong.pk


def test_a_price_is_replaced_from_an_hour_on_and_the_hours_before_keep_it() -> None:
    ledger = make_ledger()
    wrong = Price.objects.get()
    change = MONTH_START + 2 * HOUR
    for hour in range(4):
        sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + hour * HOUR)
    accrue_everything()

    put(ledger.book, "3.00", valid_from=change, replaces=wrong.pk, reason="Raised then.")

    assert in_force(ledger.book) == [
        ("*", "2.00", MONTH_START, change),
        ("*", "3.00", change, None),
    ]


def test_another_price_than_the_one_in_force_is_not_replaced() -> None:
    book = make_book()
    first = put(book, "2.00")
    second = put(book, "3.00", valid_from=SOON)

    with pytest.raises(ReplacedPriceError) as refused:
        put(book, "4.00", valid_from=SOON, replaces=first.pk, reason="Wrong.")

    assert refused.value.facts == {"in_force": str(second.pk)}
    assert in_force(book) == [("*", "2.00", MONTH_START, SOON), ("*", "3.00", SOON, None)]


def test_an_exact_price_comes_over_charged_hours_with_a_reason() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()

    with pytest.raises(PriceInUseError):
        put(ledger.book, "9.00", price_group=SMALL_GROUP)
    put(ledger.book, "9.00", price_group=SMALL_GROUP, reason="It was left out.")

    assert in_force(ledger.book) == [
        ("*", "2.00", MONTH_START, None),
        (SMALL_GROUP, "9.00", MONTH_START, None),
    ]
    assert [f"{c.unit_price:.2f}" for c in Charge.objects.all()] == ["2.00"]


def test_a_reason_alone_replaces_nothing() -> None:
    book = make_book()
    price = put(book, "2.00")

    with pytest.raises(PriceOverlapError) as refused:
        put(book, "3.00", reason="Wrong.")

    assert refused.value.facts["price"] == str(price.pk)


def test_a_replaced_price_charges_nothing_twice_where_the_window_waits_for_another() -> None:
    ledger = make_ledger()
    window = sealed_window(ledger.cluster, [Use(ledger.llm), Use(ledger.llm, 600, size="large")])
    tick(at=AT, actor=TICK)

    put(ledger.book, "3.00", replaces=Price.objects.get().pk, reason="Typed wrong.")
    tick(at=AT, actor=TICK)
    tick(at=AT, actor=TICK)

    assert charged() == {(window.pk, "llm", SMALL_GROUP, "2.00"): 3600}


def test_late_use_of_a_month_in_review_is_priced_by_a_price_set_after_it() -> None:
    ledger = make_ledger()
    window = sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()
    BillingPeriod.objects.filter(label="2026-10").update(state="review", reviewed_at=AT)
    late = correct(window, ledger.llm, 600, size="large")
    assert accrue_late(late) == 0

    put(ledger.book, "9.00", size="large")

    assert accrue_late(late) == 1
    charge = Charge.objects.get(size="large")
    assert (charge.period.label, charge.unit_seconds) == ("2026-11", 600)


def test_late_use_of_a_month_in_review_is_priced_where_only_later_hours_have_a_price() -> None:
    ledger = make_ledger()
    make_price(ledger.book, "9.00", size="large", begin_at=MONTH_START + HOUR)
    first = sealed_window(ledger.cluster, [Use(ledger.llm)])
    sealed_window(ledger.cluster, [Use(ledger.llm, size="large")], start_at=MONTH_START + HOUR)
    accrue_everything()
    BillingPeriod.objects.filter(label="2026-10").update(state="review", reviewed_at=AT)
    late = correct(first, ledger.llm, 600, size="large")
    assert accrue_late(late) == 0

    put(ledger.book, "8.00", size="large")

    assert accrue_late(late) == 1
    assert Charge.objects.get(correction_id=late.pk).unit_price == 8


def test_a_future_assignment_is_withdrawn_and_the_one_before_goes_on() -> None:
    ledger = make_ledger()
    other = make_book("other")
    wrong = assign(ledger.organization, other, valid_from=SOON)

    withdraw_assignment(assignment_id=wrong.pk, reason="Another payer.", actor=DORA, at=AT)

    rows = PriceBookAssignment.objects.filter(superseded_at__isnull=True).order_by("valid")
    assert [(row.price_book, row.valid.lower, row.valid.upper) for row in rows] == [
        (ledger.book, MONTH_START, SOON),
        (ledger.book, SOON, None),
    ]
    entry = AuditEntry.objects.get(action="billing:price_book:withdraw")
    assert (entry.organization_id, entry.facts["reason"]) == (
        ledger.organization.pk,
        "Another payer.",
    )


def test_an_assignment_in_force_is_replaced_and_not_withdrawn() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()
    wrong, other = PriceBookAssignment.objects.get(), make_book("other")

    with pytest.raises(PriceInForceError):
        withdraw_assignment(assignment_id=wrong.pk, reason="Wrong.", actor=DORA, at=AT)
    assign(ledger.organization, other, replaces=wrong.pk, reason="Wrong.")

    rows = PriceBookAssignment.objects.filter(superseded_at__isnull=True)
    assert [(row.price_book, row.valid.upper) for row in rows] == [(other, None)]
    assert Charge.objects.get().price.price_book == ledger.book


@pytest.mark.parametrize(
    "change",
    [
        lambda: Price.objects.update(superseded_at=None),
        lambda: Price.objects.update(superseded_at=AT + timedelta(days=1)),
        lambda: Price.objects.update(replaces=None, published_at=AT - HOUR),
        lambda: Price.objects.filter(superseded_at__isnull=True).update(
            superseded_at=AT, valid=(MONTH_START, SOON)
        ),
    ],
    ids=["in force again", "later", "published before", "superseded and closed"],
)
def test_what_is_superseded_stays_so(change: Callable[[], object]) -> None:
    book = make_book()
    put(book, "3.00", replaces=put(book, "2.00").pk, reason="Wrong.")

    with pytest.raises(DatabaseError, match="closed or superseded"), transaction.atomic():
        change()


def test_a_price_superseded_without_an_entry_is_found() -> None:
    price = put(make_book(), "2.00")
    Price.objects.update(superseded_at=AT)

    assert findings() == [
        (
            f"The price {price.pk} of 2.0000000000 for small/* is superseded and not by the audit "
            "trail, or the other way round."
        )
    ]


def test_prices_and_assignments_repaired_twice_are_verified() -> None:
    organization, book = make_organization(), make_book()
    first = put(book, "2.00")
    second = put(book, "3.00", replaces=first.pk, reason="One.")
    put(book, "4.00", valid_from=SOON, replaces=second.pk, reason="Two.")
    wrong = assign(organization, make_book("wrong"))
    assign(organization, book, valid_from=SOON, replaces=wrong.pk, reason="Three.")

    assert findings() == []
    assert in_force(book) == [("*", "3.00", MONTH_START, SOON), ("*", "4.00", SOON, None)]
