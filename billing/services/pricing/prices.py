"""Price books and prices; nothing with a price is edited or deleted."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from billing.domain.errors import (
    DiscountInvalidError,
    PriceBookExistsError,
    PriceInUseError,
    PriceOverlapError,
    required_reason,
)
from billing.domain.money import minor_digits
from billing.domain.period import require_hour
from billing.domain.pricing.price_book import (
    ANY_GROUP,
    ANY_TIME,
    groups_for,
    require_discount,
    require_key,
    require_small_change,
    require_unit_price,
)
from billing.domain.pricing.price_calendar import require_band
from billing.models import (
    Charge,
    OrganizationBook,
    Price,
    PriceBook,
)
from billing.selectors.locks import (
    lock_price_book,
    published_prices,
)
from billing.selectors.pricing.organization_books import last_charged_in
from billing.selectors.pricing.price_calendars import bands_of
from billing.selectors.pricing.price_lookup import prices_without
from billing.services.pricing.price_history import (
    end_row,
    hours_from,
    in_force_at,
    is_next,
    publish_price,
    require_replaced,
    row_before,
    supersede_price,
)
from metering.domain.catalogue.units import without_burst
from tenants.domain.actors import Actor
from tenants.models import Cluster
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record


def create_price_book(  # noqa: PLR0913 - A discount has a base; all are keyword only.
    *,
    slug: str,
    name: str,
    currency: str,
    actor: Actor,
    at: datetime,
    base_book: PriceBook | None = None,
    discount_percent: Decimal | None = None,
) -> PriceBook:
    """Return a new, empty price book, or one that is a discount on another.

    Args:
        slug: Its short name, unique.
        name: Its name.
        currency: Of its prices, in ISO 4217.
        actor: The account that makes it.
        at: When.
        base_book: The book whose prices it has where it has none of its own.
        discount_percent: What is taken off the prices of `base_book`.

    Raises:
        InvalidInputError: A field cannot be used; every problem is reported.
        CurrencyUnknownError: The currency is not in ISO 4217.
        DiscountInvalidError: The base has another currency or a base itself, or there is no
            discount that can be kept.
        PriceBookExistsError: The slug is taken.
    """
    refuse_invalid(PriceBook(slug=slug, name=name, currency=currency, created_at=at))
    minor_digits(currency)
    _require_base(base_book, discount_percent, currency=currency)
    fields = {
        "name": name,
        "currency": currency,
        "base_book": base_book,
        "discount_percent": discount_percent,
        "created_at": at,
    }
    with transaction.atomic():
        book, is_new = PriceBook.objects.get_or_create(slug=slug, defaults=fields)
        if not is_new:
            raise PriceBookExistsError(
                "There is a price book with this slug.", field="slug", facts={"slug": slug}
            )
        record(
            actor=actor,
            at=at,
            action="billing:price_book:create",
            object_kind="price_book",
            object_id=book.pk,
            facts={"slug": slug, "currency": currency, **_discount_facts(book)},
        )
    return book


def set_price(  # noqa: PLR0913 - A price has this many columns; all are keyword only.
    *,
    price_book: PriceBook,
    size: str,
    unit_price: Decimal,
    valid_from: datetime,
    actor: Actor,
    at: datetime,
    price_group: str = ANY_GROUP,
    cluster: Cluster | None = None,
    band: str = ANY_TIME,
    replaces: UUID | None = None,
    reason: str = "",
    is_drafted: bool = False,
) -> Price:
    """Return a new price that is in force from an hour until it is succeeded.

    The price before it ends where it begins, so prices of a key never overlap or leave a gap. One
    that begins before the earliest of its key lasts until that begins: so earlier use is priced.
    One that replaces another takes over its hours from `valid_from`; charges made at the other keep
    it until their month is repriced.

    Args:
        price_book: The book.
        size: small, medium or large.
        unit_price: Per unit-hour, in the book's currency.
        valid_from: A whole UTC hour; it may be past where nothing is charged yet.
        actor: The account that sets it.
        at: When it is set.
        price_group: A device share such as "H100/1g.10gb", or "*" for any; with "/burst" behind it
            for what preemptible pods hold, which the others never price.
        cluster: The only one whose use it prices; None for any.
        band: The only time-of-use band it prices, of a calendar of the book; "" for any time.
        replaces: The price of the same key in force at `valid_from` that was wrong.
        reason: Why; needed to replace a price, or to price hours that are charged otherwise.
        is_drafted: Whether it comes from a draft of prices, which may change a price by any factor.

    Raises:
        PriceInvalidError: The price is negative, or finer than the ledger keeps.
        PriceKeyInvalidError: The size, the group or the band is not known.
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        ReasonMissingError: A price is replaced without a reason.
        PriceOverlapError: The key has a price at that hour, and a later one or one as old.
        PriceInUseError: Hours it would cover are charged already.
        ReplacedPriceError: The named price is not the one in force at that hour.
        PriceChangeTooLargeError: It is far from the price before it, or from what applies without
            it, and from the one before a price it replaces; only drafts of prices may be.
    """
    require_key(size=size, price_group=price_group)
    require_unit_price(unit_price)
    begin_at = require_hour(valid_from, field="valid_from")
    why = required_reason(reason) if replaces else reason.strip()
    with transaction.atomic():
        book = lock_price_book(price_book.pk)
        require_band(band, known=bands_of(book, hour=begin_at))
        rows = published_prices(
            price_book=book,
            size=size,
            price_group=price_group,
            cluster_id=None if cluster is None else cluster.pk,
            band=band,
        )
        previous = in_force_at(rows, begin_at)
        hours = hours_from(begin_at, rows=rows, is_replacing=replaces is not None)
        price = Price(
            price_book=book,
            size=size,
            price_group=price_group,
            cluster=cluster,
            band=band,
            unit_price=unit_price,
            valid=hours,
            replaces_id=replaces,
        )
        if replaces is not None:
            replaced = require_replaced(previous, replaces)
            if not is_drafted:
                require_small_change(unit_price, earlier=_prices_until(replaced, rows))
            supersede_price(replaced, from_at=begin_at, reason=why, actor=actor, at=at)
        else:
            _refuse_price(price, previous, is_repair=bool(why))
            if not is_drafted:
                before = [previous.unit_price] if previous else prices_without(price, begin_at)
                require_small_change(unit_price, earlier=before)
            end_row(previous, begin_at)
        was = None if previous is None else str(previous.unit_price)
        return publish_price(price, was=was, reason=why, actor=actor, at=at)


def _prices_until(replaced: Price, rows: list[Price]) -> list[Decimal]:
    """Return the replaced price and the one before it, which a repair may go back to."""
    before = row_before(replaced, rows)
    return [row.unit_price for row in (replaced, before) if row is not None]


def _require_base(base: PriceBook | None, percent: Decimal | None, *, currency: str) -> None:
    if base is None and percent is None:
        return
    if base is None or base.base_book_id is not None or base.currency != currency:
        raise DiscountInvalidError(
            "The base book is missing, has a base itself, or is in another currency.",
            field="base_book",
            facts={"base_book": None if base is None else base.slug, "currency": currency},
        )
    require_discount(percent)


def _discount_facts(book: PriceBook) -> dict[str, str]:
    if book.base_book is None:
        return {}
    return {"base_book": book.base_book.slug, "discount_percent": str(book.discount_percent)}


def _refuse_price(price: Price, previous: Price | None, *, is_repair: bool) -> None:
    """Refuse a price within older ones, or for hours whose charges it would price otherwise.

    A repair may cover charged hours that no price of its own key is in force at.
    """
    if previous is not None and not is_next(previous, price.valid):
        raise PriceOverlapError(
            "A price of this key begins at that hour or later.",
            field="valid_from",
            facts={"begins_at": previous.valid.lower.isoformat(), "price": str(previous.pk)},
        )
    if previous is None and is_repair:
        return
    charged = charges_by_book(price.price_book).filter(size=price.size)
    wider = groups_for(price.price_group)
    if without_burst(price.price_group).endswith(ANY_GROUP):
        charged = charged.filter(price__price_group__in=wider)
    else:
        charged = charged.filter(price_group=price.price_group)
    if len(wider) > 1:
        model = price.price_group.partition("/")[0]
        charged = charged.filter(price_group__startswith=f"{model}/")
    if price.cluster_id is not None:
        charged = charged.filter(cluster=price.cluster_id)
    last = last_charged_in(charged.exclude(_goes_before(price)), price.valid)
    if last is not None:
        raise PriceInUseError(
            "Hours the price would cover are charged already.",
            field="valid_from",
            facts={"last_charged_hour": last.isoformat()},
        )


def _goes_before(price: Price) -> Q:
    """Return which charges are at a price of the same group that goes before a price."""
    more_specific = Q(pk__in=[])
    if price.cluster_id is None:
        more_specific |= Q(price__cluster__isnull=False)
    if price.band == ANY_TIME:
        more_specific |= Q(price__cluster=price.cluster_id) & ~Q(price__band=ANY_TIME)
    return Q(price__price_group=price.price_group) & more_specific


def charges_by_book(book: PriceBook) -> QuerySet[Charge]:
    """Return the charges that a new price of a book could price otherwise.

    They are at prices of the book or of a discount on it; and those at prices of its base, of the
    organizations that were billed by the book in their hour.
    """
    billed = OrganizationBook.objects.filter(
        organization=OuterRef("organization"),
        price_book=book,
        valid__contains=OuterRef("window_start"),
    )
    return Charge.objects.filter(
        Q(price__price_book=book)
        | Q(price__price_book__base_book=book)
        | Q(Exists(billed), price__price_book=book.base_book_id)
    )
