"""Drafts of prices: what last month's use would cost at them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from billing.domain.errors import PriceDraftInvalidError
from billing.domain.money import Money, price_of
from billing.domain.pricing.price_book import (
    ANY_TIME,
    keys_for,
    require_key,
    require_unit_price,
)

PRICES_MAX = 500
"""More than all sizes and device shares of a book; a list that is longer is a mistake."""
PriceKey = tuple[str, str, str | None, str]
"""Size, group, cluster and band; None for any cluster, "" for any time."""
PriceTable = Mapping[PriceKey, Decimal]
"""Prices in force by key."""


@dataclass(frozen=True)
class DraftedPrice:
    """A price of a draft, per unit-hour in the book's currency.

    Attributes:
        replaces: The wrong price in force at the draft's hour whose hours it takes over.
        cluster: The id of the only cluster it prices; None for any.
        band: The only time-of-use band it prices; "" for any time.
    """

    size: str
    price_group: str
    unit_price: Decimal
    replaces: UUID | None = None
    cluster: UUID | None = None
    band: str = ANY_TIME

    @property
    def key(self) -> PriceKey:
        """What prices of a book follow each other by."""
        cluster = None if self.cluster is None else str(self.cluster)
        return (self.size, self.price_group, cluster, self.band)


@dataclass(frozen=True)
class UseOfMonth:
    """Unit-seconds of an organization in a month, by size, device share, cluster and band."""

    organization: str
    size: str
    price_group: str
    unit_seconds: int
    cluster: str | None = None
    band: str | None = ANY_TIME
    """None where it is not known: the calendar has ended."""


@dataclass(frozen=True)
class Effect:
    """What an organization's use costs at the prices in force, and at the drafted ones.

    Use without a price costs nothing here; `unpriced_unit_seconds` says how much that is.
    """

    organization: str
    before: Money
    after: Money
    unpriced_unit_seconds: int


def require_prices(prices: Sequence[DraftedPrice]) -> None:
    """Refuse a draft without prices, with too many, with a key twice, or with one that cannot be.

    Raises:
        PriceDraftInvalidError: Their number, or two prices of one key.
        PriceInvalidError: A price cannot be kept.
        PriceKeyInvalidError: A size or group is not known.
    """
    if not 0 < len(prices) <= PRICES_MAX:
        raise PriceDraftInvalidError(
            f"A draft has 1 to {PRICES_MAX} prices.", field="prices", facts={"prices": len(prices)}
        )
    keys = set()
    for price in prices:
        require_key(size=price.size, price_group=price.price_group)
        require_unit_price(price.unit_price)
        if price.key in keys:
            raise PriceDraftInvalidError(
                "Two prices of the draft have the same size, group, cluster and band.",
                field="prices",
                facts={"size": price.size, "price_group": price.price_group},
            )
        keys.add(price.key)


def effects_of(
    use: Iterable[UseOfMonth], *, before: PriceTable, after: PriceTable, currency: str
) -> tuple[Effect, ...]:
    """Return what the use of each organization costs at both tables, by organization.

    Each size, device share, cluster and band is rounded once, as a line is.
    """
    rows: dict[str, list[UseOfMonth]] = {}
    for one in use:
        rows.setdefault(one.organization, []).append(one)
    return tuple(
        Effect(
            organization=organization,
            before=_cost(rows[organization], before, currency=currency),
            after=_cost(rows[organization], after, currency=currency),
            unpriced_unit_seconds=sum(
                one.unit_seconds for one in rows[organization] if _price(one, after) is None
            ),
        )
        for organization in sorted(rows)
    )


def _cost(rows: Iterable[UseOfMonth], prices: PriceTable, *, currency: str) -> Money:
    priced = ((one.unit_seconds, _price(one, prices)) for one in rows)
    return sum(
        (
            price_of(seconds, unit_price=price, currency=currency)
            for seconds, price in priced
            if price is not None
        ),
        start=Money.zero(currency),
    )


def _price(one: UseOfMonth, prices: PriceTable) -> Decimal | None:
    """Return the price of a use; None without one, or where it depends on a band not known."""
    known = {key[3] for key in prices} if one.band is None else {one.band}
    keys = keys_for(one.price_group, cluster=one.cluster, bands=sorted(known - {ANY_TIME}))
    found = next((key for key in ((one.size, *key) for key in keys) if key in prices), None)
    is_unknown = found is not None and one.band is None and found[3] != ANY_TIME
    return None if found is None or is_unknown else prices[found]
