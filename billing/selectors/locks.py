"""Row locks of billing, always in one order.

The order of the whole product is period -> organization -> project -> user -> window; a price book
comes after the organization, an invoice after that, and the number series last of all. Accrual
takes shared locks, so that many windows accrue in parallel, but none during a closing or a new
price.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import connection

from billing.models import BillingPeriod, Invoice, Price, PriceBook, PriceBookAssignment
from tenants.models import Organization


def lock_period(period_id: UUID) -> BillingPeriod:
    """Return a period, locked against accrual and other closings.

    Raises:
        BillingPeriod.DoesNotExist: There is none.
    """
    return BillingPeriod.objects.select_for_update(of=("self",)).get(pk=period_id)


def lock_organization(organization_id: UUID) -> Organization:
    """Return an organization, locked; take the period first.

    Raises:
        Organization.DoesNotExist: There is none.
    """
    return Organization.objects.select_for_update(of=("self",)).get(pk=organization_id)


def lock_price_book(price_book_id: UUID) -> PriceBook:
    """Return a price book, locked against accrual and other changes; take organizations first.

    Raises:
        PriceBook.DoesNotExist: There is none.
    """
    return PriceBook.objects.select_for_update(of=("self",)).get(pk=price_book_id)


def lock_invoice(invoice_id: UUID) -> Invoice:
    """Return an invoice, locked; take its period and organization first.

    Raises:
        Invoice.DoesNotExist: There is none.
    """
    return Invoice.objects.select_for_update(of=("self",)).get(pk=invoice_id)


def share_for_accrual(organization_ids: Iterable[UUID]) -> None:
    """Hold open periods, organizations and price books as they are until the transaction ends."""
    ids = list(organization_ids)
    with connection.cursor() as cursor:
        cursor.execute(_SHARE_PERIODS, [ids])
        cursor.execute(_SHARE_ORGANIZATIONS, [ids])
        cursor.execute(_SHARE_PRICE_BOOKS, [ids])


_SHARE_PERIODS = f"""
SELECT id FROM {BillingPeriod._meta.db_table}
 WHERE organization_id = ANY(%s) AND state = 'open' ORDER BY id FOR SHARE
"""  # noqa: S608, SLF001 - Table names of own models; _meta is a documented Django API.
_SHARE_ORGANIZATIONS = f"""
SELECT id FROM {Organization._meta.db_table}
 WHERE id = ANY(%s) ORDER BY id FOR SHARE
"""  # noqa: S608, SLF001 - As above.
_SHARE_PRICE_BOOKS = f"""
SELECT id FROM {PriceBook._meta.db_table}
 WHERE id IN (SELECT price_book_id FROM {PriceBookAssignment._meta.db_table}
               WHERE organization_id = ANY(%s))
 ORDER BY id FOR SHARE
"""  # noqa: S608, SLF001 - As above.


def open_ended_price(*, price_book: PriceBook, size: str, price_group: str) -> Price | None:
    """Return the newest price of a key, locked; None before there is one."""
    return (
        Price.objects.select_for_update(of=("self",))
        .filter(price_book=price_book, size=size, price_group=price_group, valid__upper_inf=True)
        .first()
    )


def open_ended_assignment(organization: Organization) -> PriceBookAssignment | None:
    """Return the newest price book assignment of an organization, locked; None before one."""
    return (
        PriceBookAssignment.objects.select_for_update(of=("self",))
        .filter(organization=organization, valid__upper_inf=True)
        .first()
    )


def earliest_price_begin(*, price_book: PriceBook, size: str, price_group: str) -> datetime | None:
    """Return when the earliest price of a key begins; lock the book before."""
    earliest = (
        Price.objects.filter(price_book=price_book, size=size, price_group=price_group)
        .order_by("valid")
        .first()
    )
    return None if earliest is None else earliest.valid.lower


def earliest_assignment_begin(organization: Organization) -> datetime | None:
    """Return when an organization's earliest assignment begins; lock the organization before."""
    earliest = (
        PriceBookAssignment.objects.filter(organization=organization).order_by("valid").first()
    )
    return None if earliest is None else earliest.valid.lower
