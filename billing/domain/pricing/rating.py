"""Rating: what usage costs, in plain Python, one fact at a time.

It is the reference for `billing.services.accrual`, which does the same set-based in PostgreSQL.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain

from billing.domain.pricing.price_book import PriceSpan, find_price
from billing.domain.pricing.price_calendar import CalendarSpan, band_of


class Missing(StrEnum):
    """Why usage has no price."""

    PRICE_BOOK = "no_price_book"
    PRICE = "no_price"
    CALENDAR = "no_price_calendar"


@dataclass(frozen=True)
class BookSpan:
    """A price book of an organization, of a class or of all, to `end_at` or for good."""

    organization: str | None
    book: str | None
    """None for none of its own: then the next one applies."""
    begin_at: datetime
    end_at: datetime | None
    base_book: str | None = None
    """Whose prices, less a discount, it has where it has none of its own."""
    customer_class: str | None = None

    def covers(self, at: datetime) -> bool:
        """Whether it is in force at a moment."""
        return self.begin_at <= at and (self.end_at is None or at < self.end_at)


@dataclass(frozen=True)
class ClassSpan:
    """The customer class an organization is in, to `end_at` or for good; None for none."""

    organization: str
    customer_class: str | None
    begin_at: datetime
    end_at: datetime | None

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
    usage: Iterable[UsageFact],
    *,
    books: Iterable[BookSpan],
    prices: Iterable[PriceSpan],
    classes: Iterable[ClassSpan] = (),
    calendars: Iterable[CalendarSpan] = (),
) -> Rating:
    """Return what each fact is charged by, and what lacks a book, a price or a calendar."""
    assigned, joined = tuple(books), tuple(classes)
    priced = (tuple(prices), tuple(calendars))
    charged: Counter[ChargeKey] = Counter()
    unpriced: Counter[MissingKey] = Counter()
    for fact in usage:
        book = find_book(assigned, joined, organization=fact.organization, at=fact.window_start)
        price = Missing.PRICE_BOOK if book is None else _price_of(fact, book, *priced)
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


def find_book(
    books: Iterable[BookSpan], classes: Iterable[ClassSpan], *, organization: str, at: datetime
) -> BookSpan | None:
    """Return the book that bills an organization: its own, that of its class, or the default."""
    known = [span for span in books if span.covers(at) and span.book is not None]
    joined = {
        span.customer_class
        for span in classes
        if span.organization == organization and span.covers(at) and span.customer_class
    }
    own = (span for span in known if span.organization == organization)
    of_class = (span for span in known if span.customer_class in joined)
    default = (s for s in known if s.organization is None and s.customer_class is None)
    return next(chain(own, of_class, default), None)


def _price_of(
    fact: UsageFact,
    book: BookSpan,
    prices: tuple[PriceSpan, ...],
    calendars: tuple[CalendarSpan, ...],
) -> PriceSpan | Missing:
    band = band_of(calendars, book=book.book or "", base_book=book.base_book, at=fact.window_start)
    found = find_price(
        prices,
        book=book.book or "",
        base_book=book.base_book,
        size=fact.size,
        price_group=fact.price_group,
        cluster=fact.cluster,
        band=band,
        at=fact.window_start,
    )
    return found or (Missing.PRICE if band is not None else Missing.CALENDAR)
