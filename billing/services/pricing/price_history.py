"""Prices, assignments and memberships on both time axes: published, closed, superseded, withdrawn.

What is published is in force for its hours; what is superseded prices nothing any more, and stays.
Callers hold the lock of the price book, or of the organization.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import QuerySet

from billing.domain.errors import (
    PriceInForceError,
    PriceSupersededError,
    ReplacedPriceError,
    required_reason,
)
from billing.models import CustomerClassMembership, Price, PriceBookAssignment
from billing.selectors.locks import (
    Assigned,
    lock_assignments_like,
    lock_organization,
    lock_price_book,
    published_prices,
)
from tenants.domain.actors import Actor
from tenants.services.audit import record

Row = TypeVar("Row", Price, PriceBookAssignment, CustomerClassMembership)
AnyRow = Price | PriceBookAssignment | CustomerClassMembership
NAMES = {
    PriceBookAssignment: ("price_book", "price_book_assignment"),
    CustomerClassMembership: ("customer_class", "customer_class_membership"),
}
"""What audit entries call the act and the row."""


def withdraw_price(*, price_id: UUID, reason: str, actor: Actor, at: datetime) -> Price:
    """Return a price that is not in force yet, withdrawn; the one before it goes on instead.

    Args:
        price_id: The price.
        reason: Why.
        actor: The account that withdraws it.
        at: When; its first hour has not begun by then.

    Raises:
        ReasonMissingError: There is no reason.
        PriceSupersededError: It was replaced or withdrawn already.
        PriceInForceError: Its first hour has begun.
        Price.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        lock_price_book(Price.objects.values_list("price_book", flat=True).get(pk=price_id))
        price = Price.objects.select_related("price_book").get(pk=price_id)
        _require_future(price, at=at)
        rows = published_prices(
            price_book=price.price_book,
            size=price.size,
            price_group=price.price_group,
            cluster_id=price.cluster_id,
            band=price.band,
        )
        before = row_before(price, rows)
        _mark(price, at=at)
        _record_price(price, action="withdraw", facts={"reason": why}, actor=actor, at=at)
        if before is not None:
            goes_on = _copy_of_price(before, hours=price.valid, replaces=price)
            publish_price(goes_on, was=str(price.unit_price), reason=why, actor=actor, at=at)
    return price


def withdraw_assignment(
    *, assignment_id: UUID, reason: str, actor: Actor, at: datetime
) -> PriceBookAssignment:
    """Return an assignment that is not in force yet, withdrawn; the one before it goes on.

    Args:
        assignment_id: The assignment.
        reason: Why.
        actor: The account that withdraws it.
        at: When; its first hour has not begun by then.

    Raises:
        ReasonMissingError: There is no reason.
        PriceSupersededError: It was replaced or withdrawn already.
        PriceInForceError: Its first hour has begun.
        PriceBookAssignment.DoesNotExist: There is none.
    """
    return _withdraw(
        PriceBookAssignment.objects.filter(pk=assignment_id).select_related(
            "organization", "customer_class", "price_book"
        ),
        reason=reason,
        actor=actor,
        at=at,
    )


def withdraw_membership(
    *, membership_id: UUID, reason: str, actor: Actor, at: datetime
) -> CustomerClassMembership:
    """Return a membership that is not in force yet, withdrawn; the one before it goes on.

    Args:
        membership_id: The membership of a customer class.
        reason: Why.
        actor: The account that withdraws it.
        at: When; its first hour has not begun by then.

    Raises:
        ReasonMissingError: There is no reason.
        PriceSupersededError: It was replaced or withdrawn already.
        PriceInForceError: Its first hour has begun.
        CustomerClassMembership.DoesNotExist: There is none.
    """
    return _withdraw(
        CustomerClassMembership.objects.filter(pk=membership_id).select_related(
            "organization", "customer_class"
        ),
        reason=reason,
        actor=actor,
        at=at,
    )


def _withdraw(rows: QuerySet[Assigned], *, reason: str, actor: Actor, at: datetime) -> Assigned:
    why = required_reason(reason)
    with transaction.atomic():
        payer = rows.values_list("organization", flat=True).get()
        if payer is not None:
            lock_organization(payer)
        published = lock_assignments_like(rows.get())
        assigned = rows.get()
        _require_future(assigned, at=at)
        before = row_before(assigned, published)
        _mark(assigned, at=at)
        _record_assignment(assigned, action="withdraw", facts={"reason": why}, actor=actor, at=at)
        if before is not None:
            goes_on = _copy_of(before, hours=assigned.valid, replaces=assigned)
            publish_assignment(goes_on, reason=why, actor=actor, at=at)
    return assigned


def in_force_at(rows: Sequence[Row], hour: datetime) -> Row | None:
    """Return the row in force at an hour; None before the earliest."""
    return next(
        (
            row
            for row in rows
            if row.valid.lower <= hour and (row.valid.upper is None or hour < row.valid.upper)
        ),
        None,
    )


def hours_from(begin_at: datetime, *, rows: Sequence[Row], is_replacing: bool) -> DateTimeTZRange:
    """Return the hours of a new row: up to the next one that stays, or without an end.

    Args:
        begin_at: Its first hour.
        rows: What is published of its key, oldest first.
        is_replacing: Whether it takes over the hours of the one in force; otherwise it has an end
            only if none is in force where it begins.
    """
    later = [row.valid.lower for row in rows if row.valid.lower > begin_at]
    is_free = in_force_at(rows, begin_at) is None
    return DateTimeTZRange(begin_at, later[0] if later and (is_replacing or is_free) else None)


def is_next(previous: AnyRow, hours: DateTimeTZRange) -> bool:
    """Whether hours begin within the newest row, which then ends there."""
    return previous.valid.upper is None and previous.valid.lower < hours.lower


def require_replaced(previous: Row | None, replaces: UUID) -> Row:
    """Return the row in force, which is the one that is to be replaced.

    Raises:
        ReplacedPriceError: It is another, or there is none.
    """
    if previous is None or previous.pk != replaces:
        raise ReplacedPriceError(
            "The one to replace is not the one in force at that hour.",
            field="replaces",
            facts={"in_force": None if previous is None else str(previous.pk)},
        )
    return previous


def end_row(previous: AnyRow | None, end_at: datetime) -> None:
    """Close the newest row where the next one begins."""
    if previous is not None:
        previous.valid = DateTimeTZRange(previous.valid.lower, end_at)
        previous.save(update_fields=["valid"])


def supersede_price(
    price: Price, *, from_at: datetime, reason: str, actor: Actor, at: datetime
) -> None:
    """Take a price out of use; its hours before `from_at` keep its unit price."""
    _mark(price, at=at)
    _record_price(price, action="supersede", facts={"reason": reason}, actor=actor, at=at)
    if price.valid.lower < from_at:
        hours = DateTimeTZRange(price.valid.lower, from_at)
        kept = _copy_of_price(price, hours=hours, replaces=price)
        publish_price(kept, was=str(price.unit_price), reason=reason, actor=actor, at=at)


def supersede_assignment(
    assignment: Assigned, *, from_at: datetime, reason: str, actor: Actor, at: datetime
) -> None:
    """Take an assignment or membership out of use; its hours before `from_at` stay as they are."""
    _mark(assignment, at=at)
    _record_assignment(assignment, action="supersede", facts={"reason": reason}, actor=actor, at=at)
    if assignment.valid.lower < from_at:
        hours = DateTimeTZRange(assignment.valid.lower, from_at)
        kept = _copy_of(assignment, hours=hours, replaces=assignment)
        publish_assignment(kept, reason=reason, actor=actor, at=at)


def publish_price(
    price: Price, *, was: str | None, reason: str, actor: Actor, at: datetime
) -> Price:
    """Return a new price, stored and audited."""
    price.published_at = at
    price.save(force_insert=True)
    facts = {"was": was, **({"reason": reason} if reason else {})}
    _record_price(price, action="set", facts=facts, actor=actor, at=at)
    return price


def publish_assignment(
    assignment: Assigned, *, reason: str, actor: Actor, at: datetime
) -> Assigned:
    """Return a new assignment or membership, stored and audited."""
    assignment.published_at = at
    assignment.save(force_insert=True)
    facts = {"reason": reason} if reason else {}
    _record_assignment(assignment, action="assign", facts=facts, actor=actor, at=at)
    return assignment


def row_before(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row that ends where a row begins."""
    return next((other for other in rows if other.valid.upper == row.valid.lower), None)


def _copy_of_price(price: Price, *, hours: DateTimeTZRange, replaces: Price) -> Price:
    return Price(
        price_book=price.price_book,
        size=price.size,
        price_group=price.price_group,
        cluster_id=price.cluster_id,
        band=price.band,
        unit_price=price.unit_price,
        valid=hours,
        replaces=replaces,
    )


def _copy_of(row: Assigned, *, hours: DateTimeTZRange, replaces: Assigned) -> Assigned:
    kept = {"organization": row.organization_id, "customer_class": row.customer_class_id}
    if isinstance(row, PriceBookAssignment):
        kept["price_book"] = row.price_book_id
    copied = {f"{name}_id": key for name, key in kept.items()}
    return type(row)(**copied, valid=hours, replaces=replaces)


def _require_future(row: AnyRow, *, at: datetime) -> None:
    facts = {"begins_at": row.valid.lower.isoformat()}
    if row.superseded_at is not None:
        raise PriceSupersededError("It was replaced or withdrawn already.", facts=facts)
    if row.valid.lower <= at:
        raise PriceInForceError("Its first hour has begun.", field="valid_from", facts=facts)


def _mark(row: AnyRow, *, at: datetime) -> None:
    row.superseded_at = at
    row.save(update_fields=["superseded_at"])


def _record_price(
    price: Price, *, action: str, facts: dict[str, str | None], actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:price:{action}",
        object_kind="price",
        object_id=price.pk,
        facts={
            "price_book": price.price_book.slug,
            "size": price.size,
            "price_group": price.price_group,
            **({} if price.cluster_id is None else {"cluster_id": str(price.cluster_id)}),
            **({"band": price.band} if price.band else {}),
            "unit_price": str(price.unit_price),
            **_links(price),
            **facts,
        },
    )


def _record_assignment(
    assignment: PriceBookAssignment | CustomerClassMembership,
    *,
    action: str,
    facts: dict[str, str],
    actor: Actor,
    at: datetime,
) -> None:
    noun, kind = NAMES[type(assignment)]
    record(
        actor=actor,
        at=at,
        action=f"billing:{noun}:{action}",
        object_kind=kind,
        object_id=assignment.pk,
        organization_id=assignment.organization_id,
        facts={**_terms(assignment), **_links(assignment), **facts},
    )


def _terms(row: PriceBookAssignment | CustomerClassMembership) -> dict[str, str | None]:
    """Return what is assigned, None for nothing, and to which class where it is to one."""
    of_class = None if row.customer_class is None else row.customer_class.slug
    if isinstance(row, CustomerClassMembership):
        return {"customer_class": of_class}
    book = None if row.price_book is None else row.price_book.slug
    return {"price_book": book, **({} if of_class is None else {"customer_class": of_class})}


def _links(row: AnyRow) -> dict[str, str]:
    links = {"valid_from": row.valid.lower.isoformat()}
    if row.valid.upper is not None:
        links["valid_until"] = row.valid.upper.isoformat()
    if row.replaces_id is not None:
        links["replaces"] = str(row.replaces_id)
    return links
