"""Which book bills an organization, and which charged hours another one would bill otherwise."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Exists, OuterRef, Q, QuerySet

from billing.models import (
    Charge,
    CustomerClass,
    CustomerClassMembership,
    OrganizationBook,
    Price,
    PriceBook,
)
from billing.models import PriceBookAssignment as Assignment
from tenants.models import Organization
from tenants.models.organization import LifecycleState

OF_CLASS: Final = 2
OF_SITE: Final = 3
"""Precedence of the books of classes, and of the default book."""


def book_in_force(organization_id: UUID, hour: datetime) -> OrganizationBook | None:
    """Return by which book an organization is billed in an hour; None by none."""
    rows = OrganizationBook.objects.filter(organization=organization_id, valid__contains=hour)
    return rows.select_related("price_book").first()


def without_book(*, hour: datetime) -> list[str]:
    """Return the active organizations that no book bills in an hour, by slug."""
    billed = OrganizationBook.objects.filter(organization=OuterRef("pk"), valid__contains=hour)
    rows = Organization.objects.filter(~Exists(billed), state=LifecycleState.ACTIVE)
    return list(rows.order_by("slug").values_list("slug", flat=True))


def books_without_price(*, hour: datetime) -> list[str]:
    """Return the books that bill organizations in an hour without any price, by slug.

    The prices of a discount book are those of its base too.
    """
    prices = Price.objects.filter(
        Q(price_book=OuterRef("pk")) | Q(price_book=OuterRef("base_book")),
        valid__contains=hour,
        superseded_at=None,
    )
    billing = OrganizationBook.objects.filter(valid__contains=hour).values("price_book")
    rows = PriceBook.objects.filter(~Exists(prices), pk__in=billing)
    return list(rows.order_by("slug").values_list("slug", flat=True))


def last_charged_in(charges: QuerySet[Charge], hours: DateTimeTZRange) -> datetime | None:
    """Return the last hour of charges within hours; None without one."""
    charges = charges.filter(window_start__gte=hours.lower)
    if hours.upper is not None:
        charges = charges.filter(window_start__lt=hours.upper)
    return charges.order_by("-window_start").values_list("window_start", flat=True).first()


def last_hour_billed_otherwise(
    hours: DateTimeTZRange, *, precedence: int, **of: UUID
) -> datetime | None:
    """Return the last charged hour that a new assignment or membership would bill otherwise.

    Those are hours of organizations without a book that goes before it.

    Args:
        hours: Of the new row.
        precedence: Of the book that it brings.
        of: `organization` or `customer_class` whose it is; without it, all organizations.
    """
    key = next(iter(of), "site")
    given: dict[str, Any] = {"of": of.get(key), "hours": hours, "precedence": precedence}
    with connection.cursor() as cursor:
        cursor.execute(_LAST.format(payers=_WHO[key]), given)
        found: datetime | None = cursor.fetchone()[0]
    return found


def foreign_currency_of(
    customer_class: CustomerClass, hours: DateTimeTZRange, book: PriceBook
) -> Organization | None:
    """Return an organization of a class in these hours that a book's currency is not that of."""
    members = CustomerClassMembership.objects.filter(
        customer_class=customer_class, valid__overlap=hours, superseded_at__isnull=True
    ).exclude(organization__billing_currency=book.currency)
    member = members.select_related("organization").first()
    return None if member is None else member.organization


def foreign_book_of(
    customer_class: CustomerClass, hours: DateTimeTZRange, payer: Organization
) -> PriceBook | None:
    """Return a book of a class in these hours that is not in an organization's currency."""
    rows = Assignment.objects.filter(
        customer_class=customer_class,
        price_book__isnull=False,
        valid__overlap=hours,
        superseded_at__isnull=True,
    ).exclude(price_book__currency=payer.billing_currency)
    row = rows.select_related("price_book").first()
    return None if row is None else row.price_book


_WHO: Final = {
    "organization": "SELECT %(of)s::uuid AS organization_id, '(,)'::tstzrange AS valid",
    "customer_class": """SELECT organization_id, valid FROM billing_customerclassmembership
         WHERE customer_class_id = %(of)s AND superseded_at IS NULL""",
    "site": "SELECT id AS organization_id, '(,)'::tstzrange AS valid FROM tenants_organization",
}
_LAST: Final = """
SELECT max(charged.window_start)
  FROM ({payers}) w
  JOIN billing_organization_book k USING (organization_id)
 CROSS JOIN LATERAL (SELECT k.valid * w.valid * %(hours)s AS hours) h
 CROSS JOIN LATERAL (
   SELECT c.window_start FROM billing_charge c
    WHERE c.organization_id = k.organization_id AND c.window_start >= lower(h.hours)
      AND (upper_inf(h.hours) OR c.window_start < upper(h.hours))
    ORDER BY c.window_start DESC LIMIT 1) charged
 WHERE k.precedence >= %(precedence)s AND NOT isempty(h.hours)
"""
