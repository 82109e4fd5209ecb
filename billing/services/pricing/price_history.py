"""Prices and assignments along both time axes: published, closed, superseded, withdrawn.

What is published is in force for its hours; what is superseded prices nothing any more, and stays.
Callers hold the lock of the price book, or of the organization.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing.domain.errors import (
    PriceInForceError,
    PriceSupersededError,
    ReplacedPriceError,
    required_reason,
)
from billing.models import Price, PriceBookAssignment
from billing.selectors.locks import (
    lock_organization,
    lock_price_book,
    published_assignments,
    published_prices,
)
from tenants.domain.actors import Actor
from tenants.services.audit import record

Row = TypeVar("Row", Price, PriceBookAssignment)


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
    why = required_reason(reason)
    with transaction.atomic():
        rows = PriceBookAssignment.objects.filter(pk=assignment_id)
        payer = lock_organization(rows.values_list("organization", flat=True).get())
        assignment = rows.select_related("price_book").get()
        _require_future(assignment, at=at)
        before = row_before(assignment, published_assignments(payer))
        _mark(assignment, at=at)
        _record_assignment(assignment, action="withdraw", facts={"reason": why}, actor=actor, at=at)
        if before is not None:
            goes_on = PriceBookAssignment(
                organization=payer,
                price_book=before.price_book,
                valid=assignment.valid,
                replaces=assignment,
            )
            publish_assignment(goes_on, reason=why, actor=actor, at=at)
    return assignment


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
            only if it begins before all others.
    """
    later = [row.valid.lower for row in rows if row.valid.lower > begin_at]
    is_before_all = len(later) == len(rows)
    return DateTimeTZRange(
        begin_at, later[0] if later and (is_replacing or is_before_all) else None
    )


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


def end_row(previous: Price | PriceBookAssignment | None, end_at: datetime) -> None:
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
    assignment: PriceBookAssignment, *, from_at: datetime, reason: str, actor: Actor, at: datetime
) -> None:
    """Take an assignment out of use; its hours before `from_at` keep their book."""
    _mark(assignment, at=at)
    _record_assignment(assignment, action="supersede", facts={"reason": reason}, actor=actor, at=at)
    if assignment.valid.lower < from_at:
        kept = PriceBookAssignment(
            organization=assignment.organization,
            price_book=assignment.price_book,
            valid=DateTimeTZRange(assignment.valid.lower, from_at),
            replaces=assignment,
        )
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
    assignment: PriceBookAssignment, *, reason: str, actor: Actor, at: datetime
) -> PriceBookAssignment:
    """Return a new assignment, stored and audited."""
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
        unit_price=price.unit_price,
        valid=hours,
        replaces=replaces,
    )


def _require_future(row: Price | PriceBookAssignment, *, at: datetime) -> None:
    facts = {"begins_at": row.valid.lower.isoformat()}
    if row.superseded_at is not None:
        raise PriceSupersededError("It was replaced or withdrawn already.", facts=facts)
    if row.valid.lower <= at:
        raise PriceInForceError("Its first hour has begun.", field="valid_from", facts=facts)


def _mark(row: Price | PriceBookAssignment, *, at: datetime) -> None:
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
            "unit_price": str(price.unit_price),
            **_links(price),
            **facts,
        },
    )


def _record_assignment(
    assignment: PriceBookAssignment,
    *,
    action: str,
    facts: dict[str, str],
    actor: Actor,
    at: datetime,
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:price_book:{action}",
        object_kind="price_book_assignment",
        object_id=assignment.pk,
        organization_id=assignment.organization_id,
        facts={"price_book": assignment.price_book.slug, **_links(assignment), **facts},
    )


def _links(row: Price | PriceBookAssignment) -> dict[str, str]:
    links = {"valid_from": row.valid.lower.isoformat()}
    if row.valid.upper is not None:
        links["valid_until"] = row.valid.upper.isoformat()
    if row.replaces_id is not None:
        links["replaces"] = str(row.replaces_id)
    return links
