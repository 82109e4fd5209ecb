"""Every unit-second is charged once or named as missing a price; none is lost and none is free."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from billing.domain.pricing.price_book import PriceSpan
from billing.domain.pricing.rating import (
    BookSpan,
    ChargeKey,
    Missing,
    MissingKey,
    UsageFact,
    rate_usage,
)

START = datetime(2026, 10, 1, tzinfo=UTC)


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def use(
    hour: int, unit_seconds: int, *, organization: str = "acme", group: str = "H100/whole"
) -> UsageFact:
    return UsageFact(
        window_id=hour,
        window_start=at(hour),
        organization=organization,
        project="llm",
        owner="carol",
        size="small",
        price_group=group,
        unit_seconds=unit_seconds,
    )


def price(begin: int, end: int | None, group: str = "*") -> PriceSpan:
    return PriceSpan(
        id=f"{group} {begin}",
        book="standard",
        size="small",
        price_group=group,
        unit_price=Decimal(2),
        begin_at=at(begin),
        end_at=None if end is None else at(end),
    )


BOOKS = (BookSpan("acme", "standard", at(2), at(10)),)


def test_use_of_one_key_is_added_up_at_the_price_of_its_hour() -> None:
    rating = rate_usage(
        [use(3, 100), use(3, 50), use(6, 10)],
        books=BOOKS,
        prices=[price(0, 5), price(5, None), price(6, None, "H100/whole")],
    )

    assert rating.unpriced == {}
    assert rating.charged == {
        ChargeKey(3, "llm", "carol", "small", "H100/whole", "* 0"): 150,
        ChargeKey(6, "llm", "carol", "small", "H100/whole", "H100/whole 6"): 10,
    }


def test_use_without_book_or_price_is_reported_with_its_cause() -> None:
    rating = rate_usage(
        [use(1, 7), use(3, 8), use(3, 9, organization="umbrella"), use(10, 1)],
        books=BOOKS,
        prices=[price(4, None)],
    )

    assert rating.charged == {}
    assert rating.unpriced == {
        MissingKey(1, "llm", "small", "H100/whole", Missing.PRICE_BOOK): 7,
        MissingKey(3, "llm", "small", "H100/whole", Missing.PRICE): 8,
        MissingKey(3, "llm", "small", "H100/whole", Missing.PRICE_BOOK): 9,
        MissingKey(10, "llm", "small", "H100/whole", Missing.PRICE_BOOK): 1,
    }


def test_a_book_without_end_holds_for_good() -> None:
    rating = rate_usage(
        [use(99, 5)], books=[BookSpan("acme", "standard", at(2), None)], prices=[price(0, None)]
    )

    assert sum(rating.charged.values()) == 5


def test_nothing_used_is_neither_charged_nor_missed() -> None:
    rating = rate_usage([use(3, 0), use(1, 0)], books=BOOKS, prices=[price(0, None)])

    assert (rating.charged, rating.unpriced) == ({}, {})


@given(
    uses=st.lists(st.builds(use, st.integers(0, 12), st.integers(0, 3600)), max_size=12),
    starts=st.lists(st.integers(0, 12), unique=True, max_size=4).map(sorted),
)
def test_whatever_was_used_is_charged_or_missed(uses: list[UsageFact], starts: list[int]) -> None:
    ends = [*starts[1:], None] if starts else []
    prices = [price(begin, end) for begin, end in zip(starts, ends, strict=True)]

    rating = rate_usage(uses, books=BOOKS, prices=prices)

    accounted = sum(rating.charged.values()) + sum(rating.unpriced.values())
    assert accounted == sum(fact.unit_seconds for fact in uses)
