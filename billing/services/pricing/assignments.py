"""Assignments of price books, to an organization, to a customer class or to everybody."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from billing.domain.errors import (
    AssignmentInUseError,
    AssignmentOverlapError,
    AssignmentOwnerError,
    CurrencyMismatchError,
    required_reason,
)
from billing.domain.period import require_hour
from billing.models import (
    Charge,
    CustomerClass,
    CustomerClassMembership,
    PriceBook,
    PriceBookAssignment,
)
from billing.selectors.locks import Assigned, lock_assignments_like, lock_organization
from billing.selectors.pricing.organization_books import (
    OF_CLASS,
    OF_SITE,
    foreign_book_of,
    foreign_currency_of,
    last_charged_in,
    last_hour_billed_otherwise,
)
from billing.services.pricing.price_history import (
    end_row,
    hours_from,
    in_force_at,
    is_next,
    publish_assignment,
    require_replaced,
    supersede_assignment,
)
from tenants.domain.actors import Actor
from tenants.models import Organization


def assign_price_book(  # noqa: PLR0913 - A repair names what it replaces; all are keyword only.
    *,
    price_book: PriceBook | None,
    valid_from: datetime,
    actor: Actor,
    at: datetime,
    organization: Organization | None = None,
    customer_class: CustomerClass | None = None,
    is_default: bool = False,
    replaces: UUID | None = None,
    reason: str = "",
) -> PriceBookAssignment:
    """Return the assignment by which an organization, a class or everybody is billed from an hour.

    One that begins before the earliest lasts until that begins. One that replaces another takes
    over its hours from `valid_from`; what is charged already stays until its month is repriced.

    Args:
        price_book: The book, in the organization's currency; None for no book of its own any more,
            so that the one of its class applies, or the default one.
        valid_from: A whole UTC hour.
        actor: The account that assigns.
        at: When.
        organization: The payer, whose own book goes before the others.
        customer_class: The class whose organizations it is for.
        is_default: Whether it is for every organization in its currency, behind the others.
        replaces: The assignment in force at `valid_from` that was wrong.
        reason: Why; needed to replace an assignment, or for hours that are charged already.

    Raises:
        AssignmentOwnerError: Not exactly one of organization, class and default is named.
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        CurrencyMismatchError: The book is not in the billing currency of the organization, or of
            one in the class.
        ReasonMissingError: An assignment is replaced without a reason.
        AssignmentOverlapError: One is in force at that hour, and it or a later one begins there.
        AssignmentInUseError: Hours it would cover are charged already.
        ReplacedPriceError: The named assignment is not the one in force at that hour.
    """
    begin_at = require_hour(valid_from, field="valid_from")
    why = required_reason(reason) if replaces else reason.strip()
    if [organization is not None, customer_class is not None, is_default].count(True) != 1:
        raise AssignmentOwnerError(
            "Not exactly one of organization, customer class and default is named.",
            field="organization",
        )
    with transaction.atomic():
        payer = None if organization is None else lock_organization(organization.pk)
        assignment = PriceBookAssignment(
            organization=payer,
            customer_class=customer_class,
            price_book=price_book,
            replaces_id=replaces,
        )
        return begin_assignment(assignment, begin_at=begin_at, reason=why, actor=actor, at=at)


def begin_assignment(
    assignment: Assigned, *, begin_at: datetime, reason: str, actor: Actor, at: datetime
) -> Assigned:
    """Return an assignment or membership, published from an hour on; its organization is locked.

    Raises:
        CurrencyMismatchError: A book is not in the billing currency of an organization.
        AssignmentOverlapError: One is in force at that hour, and it or a later one begins there.
        AssignmentInUseError: Hours it would cover are charged already.
        ReplacedPriceError: The named one is not the one in force at that hour.
    """
    rows = lock_assignments_like(assignment)
    previous = in_force_at(rows, begin_at)
    replaces = assignment.replaces_id
    assignment.valid = hours_from(begin_at, rows=rows, is_replacing=replaces is not None)
    _require_currency(assignment)
    if replaces is not None:
        replaced = require_replaced(previous, replaces)
        supersede_assignment(replaced, from_at=begin_at, reason=reason, actor=actor, at=at)
    else:
        _refuse_assignment(assignment, previous, is_repair=bool(reason))
        end_row(previous, begin_at)
    return publish_assignment(assignment, reason=reason, actor=actor, at=at)


def _require_currency(assignment: PriceBookAssignment | CustomerClassMembership) -> None:
    """Refuse a book for an organization with another billing currency."""
    payer, of_class, hours = assignment.organization, assignment.customer_class, assignment.valid
    if isinstance(assignment, CustomerClassMembership):
        payer = assignment.organization
        book = None if of_class is None else foreign_book_of(of_class, hours, payer)
    else:
        book = assignment.price_book
        if book is not None and of_class is not None:
            payer = foreign_currency_of(of_class, hours, book)
    if book is not None and payer is not None and book.currency != payer.billing_currency:
        raise CurrencyMismatchError(
            "The price book is not in the organization's billing currency.",
            field="price_book" if isinstance(assignment, PriceBookAssignment) else "customer_class",
            facts={
                "price_book": book.currency,
                "organization": payer.billing_currency,
                "slug": payer.slug,
            },
        )


def _refuse_assignment(assignment: Assigned, previous: Assigned | None, *, is_repair: bool) -> None:
    if previous is not None and not is_next(previous, assignment.valid):
        raise AssignmentOverlapError(
            "There is one from that hour or later already.",
            field="valid_from",
            facts={"begins_at": previous.valid.lower.isoformat(), "assignment": str(previous.pk)},
        )
    if previous is None and is_repair:
        return
    last = _last_hour_concerned(assignment)
    if last is not None:
        raise AssignmentInUseError(
            "Hours the assignment would cover are charged already.",
            field="valid_from",
            facts={"last_charged_hour": last.isoformat()},
        )


def _last_hour_concerned(
    assignment: PriceBookAssignment | CustomerClassMembership,
) -> datetime | None:
    """Return the last charged hour that an assignment or membership would bill otherwise."""
    hours, payer, of_class = assignment.valid, assignment.organization, assignment.customer_class
    if isinstance(assignment, CustomerClassMembership):
        key = assignment.organization_id
        return last_hour_billed_otherwise(hours, precedence=OF_CLASS, organization=key)
    if of_class is not None:
        return last_hour_billed_otherwise(hours, precedence=OF_CLASS, customer_class=of_class.pk)
    if payer is None:
        return last_hour_billed_otherwise(hours, precedence=OF_SITE)
    return last_charged_in(Charge.objects.filter(organization=payer), hours)
