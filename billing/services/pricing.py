"""Price books, prices and assignments; nothing with a price is edited or deleted."""

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import QuerySet

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
from billing.domain.price_book import ANY_BURST_GROUP, ANY_GROUP, require_key, require_unit_price
from billing.models import Charge, Price, PriceBook, PriceBookAssignment
from billing.selectors.locks import (
    earliest_assignment_begin,
    earliest_price_begin,
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
        InvalidInputError: A field cannot be used; every problem is reported.
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

    The price before it ends where it begins, so prices of a key never overlap or leave a gap. One
    that begins before the earliest of its key lasts until that begins: so earlier use is priced.

    Args:
        price_book: The book.
        size: small, medium or large.
        unit_price: Per unit-hour, in the book's currency.
        valid_from: A whole UTC hour; it may be past where nothing is charged yet.
        actor: The account that sets it.
        at: When it is set.
        price_group: A device share such as "H100/1g.10gb", or "*" for any; with "/burst" behind it
            for what preemptible pods hold, which the others never price.

    Raises:
        PriceInvalidError: The price is negative, or finer than the ledger keeps.
        PriceKeyInvalidError: The size or the group is not known.
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        PriceOverlapError: The key has a price at that hour, and a later one or one as old.
        PriceInUseError: Hours it would cover are charged already.
    """
    require_key(size=size, price_group=price_group)
    require_unit_price(unit_price)
    begin_at = require_hour(valid_from, field="valid_from")
    with transaction.atomic():
        book = lock_price_book(price_book.pk)
        first_at = earliest_price_begin(price_book=book, size=size, price_group=price_group)
        hours = _hours_from(begin_at, first_at=first_at)
        previous = None
        if hours.upper is None:
            previous = open_ended_price(price_book=book, size=size, price_group=price_group)
        _refuse_price(book, previous, size=size, price_group=price_group, hours=hours)
        _end(previous, begin_at)
        price = Price.objects.create(
            price_book=book,
            size=size,
            price_group=price_group,
            unit_price=unit_price,
            valid=hours,
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
                **_format_hours(hours),
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

    One that begins before the earliest lasts until that begins.

    Raises:
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        CurrencyMismatchError: The book is not in the organization's billing currency.
        AssignmentOverlapError: One is in force at that hour, and it or a later one begins there.
        AssignmentInUseError: Hours it would cover are charged already.
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
        hours = _hours_from(begin_at, first_at=earliest_assignment_begin(payer))
        previous = open_ended_assignment(payer) if hours.upper is None else None
        _refuse_assignment(payer, previous, hours=hours)
        _end(previous, begin_at)
        assignment = PriceBookAssignment.objects.create(
            organization=payer,
            price_book=price_book,
            valid=hours,
            created_at=at,
        )
        record(
            actor=actor,
            at=at,
            action="billing:price_book:assign",
            object_kind="price_book_assignment",
            object_id=assignment.pk,
            organization_id=payer.pk,
            facts={"price_book": price_book.slug, **_format_hours(hours)},
        )
    return assignment


def _hours_from(begin_at: datetime, *, first_at: datetime | None) -> DateTimeTZRange:
    """Return the hours of a new row: up to the earliest there is, or without an end after it."""
    is_before_all = first_at is not None and begin_at < first_at
    return DateTimeTZRange(begin_at, first_at if is_before_all else None)


def _end(previous: Price | PriceBookAssignment | None, end_at: datetime) -> None:
    if previous is not None:
        previous.valid = DateTimeTZRange(previous.valid.lower, end_at)
        previous.save(update_fields=["valid"])


def _format_hours(hours: DateTimeTZRange) -> dict[str, str]:
    formatted = {"valid_from": hours.lower.isoformat()}
    return (
        formatted if hours.upper is None else {**formatted, "valid_until": hours.upper.isoformat()}
    )


def _last_charged_in(charges: QuerySet[Charge], hours: DateTimeTZRange) -> datetime | None:
    charges = charges.filter(window_start__gte=hours.lower)
    if hours.upper is not None:
        charges = charges.filter(window_start__lt=hours.upper)
    return charges.order_by("-window_start").values_list("window_start", flat=True).first()


def _refuse_price(
    book: PriceBook,
    previous: Price | None,
    *,
    size: str,
    price_group: str,
    hours: DateTimeTZRange,
) -> None:
    """Refuse a price within older ones, or for hours whose charges it would price otherwise."""
    if previous is not None and previous.valid.lower >= hours.lower:
        raise PriceOverlapError(
            "A price of this size and group begins at that hour or later.",
            field="valid_from",
            facts={"begins_at": previous.valid.lower.isoformat()},
        )
    charged = Charge.objects.filter(price__price_book=book, size=size)
    if price_group in {ANY_GROUP, ANY_BURST_GROUP}:
        charged = charged.filter(price__price_group=price_group)
    else:
        charged = charged.filter(price_group=price_group)
    last = _last_charged_in(charged, hours)
    if last is not None:
        raise PriceInUseError(
            "Hours the price would cover are charged already.",
            field="valid_from",
            facts={"last_charged_hour": last.isoformat()},
        )


def _refuse_assignment(
    organization: Organization, previous: PriceBookAssignment | None, *, hours: DateTimeTZRange
) -> None:
    if previous is not None and previous.valid.lower >= hours.lower:
        raise AssignmentOverlapError(
            "The organization has a price book assigned from that hour or later.",
            field="valid_from",
            facts={"begins_at": previous.valid.lower.isoformat()},
        )
    last = _last_charged_in(Charge.objects.filter(organization=organization), hours)
    if last is not None:
        raise AssignmentInUseError(
            "Hours the assignment would cover are charged already.",
            field="valid_from",
            facts={"last_charged_hour": last.isoformat()},
        )
