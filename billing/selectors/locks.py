"""Row locks of billing, always in one order.

The order of the whole product is period -> organization -> project -> user -> window; the customer
classes, assignments and then a price book come after the organization, the invoices of a run after
that, and the number series after that: those of credit notes first, then by prefix. What posts to
the journal shares the accounting months last of all. A closing takes FOR NO KEY UPDATE, which keeps
no usage out: rows that refer to an organization only need FOR KEY SHARE of it. Accrual takes shared
locks, so that many windows accrue in parallel. It waits for a new price, but not for a closing: it
leaves that organization to the next batch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db import connection
from django.db.backends.utils import CursorWrapper

from billing.models import (
    AccruedWindow,
    BillingPeriod,
    CustomerClass,
    CustomerClassMembership,
    Dispute,
    Invoice,
    OrganizationBook,
    Payment,
    Price,
    PriceBook,
    PriceBookAssignment,
    PriceDraft,
    WriteOff,
)
from tenants.models import Organization
from tenants.selectors.locks import try_advisory_lock


def lock_period(period_id: UUID) -> BillingPeriod:
    """Return a period, locked against accrual and other closings.

    Raises:
        BillingPeriod.DoesNotExist: There is none.
    """
    return BillingPeriod.objects.select_for_update(of=("self",), no_key=True).get(pk=period_id)


def lock_organization(organization_id: UUID) -> Organization:
    """Return an organization, locked; take the period first.

    Raises:
        Organization.DoesNotExist: There is none.
    """
    return Organization.objects.select_for_update(of=("self",), no_key=True).get(pk=organization_id)


def lock_organizations(organization_ids: Collection[UUID]) -> None:
    """Lock organizations in their order, for what changes what they have left to pay."""
    rows = Organization.objects.select_for_update(of=("self",), no_key=True)
    list(rows.filter(pk__in=organization_ids).order_by("pk").values_list("pk"))


def lock_payment(payment_id: UUID) -> Payment:
    """Return a payment, locked; take its organization first.

    Raises:
        Payment.DoesNotExist: There is none.
    """
    return Payment.objects.select_for_update(of=("self",), no_key=True).get(pk=payment_id)


def lock_price_book(price_book_id: UUID) -> PriceBook:
    """Return a price book, locked against accrual and other changes; take organizations first.

    Raises:
        PriceBook.DoesNotExist: There is none.
    """
    return PriceBook.objects.select_for_update(of=("self",), no_key=True).get(pk=price_book_id)


def lock_invoice(invoice_id: UUID) -> Invoice:
    """Return an invoice, locked; take its period and organization first.

    Raises:
        Invoice.DoesNotExist: There is none.
    """
    return Invoice.objects.select_for_update(of=("self",), no_key=True).get(pk=invoice_id)


def lock_dispute(dispute_id: UUID) -> Dispute:
    """Return a dispute, locked with period and organization of its document, which it has.

    Raises:
        Dispute.DoesNotExist: There is none.
    """
    period = lock_period(
        Dispute.objects.values_list("document__period", flat=True).get(pk=dispute_id)
    )
    lock_organization(period.organization_id)
    rows = Dispute.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("document", "document__period").get(pk=dispute_id)


def lock_write_off(write_off_id: UUID) -> WriteOff:
    """Return a write-off, locked with its organization.

    Raises:
        WriteOff.DoesNotExist: There is none.
    """
    lock_organization(WriteOff.objects.values_list("organization", flat=True).get(pk=write_off_id))
    rows = WriteOff.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("document__period").get(pk=write_off_id)


def lock_run(period: BillingPeriod, *, run: int) -> list[Invoice]:
    """Return the documents of a billing run, oldest first, locked; take the organization first.

    They are sorted here: the database could read all documents to return these in order.
    """
    rows = Invoice.objects.select_for_update(of=("self",), no_key=True)
    return sorted(rows.filter(period=period, run=run).order_by(), key=lambda row: row.pk)


def lock_price_draft(draft_id: UUID) -> PriceDraft:
    """Return a draft of prices, locked; take its book first.

    Raises:
        PriceDraft.DoesNotExist: There is none.
    """
    rows = PriceDraft.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("price_book").get(pk=draft_id)


def share_accounting_months() -> None:
    """Keep accounting months from being closed until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(_SHARE_MONTHS)


def lock_accounting_months() -> str:
    """Return the last closed accounting month; wait for postings and keep others out.

    It is taken after the number series: an invoice takes its number before it is posted.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_MONTHS)
        cursor.execute("SELECT max(label) FROM billing_accountingmonth")
        (label,) = cursor.fetchone()
    return str(label)


def lease_windows(window_ids: list[int]) -> list[int]:
    """Return those accrued windows that are not complete and that no other worker has, locked."""
    with connection.cursor() as cursor:
        cursor.execute(_LEASE_WINDOWS, [window_ids])
        return [window_id for (window_id,) in cursor.fetchall()]


@dataclass(frozen=True)
class Shared:
    """What accrual may charge: it stays as it is until the transaction ends.

    Attributes:
        organization_ids: All but those with a period that is locked now, or without an open one.
        period_ids: Open ones that their usage may be posted to.
    """

    organization_ids: list[UUID]
    period_ids: list[UUID]


def share_for_accrual(extents: Mapping[UUID, tuple[datetime, datetime]]) -> Shared:
    """Hold what charges depend on: open periods, organizations, assignments and price books.

    Args:
        extents: Organization to its first and last hour of usage.
    """
    values: dict[str, Any] = {
        "organizations": list(extents),
        "first": [first for first, _ in extents.values()],
        "last": [last for _, last in extents.values()],
    }
    with connection.cursor() as cursor:
        cursor.execute(_NEEDED_PERIODS, values)
        needed = cursor.fetchall()
        cursor.execute(_SHARE_PERIODS, [[period_id for period_id, _, _ in needed]])
        shared = {period_id for (period_id,) in cursor.fetchall()}
        skipped = {owner for period_id, owner, _ in needed if period_id not in shared}
        posting = {owner for _, owner, is_last in needed if is_last}
        charged = posting - skipped
        ids = [key for key in extents if key in charged]
        cursor.execute(_SHARE_ORGANIZATIONS, [ids])
        _share_books(cursor, ids)
    return Shared(organization_ids=ids, period_ids=list(shared))


def lock_for_repricing(period: BillingPeriod) -> None:
    """Lock a month with the open ones of its organization, and share its assignments and books.

    No month closes and no price is published before the transaction ends.
    """
    organization = period.organization_id
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_PERIODS, [period.pk, organization])
        _share_books(cursor, [organization])


def _share_books(cursor: CursorWrapper, organizations: list[UUID]) -> None:
    """Keep which book bills organizations, and what it prices, as they are."""
    cursor.execute(_SHARE_CLASSES)
    cursor.execute(_SHARE_ASSIGNMENTS, [organizations])
    cursor.execute(_SHARE_PRICE_BOOKS, [organizations])


def share_periods_of_book(price_book_id: UUID, *, first_month: str) -> str | None:
    """Keep months of a book's organizations from closing; return the last one that is closed.

    Args:
        price_book_id: The book.
        first_month: The months from this one on, such as "2026-10"; the others are left alone.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SHARE_PERIODS_OF_BOOK, [first_month, price_book_id])
        return max((label for label, state in cursor.fetchall() if state == "closed"), default=None)


_SHARE_MONTHS = "SELECT FROM billing_accountingmonth WHERE label = '0000-00' FOR SHARE"
_LOCK_MONTHS = "SELECT FROM billing_accountingmonth WHERE label = '0000-00' FOR NO KEY UPDATE"
_LEASE_WINDOWS = f"""
SELECT window_id FROM {AccruedWindow._meta.db_table}
 WHERE window_id = ANY(%s) AND NOT is_complete ORDER BY window_id
   FOR NO KEY UPDATE SKIP LOCKED
"""  # noqa: S608, SLF001 - Table names of own models; _meta is a documented Django API.
# Usage is posted to the first open period that ends after its hour: so from the one of the first
# hour to the one of the last.
_NEEDED_PERIODS = f"""
SELECT p.id, p.organization_id, upper(p.hours) > e.last_at
  FROM unnest(%(organizations)s::uuid[], %(first)s::timestamptz[], %(last)s::timestamptz[])
       AS e(organization_id, first_at, last_at)
  JOIN {BillingPeriod._meta.db_table} p
    ON p.organization_id = e.organization_id AND p.state = 'open'
   AND upper(p.hours) > e.first_at
 WHERE NOT EXISTS (
   SELECT FROM {BillingPeriod._meta.db_table} q
    WHERE q.organization_id = e.organization_id AND q.state = 'open'
      AND upper(q.hours) > e.last_at AND lower(q.hours) < lower(p.hours))
"""  # noqa: S608, SLF001 - As above.
_LOCK_PERIODS = f"""
SELECT id FROM {BillingPeriod._meta.db_table}
 WHERE id = %s OR (organization_id = %s AND state = 'open') ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608, SLF001 - As above.
_SHARE_PERIODS = f"""
SELECT id FROM {BillingPeriod._meta.db_table}
 WHERE id = ANY(%s) AND state = 'open' ORDER BY id FOR SHARE SKIP LOCKED
"""  # noqa: S608, SLF001 - As above.
_SHARE_PERIODS_OF_BOOK = f"""
SELECT label, state FROM {BillingPeriod._meta.db_table}
 WHERE label >= %s
   AND organization_id IN (SELECT organization_id FROM {OrganizationBook._meta.db_table}
                            WHERE price_book_id = %s)
 ORDER BY id FOR SHARE
"""  # noqa: S608, SLF001 - As above.
_SHARE_ORGANIZATIONS = f"""
SELECT id FROM {Organization._meta.db_table}
 WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE
"""  # noqa: S608, SLF001 - As above.
_SHARE_CLASSES = f"""
SELECT id FROM {CustomerClass._meta.db_table} ORDER BY id FOR SHARE
"""  # noqa: S608, SLF001 - As above.
_SHARE_ASSIGNMENTS = f"""
SELECT id FROM {PriceBookAssignment._meta.db_table}
 WHERE organization_id = ANY(%s) ORDER BY id FOR SHARE
"""  # noqa: S608, SLF001 - As above.
_SHARE_PRICE_BOOKS = f"""
SELECT id FROM {PriceBook._meta.db_table}
 WHERE id IN (SELECT unnest(ARRAY[b.id, b.base_book_id])
                FROM {OrganizationBook._meta.db_table} a
                JOIN {PriceBook._meta.db_table} b ON b.id = a.price_book_id
               WHERE a.organization_id = ANY(%s))
 ORDER BY id FOR SHARE
"""  # noqa: S608, SLF001 - As above.


def published_prices(
    *, price_book: PriceBook, size: str, price_group: str, cluster_id: UUID | None, band: str
) -> list[Price]:
    """Return the prices of a key that are not superseded, oldest first; lock the book before."""
    rows = Price.objects.filter(
        price_book=price_book, size=size, price_group=price_group, cluster=cluster_id, band=band
    )
    return list(rows.filter(superseded_at__isnull=True).order_by("valid"))


Assigned = TypeVar("Assigned", PriceBookAssignment, CustomerClassMembership)


def lock_assignments_like(row: Assigned) -> list[Assigned]:
    """Return the published rows of the same payer, oldest first, all locked against accrual.

    The customer classes are locked with them: as long as they are, no other assignment or
    membership of anybody changes, and nothing is charged.

    Args:
        row: An assignment or membership; its organization is locked before, where it has one.
    """
    classes = CustomerClass.objects.select_for_update(no_key=True).order_by("pk")
    list(classes.values_list("pk", flat=True))
    owner = {"organization": row.organization_id}
    if isinstance(row, PriceBookAssignment):
        owner["customer_class"] = row.customer_class_id
    rows = type(row).objects.select_for_update(of=("self",), no_key=True)
    published = rows.filter(**owner, superseded_at__isnull=True).order_by("pk")
    return sorted(published, key=lambda known: known.valid.lower)


DAILY_COSTS_LOCK: Final = 0x62690001
"""A key of the product's advisory locks, so that it does not collide with others."""


def try_daily_costs_lock() -> bool:
    """Return whether this transaction may add up daily costs; False when another does it now."""
    return try_advisory_lock(key=DAILY_COSTS_LOCK)
