"""Price books: which price applies at an hour, and whether the prices of a book hang together."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from itertools import groupby, pairwise
from typing import Final
from uuid import UUID, uuid5

from billing.domain.errors import (
    DiscountInvalidError,
    PriceChangeTooLargeError,
    PriceInvalidError,
    PriceKeyInvalidError,
)
from metering.domain.catalogue.units import BURST_ENDING, GPUSize, is_burst, without_burst

ANY_GROUP: Final = "*"
ANY_BURST_GROUP: Final = f"{ANY_GROUP}{BURST_ENDING}"
"""Any device share, held by preemptible pods. `ANY_GROUP` alone never prices those."""
ANY_TIME: Final = ""
"""The band of prices that are for any time."""
BAND_LENGTH_MAX: Final = 32
PRICE_DECIMALS: Final = 10
PRICE_MAX: Final = 10**10
GROUP_LENGTH_MAX: Final = 96
CHANGE_FACTOR_MAX: Final = 10
"""Between a price and the next one; a wrong decimal point makes a larger change."""
DISCOUNT_MAX: Final = 100
DISCOUNT_STEP: Final = Decimal("0.01")
KEYS: Final = UUID("1a0f7a9e-6c53-5b53-9d0c-0f6f0c4a6c11")
"""The namespace of price keys; it never changes."""


@dataclass(frozen=True)
class PriceSpan:
    """One price of one unit-hour, from `begin_at`, included, to `end_at`, excluded.

    Attributes:
        id: The stored price.
        book: The price book it belongs to.
        price_group: A device share such as "H100/1g.10gb", or "*" for any; with "/burst" behind
            it, as preemptible pods hold it.
        end_at: None for "until further notice".
        cluster: The only one it prices; None for any.
        band: The only time-of-use band it prices; "" for any time.
    """

    id: str
    book: str
    size: str
    price_group: str
    unit_price: Decimal
    begin_at: datetime
    end_at: datetime | None
    cluster: str | None = None
    band: str = ANY_TIME

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What prices follow each other by."""
        return (self.book, self.size, self.price_group, self.cluster or "", self.band)

    def covers(self, at: datetime) -> bool:
        """Whether it is in force at a moment."""
        return self.begin_at <= at and (self.end_at is None or at < self.end_at)


class PriceFault(StrEnum):
    """How two prices of one key can fail to follow each other."""

    GAP = "gap"
    OVERLAP = "overlap"


@dataclass(frozen=True)
class PriceProblem:
    """Two prices of one key that do not follow each other, oldest fault first."""

    fault: PriceFault
    earlier: PriceSpan
    later: PriceSpan


def find_problems(spans: Iterable[PriceSpan]) -> tuple[PriceProblem, ...]:
    """Return every gap and overlap between neighbours, by key and then by time."""
    ordered = sorted(spans, key=lambda span: (span.key, span.begin_at))
    problems = []
    for _, same_key in groupby(ordered, key=lambda span: span.key):
        for earlier, later in pairwise(same_key):
            if earlier.end_at is None or earlier.end_at > later.begin_at:
                problems.append(PriceProblem(PriceFault.OVERLAP, earlier, later))
            elif earlier.end_at < later.begin_at:
                problems.append(PriceProblem(PriceFault.GAP, earlier, later))
    return tuple(problems)


def find_price(  # noqa: PLR0913 - As many as a key has parts; all but one are keyword only.
    spans: Iterable[PriceSpan],
    *,
    book: str,
    size: str,
    price_group: str,
    at: datetime,
    base_book: str | None = None,
    cluster: str | None = None,
    band: str | None = ANY_TIME,
) -> PriceSpan | None:
    """Return the price in force whose key is the most specific of those that apply.

    Of one key, the book's own price goes before that of its base. Without any there is no price,
    and a person decides; nor is there where the band is not known and the price depends on it.
    """
    known = [span for span in spans if span.size == size and span.covers(at)]
    in_force = {
        (span.price_group, span.cluster, span.band): span
        for owner in (base_book, book)
        for span in known
        if span.book == owner
    }
    bands = {span.band for span in known} - {ANY_TIME} if band is None else {band} - {ANY_TIME}
    keys = keys_for(price_group, cluster=cluster, bands=sorted(bands))
    found = next((in_force[key] for key in keys if key in in_force), None)
    return None if found is not None and band is None and found.band != ANY_TIME else found


def keys_for(
    price_group: str, *, cluster: str | None, bands: Iterable[str] = ()
) -> tuple[tuple[str, str | None, str], ...]:
    """Return group, cluster and band of the prices that apply, the most specific first.

    The group decides; of one group, the price of the cluster goes before that of any cluster
    (ADR 0059), and of one of these that of the band before that of any time (ADR 0064).
    """
    clusters = (None,) if cluster is None else (cluster, None)
    times = (*bands, ANY_TIME)
    return tuple(
        (group, one, band)
        for group in groups_for(price_group)
        for one in clusters
        for band in times
    )


def groups_for(price_group: str) -> tuple[str, ...]:
    """Return the groups of prices that apply to a device share, the most specific first.

    They are the share itself, any share of its model, and any device: no two are equally specific.
    What preemptible pods hold is priced apart, so all or none of them end in "/burst".
    """
    ending = BURST_ENDING if is_burst(price_group) else ""
    model = price_group.partition("/")[0]
    every = (price_group, f"{model}/{ANY_GROUP}{ending}", f"{ANY_GROUP}{ending}")
    return tuple(dict.fromkeys(every)) if model != ANY_GROUP else (f"{ANY_GROUP}{ending}",)


def key_id(
    *,
    price_book_id: UUID,
    size: str,
    price_group: str,
    cluster_id: UUID | None = None,
    band: str = ANY_TIME,
) -> UUID:
    """Return the id of what prices follow each other by: the same for each price of the key.

    FOCUS calls it SkuPriceId. It is computed, so that it is the same in every export. That of a
    cluster's price is made from the one for any cluster, and that of a band from the one for any
    time, which stay as they were before clusters and bands.
    """
    of_any_cluster = uuid5(KEYS, f"{price_book_id}/{size}/{price_group}")
    of_any_time = of_any_cluster if cluster_id is None else uuid5(of_any_cluster, str(cluster_id))
    return of_any_time if band == ANY_TIME else uuid5(of_any_time, f"band/{band}")


def require_unit_price(unit_price: Decimal) -> Decimal:
    """Return a price the ledger can keep to the last digit.

    Raises:
        PriceInvalidError: It is negative, not finite, too large or too fine.
    """
    if not unit_price.is_finite() or not 0 <= unit_price < PRICE_MAX:
        raise PriceInvalidError(
            "The price is negative, too large or not a number.",
            field="unit_price",
            facts={"unit_price": str(unit_price)},
        )
    numerator, denominator = unit_price.as_integer_ratio()
    if numerator * 10**PRICE_DECIMALS % denominator:
        raise PriceInvalidError(
            "The price has more than 10 digits after the point.",
            field="unit_price",
            facts={"unit_price": str(unit_price)},
        )
    return unit_price


def discounted(unit_price: Decimal, *, discount_percent: Decimal) -> Decimal:
    """Return a price less a discount, rounded half up to the digits of a price."""
    exact = unit_price * (DISCOUNT_MAX - discount_percent) / DISCOUNT_MAX
    return exact.quantize(Decimal(1).scaleb(-PRICE_DECIMALS), rounding=ROUND_HALF_UP)


def require_discount(discount_percent: Decimal | None) -> Decimal:
    """Return a discount that the database keeps to the last digit.

    Raises:
        DiscountInvalidError: It is missing, not above 0, above 100, or finer than 0.01 percent.
    """
    if (
        discount_percent is None
        or not discount_percent.is_finite()
        or not 0 < discount_percent <= DISCOUNT_MAX
        or discount_percent % DISCOUNT_STEP
    ):
        raise DiscountInvalidError(
            "The discount is missing, not above 0 and up to 100, or finer than 0.01 percent.",
            field="discount_percent",
            facts={"discount_percent": None if discount_percent is None else str(discount_percent)},
        )
    return discount_percent


def require_small_change(unit_price: Decimal, *, earlier: Iterable[Decimal]) -> None:
    """Refuse a price far from each earlier one; without an earlier one there is no limit.

    Raises:
        PriceChangeTooLargeError: It is more than 10 times, or less than a tenth of, each of them.
    """
    prices = list(earlier)
    if prices and not any(
        price <= unit_price * CHANGE_FACTOR_MAX and unit_price <= price * CHANGE_FACTOR_MAX
        for price in prices
    ):
        raise PriceChangeTooLargeError(
            "The price is more than 10 times, or less than a tenth of, what applies without it: "
            f"{prices[0].normalize():f}.",
            field="unit_price",
            facts={
                "unit_price": f"{unit_price.normalize():f}",
                "price_before": f"{prices[0].normalize():f}",
            },
        )


def require_key(*, size: str, price_group: str) -> None:
    """Refuse a size or group that no usage record can have.

    Raises:
        PriceKeyInvalidError: The size is unknown, or the group is neither "*", nor MODEL/*, nor
            MODEL/share, each with or without "/burst" behind it.
    """
    if size not in {known.value for known in GPUSize}:
        raise PriceKeyInvalidError("The size is not known.", field="size", facts={"size": size})
    share = without_burst(price_group)
    if share != ANY_GROUP and not _is_device_share(share):
        raise PriceKeyInvalidError(
            "The price group does not name a device share.",
            field="price_group",
            facts={"price_group": price_group},
        )


def _is_device_share(price_group: str) -> bool:
    model, slash, share = price_group.partition("/")
    named = model if share == ANY_GROUP else price_group
    return (
        len(price_group) <= GROUP_LENGTH_MAX
        and price_group.isprintable()
        and ANY_GROUP not in named
        and bool(model.strip() and slash and share.strip())
    )
