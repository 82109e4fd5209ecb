"""The only way from an entry point to an object of billing: fetch with permission.

What an actor may not see does not exist; what it sees but may not change is forbidden.
"""

from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet

from billing.models import (
    AccrualException,
    BillingPeriod,
    Charge,
    Invoice,
    Price,
    PriceBook,
    PriceBookAssignment,
)
from metering.access import waste_visible_to
from tenants.access import (
    access_organization,
    access_row,
    access_seen,
    is_platform_wide,
    organizations_visible_to,
    projects_visible_to,
    require_capability,
)
from tenants.domain.actors import Actor
from tenants.models import Organization

READ_PRICE: Final = "billing:price:read"
WRITE_PRICE: Final = "billing:price:write"
READ_PERIOD: Final = "billing:period:read"
WRITE_PERIOD: Final = "billing:period:write"
READ_CHARGE: Final = "billing:charge:read"
READ_INVOICE: Final = "billing:invoice:read"
WRITE_INVOICE: Final = "billing:invoice:write"


# ---------------------------------------------------------------- visible sets


def price_books_visible_to(actor: Actor) -> QuerySet[PriceBook]:
    """Return every book to the platform, to others those they are or will be billed by."""
    if is_platform_wide(actor, READ_PRICE):
        return PriceBook.objects.all()
    return PriceBook.objects.filter(
        pk__in=assignments_visible_to(actor).order_by().values("price_book")
    )


def prices_visible_to(actor: Actor) -> QuerySet[Price]:
    """Return the prices of the books an actor sees."""
    rows = Price.objects.select_related("price_book")
    if is_platform_wide(actor, READ_PRICE):
        return rows
    return rows.filter(price_book__in=price_books_visible_to(actor).order_by().values("pk"))


def assignments_visible_to(actor: Actor) -> QuerySet[PriceBookAssignment]:
    """Return the price book assignments of the organizations whose prices an actor may read."""
    rows = PriceBookAssignment.objects.select_related("organization", "price_book")
    if is_platform_wide(actor, READ_PRICE):
        return rows
    return rows.filter(
        Q(organization__in=organizations_visible_to(actor, READ_PRICE).order_by().values("pk"))
        | Q(
            organization__in=projects_visible_to(actor, READ_PRICE)
            .order_by()
            .values("organization")
        )
    )


def periods_visible_to(actor: Actor, capability: str = READ_PERIOD) -> QuerySet[BillingPeriod]:
    """Return the billing periods of the organizations over which an actor holds a capability."""
    return BillingPeriod.objects.select_related("organization").filter(
        organization__in=organizations_visible_to(actor, capability)
    )


def charges_visible_to(actor: Actor) -> QuerySet[Charge]:
    """Return the charges of the projects an actor reaches."""
    rows = Charge.objects.select_related("organization", "project", "period", "line")
    if is_platform_wide(actor, READ_CHARGE):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, READ_CHARGE))


def exceptions_visible_to(actor: Actor) -> QuerySet[AccrualException]:
    """Return use without a price, of the projects an actor reaches."""
    rows = AccrualException.objects.select_related("organization", "project")
    if is_platform_wide(actor, READ_CHARGE):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, READ_CHARGE))


def invoices_visible_to(actor: Actor, capability: str = READ_INVOICE) -> QuerySet[Invoice]:
    """Return the invoices of the organizations over which an actor holds a capability."""
    return Invoice.objects.select_related("organization", "period").filter(
        organization__in=organizations_visible_to(actor, capability)
    )


# ---------------------------------------------------------------- single objects


def access_price_book(actor: Actor, book_id: UUID) -> PriceBook:
    """Return a price book that an actor sees.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(price_books_visible_to(actor), book_id)


def access_price_book_to_write(actor: Actor, book_id: UUID) -> PriceBook:
    """Return a price book whose prices an actor may set.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it but does not set prices.
    """
    book = access_price_book(actor, book_id)
    require_capability(actor, WRITE_PRICE)
    return book


def access_payer(actor: Actor, organization_id: UUID, capability: str) -> Organization:
    """Return an organization over whose billing an actor holds a platform's capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_organization(actor, organization_id, capability)


def access_price(actor: Actor, price_id: UUID) -> Price:
    """Return a price that an actor sees.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(prices_visible_to(actor), price_id)


def access_assignment(actor: Actor, assignment_id: UUID) -> PriceBookAssignment:
    """Return a price book assignment that an actor sees.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(assignments_visible_to(actor), assignment_id)


def access_period(actor: Actor, period_id: UUID, capability: str = READ_PERIOD) -> BillingPeriod:
    """Return a billing period over whose organization an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        BillingPeriod.objects.select_related("organization"),
        period_id,
        visible_to=periods_visible_to,
        actor=actor,
        capability=capability,
    )


def access_charge(actor: Actor, charge_id: int) -> Charge:
    """Return a charge of a project that an actor reaches.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(charges_visible_to(actor), charge_id)


def access_exception(actor: Actor, exception_id: int) -> AccrualException:
    """Return an accrual exception of a project that an actor reaches.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(exceptions_visible_to(actor), exception_id)


def access_invoice(actor: Actor, invoice_id: UUID, capability: str = READ_INVOICE) -> Invoice:
    """Return an invoice over whose organization an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        Invoice.objects.select_related("organization", "period"),
        invoice_id,
        visible_to=invoices_visible_to,
        actor=actor,
        capability=capability,
    )


# ---------------------------------------------------------------- waste


def savings_visible_to(actor: Actor) -> QuerySet[Any]:
    """Return the waste findings of the projects of which an actor also reads the charges."""
    rows = waste_visible_to(actor)
    if is_platform_wide(actor, READ_CHARGE):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, READ_CHARGE).values("pk"))
