"""Price books, prices and who is billed by which; nothing with a price is edited or deleted."""

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing.domain.errors import (
    AssignmentInUseError,
    AssignmentOverlapError,
    CurrencyMismatchError,
    PriceBookExistsError,
    PriceInUseError,
    PriceOverlapError,
)
from billing.domain.money import minor_digits
from billing.domain.period import require_hour
from billing.domain.price_book import ANY_GROUP, require_key, require_unit_price
from billing.models import Charge, Price, PriceBook, PriceBookAssignment
from billing.selectors.locks import (
    lock_organization,
    lock_price_book,
    open_ended_assignment,
    open_ended_price,
)
from tenants.domain.actors import Actor
from tenants.models import Organization
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record


def create_price_book(
    *, slug: str, name: str, currency: str, actor: Actor, at: datetime
) -> PriceBook:
    """Return a new, empty price book.

    Raises:
        InvalidInputError: A field cannot be used; every problem is told.
        CurrencyUnknownError: The currency is not in ISO 4217.
        PriceBookExistsError: The slug is taken.
    """
    refuse_invalid(PriceBook(slug=slug, name=name, currency=currency, created_at=at))
    minor_digits(currency)
    with transaction.atomic():
        book, is_new = PriceBook.objects.get_or_create(
            slug=slug, defaults={"name": name, "currency": currency, "created_at": at}
        )
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
            facts={"slug": slug, "currency": currency},
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
) -> Price:
    """Return a new price that is in force from an hour until it is succeeded.

    The price before it ends where it begins, so prices of a key never overlap or leave a gap.

    Args:
        price_book: The book.
        size: small, medium or large.
        unit_price: Per unit-hour, in the book's currency.
        valid_from: A whole UTC hour; it may be past where nothing is charged yet.
        actor: Who sets it.
        at: When it is set.
        price_group: A device share such as "H100/1g.10gb", or "*" for any.

    Raises:
        PriceInvalidError: The price is negative, or finer than the ledger keeps.
        PriceKeyInvalidError: The size or the group is not known.
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        PriceOverlapError: The newest price of the key begins at that hour or later.
        PriceInUseError: Hours from then on are charged already.
    """
    require_key(size=size, price_group=price_group)
    require_unit_price(unit_price)
    begin_at = require_hour(valid_from, field="valid_from")
    with transaction.atomic():
        book = lock_price_book(price_book.pk)
        previous = open_ended_price(price_book=book, size=size, price_group=price_group)
        if previous is not None and previous.valid.lower >= begin_at:
            raise PriceOverlapError(
                "A price of this size and group begins at that hour or later.",
                field="valid_from",
                facts={"begins_at": previous.valid.lower.isoformat()},
            )
        _refuse_charged_hours(book, size=size, price_group=price_group, begin_at=begin_at)
        if previous is not None:
            previous.valid = DateTimeTZRange(previous.valid.lower, begin_at)
            previous.save(update_fields=["valid"])
        price = Price.objects.create(
            price_book=book,
            size=size,
            price_group=price_group,
            unit_price=unit_price,
            valid=DateTimeTZRange(begin_at, None),
            created_at=at,
        )
        record(
            actor=actor,
            at=at,
            action="billing:price:set",
            object_kind="price",
            object_id=price.pk,
            facts={
                "price_book": book.slug,
                "size": size,
                "price_group": price_group,
                "unit_price": str(unit_price),
                "was": None if previous is None else str(previous.unit_price),
                "valid_from": begin_at.isoformat(),
            },
        )
    return price


def assign_price_book(
    *,
    organization: Organization,
    price_book: PriceBook,
    valid_from: datetime,
    actor: Actor,
    at: datetime,
) -> PriceBookAssignment:
    """Return the assignment by which an organization is billed from an hour on.

    Raises:
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        CurrencyMismatchError: The book is not in the organization's billing currency.
        AssignmentOverlapError: The newest assignment begins at that hour or later.
        AssignmentInUseError: Hours from then on are charged already.
    """
    begin_at = require_hour(valid_from, field="valid_from")
    with transaction.atomic():
        payer = lock_organization(organization.pk)
        if price_book.currency != payer.billing_currency:
            raise CurrencyMismatchError(
                "The price book is not in the organization's billing currency.",
                field="price_book",
                facts={"price_book": price_book.currency, "organization": payer.billing_currency},
            )
        previous = open_ended_assignment(payer)
        _refuse_assignment(payer, previous, begin_at=begin_at)
        if previous is not None:
            previous.valid = DateTimeTZRange(previous.valid.lower, begin_at)
            previous.save(update_fields=["valid"])
        assignment = PriceBookAssignment.objects.create(
            organization=payer,
            price_book=price_book,
            valid=DateTimeTZRange(begin_at, None),
            created_at=at,
        )
        record(
            actor=actor,
            at=at,
            action="billing:price_book:assign",
            object_kind="price_book_assignment",
            object_id=assignment.pk,
            organization_id=payer.pk,
            facts={"price_book": price_book.slug, "valid_from": begin_at.isoformat()},
        )
    return assignment


def _refuse_charged_hours(
    book: PriceBook, *, size: str, price_group: str, begin_at: datetime
) -> None:
    """Refuse a price for hours whose charges it would have priced otherwise."""
    charged = Charge.objects.filter(price__price_book=book, size=size, window_start__gte=begin_at)
    if price_group == ANY_GROUP:
        charged = charged.filter(price__price_group=ANY_GROUP)
    else:
        charged = charged.filter(price_group=price_group)
    last = charged.order_by("-window_start").values_list("window_start", flat=True).first()
    if last is not None:
        raise PriceInUseError(
            "Hours the price would cover are charged already.",
            field="valid_from",
            facts={"last_charged_hour": last.isoformat()},
        )


def _refuse_assignment(
    organization: Organization, previous: PriceBookAssignment | None, *, begin_at: datetime
) -> None:
    if previous is not None and previous.valid.lower >= begin_at:
        raise AssignmentOverlapError(
            "The organization has a price book assigned from that hour or later.",
            field="valid_from",
            facts={"begins_at": previous.valid.lower.isoformat()},
        )
    last = (
        Charge.objects.filter(organization=organization, window_start__gte=begin_at)
        .order_by("-window_start")
        .values_list("window_start", flat=True)
        .first()
    )
    if last is not None:
        raise AssignmentInUseError(
            "Hours the assignment would cover are charged already.",
            field="valid_from",
            facts={"last_charged_hour": last.isoformat()},
        )
