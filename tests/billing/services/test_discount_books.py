"""A discount book costs the prices of its base less the discount, wherever a price is used."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.errors import DiscountInvalidError, PriceInUseError
from billing.domain.pricing.price_book import discounted
from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import (
    AccrualException,
    BillingPeriod,
    BookPrice,
    Charge,
    PriceBook,
    PriceBookAssignment,
)
from billing.selectors.pricing.cost_estimate import PriceBookEstimator
from billing.selectors.pricing.price_lookup import which_price
from billing.selectors.verification import check_charges
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.price_drafts import draft_prices
from billing.services.pricing.prices import create_price_book, set_price
from billing.services.repricing import approve_repricing, reprice_period
from billing.tasks import tick
from metering.domain.catalogue.units import GPUSize
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    SMALL_GROUP,
    TICK,
    Ledger,
    Use,
    assign,
    make_book,
    make_ledger,
    make_price,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_organization, make_project
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


def discount(base: PriceBook, percent: str = "20", **fields: Any) -> PriceBook:  # noqa: ANN401 - Any column.
    given = {"slug": "academic", "name": "Academic", "currency": base.currency, **fields}
    return create_price_book(
        base_book=base, discount_percent=Decimal(percent), actor=DORA, at=AT, **given
    )


@shared_rows
def ledger() -> Ledger:
    """Acme, billed by 20 % less than a base book with 2.00 for any small unit."""
    base = make_book("base")
    make_price(base)
    made = make_ledger("acme")
    book = discount(base)
    assign_price_book(
        organization=made.organization,
        price_book=book,
        valid_from=MONTH_START,
        replaces=PriceBookAssignment.objects.get(organization=made.organization).pk,
        reason="Academic.",
        actor=DORA,
        at=AT,
    )
    return Ledger(made.organization, made.llm, made.vision, made.cluster, book)


def use(ledger: Ledger, *uses: Use) -> None:
    sealed_window(ledger.cluster, uses or [Use(ledger.llm)])
    tick(at=AT, actor=TICK)


def charges() -> list[tuple[str, str, int]]:
    return [
        (f"{c.unit_price:.4f}", f"{c.list_unit_price:.4f}", c.unit_seconds)
        for c in Charge.objects.order_by("pk")
    ]


def base_of(ledger: Ledger) -> PriceBook:
    assert ledger.book.base_book is not None
    return ledger.book.base_book


def put(book: PriceBook, price: str, **fields: Any) -> None:  # noqa: ANN401 - Any column.
    given = {"size": "small", "valid_from": MONTH_START, **fields}
    set_price(price_book=book, unit_price=Decimal(price), actor=DORA, at=AT, **given)


def test_a_key_without_an_own_price_costs_the_base_price_less_the_discount(ledger: Ledger) -> None:
    use(ledger)

    assert charges() == [("1.6000", "2.0000", 3600)]
    assert check_charges({}).differences == ()


def test_the_own_price_goes_before_that_of_the_base_and_pins_it_as_list_price(
    ledger: Ledger,
) -> None:
    put(ledger.book, "1.90")

    use(ledger)

    assert charges() == [("1.9000", "2.0000", 3600)]
    assert check_charges({}).differences == ()


def test_a_more_specific_base_price_goes_before_an_own_one(ledger: Ledger) -> None:
    put(ledger.book, "1.90")
    put(base_of(ledger), "3.00", price_group=SMALL_GROUP)

    use(ledger, Use(ledger.llm, price_group=SMALL_GROUP))

    assert charges() == [("2.4000", "3.0000", 3600)]


def test_a_book_without_base_pins_its_own_price_as_list_price() -> None:
    use(make_ledger())

    assert charges() == [("2.0000", "2.0000", 3600)]
    assert Charge.objects.get().base_unit_price is None


def test_a_later_price_of_the_base_rates_waiting_use(ledger: Ledger) -> None:
    use(ledger, Use(ledger.llm, size="large"))
    assert AccrualException.objects.get(resolved_at=None).code == "no_price"

    put(base_of(ledger), "10", size="large")
    tick(at=AT, actor=TICK)

    assert charges() == [("8.0000", "10.0000", 3600)]
    assert not AccrualException.objects.filter(resolved_at=None).exists()


def test_which_price_and_the_estimate_use_the_discount(ledger: Ledger) -> None:
    found = which_price(
        organization_id=ledger.organization.pk,
        size="small",
        price_group=SMALL_GROUP,
        hour=MONTH_START,
    )
    estimate = PriceBookEstimator().estimate(
        organization_id=ledger.organization.pk,
        project_id=ledger.llm.pk,
        size=GPUSize.SMALL,
        model_group="",
        units=1,
        is_burst=False,
        at=MONTH_START,
    )

    assert (found.unit_price, found.list_unit_price) == (Decimal("1.6"), Decimal(2))
    assert found.price is not None
    assert found.price.price_book == base_of(ledger)
    assert estimate.at_full_use == Decimal("1168.00")


def test_a_move_to_the_discount_book_reprices_charges_of_the_same_price() -> None:
    ledger = make_ledger()
    use(ledger)
    book = discount(ledger.book)
    was = PriceBookAssignment.objects.get()
    assign_price_book(
        organization=ledger.organization,
        price_book=book,
        valid_from=MONTH_START,
        replaces=was.pk,
        reason="Academic.",
        actor=DORA,
        at=AT,
    )

    period = BillingPeriod.objects.get(label="2026-10")
    asked = reprice_period(
        period_id=period.pk, reason="Academic.", is_four_eyes=True, actor=DORA, at=AT
    )
    approve_repricing(repricing_id=asked.pk, is_four_eyes=True, actor=ERIC, at=AT)

    assert sorted(charges()) == [
        ("1.6000", "2.0000", 3600),
        ("2.0000", "2.0000", -3600),
        ("2.0000", "2.0000", 3600),
    ]
    assert (asked.before, asked.after) == (Decimal("2.00"), Decimal("1.60"))
    assert check_charges({}).differences == ()


def test_own_prices_over_hours_charged_at_the_base_are_refused(ledger: Ledger) -> None:
    use(ledger)

    with pytest.raises(PriceInUseError) as refused:
        put(ledger.book, "1.90")

    assert refused.value.code == "price_in_use"
    assert not ledger.book.prices.exists()


def test_a_base_price_over_hours_that_a_discount_book_charged_is_refused(ledger: Ledger) -> None:
    put(ledger.book, "1.90")
    use(ledger, Use(ledger.llm, price_group=SMALL_GROUP))

    with pytest.raises(PriceInUseError):
        put(base_of(ledger), "3.00", price_group=SMALL_GROUP)

    assert base_of(ledger).prices.count() == 1


def test_a_draft_of_the_base_shows_its_effect_on_the_discount_book(ledger: Ledger) -> None:
    other = make_project(make_organization("umbrella"), "virus")
    assign(other.organization, base_of(ledger))
    use(ledger, Use(ledger.llm), Use(other))

    drafted = draft_prices(
        price_book=base_of(ledger),
        prices=[DraftedPrice("small", "*", Decimal(3))],
        valid_from=AT.replace(minute=0, second=0, microsecond=0) + timedelta(days=2),
        reason="The new year.",
        actor=DORA,
        at=AT,
    )

    assert [(e["organization"], e["before"], e["after"]) for e in drafted.effects] == [
        ("acme", "1.60", "2.40"),
        ("umbrella", "2.00", "3.00"),
    ]


@pytest.mark.parametrize("percent", ["0", "-1", "100.01", "12.345", "NaN"])
def test_a_discount_that_cannot_be_is_refused(percent: str) -> None:
    base = make_book("base")

    with pytest.raises(DiscountInvalidError) as refused:
        discount(base, percent)

    assert (refused.value.code, refused.value.field) == ("discount_invalid", "discount_percent")
    assert list(PriceBook.objects.all()) == [base]
    assert not AuditEntry.objects.exists()


def test_a_discount_on_a_discount_or_another_currency_is_refused() -> None:
    base = make_book("base")
    book = discount(base)

    for on, currency in ((book, "EUR"), (base, "USD")):
        with pytest.raises(DiscountInvalidError) as refused:
            discount(on, slug="other", currency=currency)
        assert refused.value.field == "base_book"
    assert PriceBook.objects.count() == 2


def test_the_database_keeps_base_and_discount() -> None:
    base = make_book("base")
    book = discount(base)

    with pytest.raises(DatabaseError, match="keeps its base and discount"), transaction.atomic():
        PriceBook.objects.filter(pk=book.pk).update(discount_percent=50)
    with pytest.raises(DatabaseError, match="a base has no base"), transaction.atomic():
        PriceBook.objects.create(
            slug="x", name="x", currency="EUR", base_book=book, discount_percent=5, created_at=AT
        )


@given(
    st.decimals(0, 10**10 - 1, places=10),
    st.decimals(Decimal("0.01"), 100, places=2),
)
def test_a_discounted_price_is_rounded_half_up_once(price: Decimal, percent: Decimal) -> None:
    exact = Fraction(price) * (100 - Fraction(percent)) / 100

    rounded = Fraction((exact * 10**10 * 2 + 1) // 2, 10**10)

    assert Fraction(discounted(price, discount_percent=percent)) == rounded


@pytest.mark.parametrize("price", ["0.0000000001", "9999999999.9999999999", "0.3333333333"])
def test_the_database_rounds_as_python_does(price: str) -> None:
    base = make_book("base")
    book = discount(base, "12.35")
    make_price(base, price)

    assert BookPrice.objects.get(price_book=book).unit_price == discounted(
        Decimal(price), discount_percent=Decimal("12.35")
    )
