"""Rating: what usage costs, in plain Python, one fact at a time.

It is the reference for `billing.services.accrual`, which does the same set-based in PostgreSQL.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from billing.domain.pricing.price_book import PriceSpan, find_price


class Missing(StrEnum):
    """Why usage has no price."""

    PRICE_BOOK = "no_price_book"
    PRICE = "no_price"


@dataclass(frozen=True)
class BookSpan:
    """The price book an organization is billed by, from `begin_at` to `end_at` or for good."""

    organization: str
    book: str
    begin_at: datetime
    end_at: datetime | None
    base_book: str | None = None
    """Whose prices, less a discount, it has where it has none of its own."""

    def covers(self, at: datetime) -> bool:
        """Whether it is in force at a moment."""
        return self.begin_at <= at and (self.end_at is None or at < self.end_at)


@dataclass(frozen=True)
class UsageFact:
    """Whole unit-seconds of one window, project, owner, size and price group."""

    window_id: int
    window_start: datetime
    organization: str
    project: str
    owner: str
    size: str
    price_group: str
    unit_seconds: int
    cluster: str | None = None


@dataclass(frozen=True)
class ChargeKey:
    """What a charge is unique by."""

    window_id: int
    project: str
    owner: str
    size: str
    price_group: str
    price: str


@dataclass(frozen=True)
class MissingKey:
    """What an accrual exception is unique by, and its cause."""

    window_id: int
    project: str
    size: str
    price_group: str
    missing: Missing


@dataclass(frozen=True)
class Rating:
    """Unit-seconds charged by key and unit-seconds without a price by key; none is zero."""

    charged: dict[ChargeKey, int]
    unpriced: dict[MissingKey, int]


def rate_usage(
    usage: Iterable[UsageFact], *, books: Iterable[BookSpan], prices: Iterable[PriceSpan]
) -> Rating:
    """Return what each fact is charged by, and what lacks a book or a price."""
    assigned, priced = tuple(books), tuple(prices)
    charged: Counter[ChargeKey] = Counter()
    unpriced: Counter[MissingKey] = Counter()
    for fact in usage:
        price = _price_of(fact, assigned, priced)
        if isinstance(price, PriceSpan):
            key = ChargeKey(
                fact.window_id, fact.project, fact.owner, fact.size, fact.price_group, price.id
            )
            charged[key] += fact.unit_seconds
        else:
            missing = MissingKey(fact.window_id, fact.project, fact.size, fact.price_group, price)
            unpriced[missing] += fact.unit_seconds
    return Rating(
        charged={key: sum_ for key, sum_ in charged.items() if sum_},
        unpriced={key: sum_ for key, sum_ in unpriced.items() if sum_},
    )


def _price_of(
    fact: UsageFact, books: tuple[BookSpan, ...], prices: tuple[PriceSpan, ...]
) -> PriceSpan | Missing:
    book = next(
        (
            span
            for span in books
            if span.organization == fact.organization and span.covers(fact.window_start)
        ),
        None,
    )
    if book is None:
        return Missing.PRICE_BOOK
    found = find_price(
        prices,
        book=book.book,
        base_book=book.base_book,
        size=fact.size,
        price_group=fact.price_group,
        cluster=fact.cluster,
        at=fact.window_start,
    )
    return found or Missing.PRICE
