"""The only way from an entry point to an object of billing: fetch with permission.

What an actor may not see does not exist; what it sees but may not change is forbidden.
"""

from datetime import date
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from billing.models import (
    AccountingMonth,
    AccrualException,
    BillingPeriod,
    Charge,
    CustomerClass,
    CustomerClassMembership,
    Dispute,
    DocumentDelivery,
    Invoice,
    InvoiceLine,
    Issuer,
    JournalBatch,
    JournalEntry,
    MinimumCharge,
    OpeningBalance,
    OrganizationBook,
    Payment,
    Price,
    PriceBook,
    PriceBookAssignment,
    PriceCalendar,
    PriceDraft,
    ProjectRoute,
    Recipient,
    Reminder,
    ReminderStop,
    Repricing,
    TaxRate,
    TaxTreatment,
    TierSchedule,
    WriteOff,
)
from billing.selectors.ledger.settlement import with_free_amount, with_open_balance
from metering.access import waste_visible_to
from tenants.access import (
    access_organization,
    access_organizations,
    access_seen,
    build_access,
    build_read_access,
    build_write_access,
    is_platform_wide,
    organizations_visible_to,
    projects_visible_to,
    scope_to_organizations,
    scope_to_platform,
    scope_to_projects,
)
from tenants.domain.actors import Actor
from tenants.models import Organization

READ_PRICE: Final = "billing:price:read"
WRITE_PRICE: Final = "billing:price:write"
READ_PERIOD: Final = "billing:period:read"
WRITE_PERIOD: Final = "billing:period:write"
READ_CHARGE: Final = "billing:charge:read"
READ_OWN_CHARGE: Final = "billing:own_charge:read"
READ_INVOICE: Final = "billing:invoice:read"
WRITE_INVOICE: Final = "billing:invoice:write"
READ_JOURNAL: Final = "billing:journal:read"
WRITE_JOURNAL: Final = "billing:journal:write"
WRITE_PAYMENT: Final = "billing:payment:write"
WRITE_DISPUTE: Final = "billing:dispute:write"


def price_books_visible_to(actor: Actor) -> QuerySet[PriceBook]:
    """Return every book to the platform; to others those they are billed by, and the bases."""
    if is_platform_wide(actor, READ_PRICE):
        return PriceBook.objects.all()
    assigned = OrganizationBook.objects.filter(
        organization__in=_priced_organizations(actor).values("pk")
    ).values("price_book")
    bases = PriceBook.objects.filter(pk__in=assigned).order_by().values("base_book")
    return PriceBook.objects.filter(Q(pk__in=assigned) | Q(pk__in=bases))


def prices_visible_to(actor: Actor) -> QuerySet[Price]:
    """Return the prices of the books an actor sees, of hours that the book billed or bills."""
    rows = Price.objects.select_related("price_book")
    if is_platform_wide(actor, READ_PRICE):
        return rows
    billing = OrganizationBook.objects.filter(
        organization__in=_priced_organizations(actor).values("pk"), valid__overlap=OuterRef("valid")
    )
    return rows.filter(
        Exists(billing.filter(price_book=OuterRef("price_book")))
        | Exists(billing.filter(price_book__base_book=OuterRef("price_book")))
    )


def assignments_visible_to(actor: Actor) -> QuerySet[PriceBookAssignment]:
    """Return the price book assignments of the organizations whose prices an actor may read."""
    rows = PriceBookAssignment.objects.select_related(
        "organization", "customer_class", "price_book"
    )
    if is_platform_wide(actor, READ_PRICE):
        return rows
    payers = _priced_organizations(actor).values("pk")
    billing = OrganizationBook.objects.filter(organization__in=payers).values("pk")
    return rows.filter(Q(organization__in=payers) | Q(pk__in=billing))


def customer_classes_visible_to(actor: Actor) -> QuerySet[CustomerClass]:
    """Return all customer classes to the platform; to others those that they are in or were."""
    if is_platform_wide(actor, READ_PRICE):
        return CustomerClass.objects.all()
    known = class_memberships_visible_to(actor).order_by().values("customer_class")
    return CustomerClass.objects.filter(pk__in=known)


def class_memberships_visible_to(actor: Actor) -> QuerySet[CustomerClassMembership]:
    """Return the memberships of the organizations whose prices an actor may read."""
    rows = CustomerClassMembership.objects.select_related("organization", "customer_class")
    if is_platform_wide(actor, READ_PRICE):
        return rows
    return rows.filter(organization__in=_priced_organizations(actor).values("pk"))


def access_priced_organization(actor: Actor, organization_id: UUID) -> Organization:
    """Return an organization of which, or of a project of which, an actor may read the prices.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(_priced_organizations(actor), organization_id)


def _priced_organizations(actor: Actor) -> QuerySet[Organization]:
    """Return the organizations of which, or of a project of which, an actor may read the prices."""
    projects = projects_visible_to(actor, READ_PRICE).order_by()
    return Organization.objects.filter(
        Q(pk__in=organizations_visible_to(actor, READ_PRICE).order_by().values("pk"))
        | Q(pk__in=projects.values("organization"))
    ).order_by()


def periods_visible_to(actor: Actor, capability: str = READ_PERIOD) -> QuerySet[BillingPeriod]:
    """Return the billing periods of the organizations over which an actor holds a capability."""
    rows = BillingPeriod.objects.select_related("organization")
    return scope_to_organizations(rows, actor, capability)


def drafts_visible_to(actor: Actor) -> QuerySet[PriceDraft]:
    """Return the drafts of prices to the platform, which sees every payer; to others none."""
    rows = PriceDraft.objects.select_related("price_book")
    return rows if is_platform_wide(actor, READ_PRICE) else rows.none()


def repricings_visible_to(actor: Actor, capability: str = READ_PERIOD) -> QuerySet[Repricing]:
    """Return the repricings of the organizations over which an actor holds a capability."""
    rows = Repricing.objects.select_related("organization", "period")
    return scope_to_organizations(rows, actor, capability)


def tax_rates_visible_to(actor: Actor) -> QuerySet[TaxRate]:
    """Return the tax rates to the platform; others see them on their invoices."""
    rows = TaxRate.objects.all()
    return rows if is_platform_wide(actor, READ_PRICE) else rows.none()


def tax_treatments_visible_to(actor: Actor) -> QuerySet[TaxTreatment]:
    """Return the tax treatments of the organizations whose prices an actor may read."""
    rows = TaxTreatment.objects.select_related("organization")
    return scope_to_organizations(rows, actor, READ_PRICE)


def issuers_visible_to(actor: Actor) -> QuerySet[Issuer]:
    """Return the issuers to the platform; others see them on their invoices."""
    return scope_to_platform(Issuer.objects.all(), actor, READ_PRICE)


def recipients_visible_to(actor: Actor) -> QuerySet[Recipient]:
    """Return the recipients of the organizations whose prices an actor may read."""
    rows = Recipient.objects.select_related("organization")
    return scope_to_organizations(rows, actor, READ_PRICE)


def routes_visible_to(actor: Actor) -> QuerySet[ProjectRoute]:
    """Return the routes of projects of the organizations whose prices an actor may read."""
    rows = ProjectRoute.objects.select_related("organization", "project", "issuer", "recipient")
    return scope_to_organizations(rows, actor, READ_PRICE)


def tiers_visible_to(actor: Actor) -> QuerySet[TierSchedule]:
    """Return the tier schedules of the books an actor sees."""
    rows = TierSchedule.objects.select_related("price_book")
    if is_platform_wide(actor, READ_PRICE):
        return rows
    return rows.filter(price_book__in=price_books_visible_to(actor).order_by().values("pk"))


def calendars_visible_to(actor: Actor) -> QuerySet[PriceCalendar]:
    """Return the calendars of the books an actor sees."""
    rows = PriceCalendar.objects.select_related("price_book")
    if is_platform_wide(actor, READ_PRICE):
        return rows
    return rows.filter(price_book__in=price_books_visible_to(actor).order_by().values("pk"))


def minimums_visible_to(actor: Actor) -> QuerySet[MinimumCharge]:
    """Return the minimum charges of the organizations whose prices an actor may read."""
    rows = MinimumCharge.objects.select_related("organization")
    return scope_to_organizations(rows, actor, READ_PRICE)


def charges_visible_to(actor: Actor) -> QuerySet[Charge]:
    """Return the charges of the projects an actor reaches."""
    rows = Charge.objects.select_related("organization", "project", "period")
    return scope_to_projects(rows, actor, READ_CHARGE)


def exceptions_visible_to(actor: Actor) -> QuerySet[AccrualException]:
    """Return use without a price, of the projects an actor reaches."""
    rows = AccrualException.objects.select_related("organization", "project")
    return scope_to_projects(rows, actor, READ_CHARGE)


def invoices_visible_to(actor: Actor, capability: str = READ_INVOICE) -> QuerySet[Invoice]:
    """Return the invoices of the organizations over which an actor holds a capability."""
    rows = Invoice.objects.select_related("organization", "period")
    return scope_to_organizations(rows, actor, capability)


def lines_visible_to(actor: Actor) -> QuerySet[InvoiceLine]:
    """Return the lines of the invoices an actor reads, and its projects' parts of final ones."""
    rows = InvoiceLine.objects.select_related(
        "invoice__period", "invoice__organization", "project", "service_period"
    )
    part = Q(project__in=projects_visible_to(actor, READ_CHARGE).order_by().values("pk"))
    part &= Q(invoice__state="final")
    return rows.filter(Q(invoice__in=_documents_visible_to(actor)) | part)


def disputes_visible_to(actor: Actor, capability: str = READ_INVOICE) -> QuerySet[Dispute]:
    """Return the disputes of the organizations over whose bills an actor holds a capability."""
    rows = Dispute.objects.select_related("organization", "document__period")
    return scope_to_organizations(rows, actor, capability).prefetch_related("lines", "messages")


def write_offs_visible_to(actor: Actor) -> QuerySet[WriteOff]:
    """Return the write-offs to the platform; to others none, only what is open."""
    rows = WriteOff.objects.select_related("organization", "document__period")
    return scope_to_platform(rows, actor, READ_JOURNAL)


def payments_visible_to(actor: Actor, capability: str = READ_INVOICE) -> QuerySet[Any]:
    """Return the payments of organizations whose bills an actor reads; the platform sees all."""
    rows = with_free_amount(Payment.objects.select_related("organization"))
    return scope_to_organizations(rows, actor, capability).prefetch_related("allocations")


def opening_balances_visible_to(
    actor: Actor, capability: str = READ_INVOICE, *, on: date = date.min
) -> QuerySet[Any]:
    """Return the opening balances of organizations whose bills an actor reads.

    Args:
        actor: The caller.
        capability: Held over their organizations.
        on: The day on which they are overdue or not.
    """
    rows = with_open_balance(OpeningBalance.objects.select_related("organization"), on=on)
    return scope_to_organizations(rows, actor, capability)


def reminders_visible_to(actor: Actor) -> QuerySet[Reminder]:
    """Return the reminders of organizations whose bills an actor reads."""
    return Reminder.objects.filter(document__in=_documents_visible_to(actor)).select_related(
        "document__period"
    )


def document_deliveries_visible_to(actor: Actor) -> QuerySet[DocumentDelivery]:
    """Return how documents were sent, of organizations whose bills an actor reads."""
    rows = DocumentDelivery.objects.filter(document__in=_documents_visible_to(actor))
    return rows.select_related("document__period")


def reminder_stops_visible_to(
    actor: Actor, capability: str = READ_INVOICE
) -> QuerySet[ReminderStop]:
    """Return where reminders are stopped, of organizations over which a capability is held."""
    documents = _documents_visible_to(actor, capability)
    return ReminderStop.objects.filter(document__in=documents).select_related("document__period")


def _documents_visible_to(actor: Actor, capability: str = READ_INVOICE) -> QuerySet[Any]:
    return invoices_visible_to(actor, capability).order_by().values("pk")


def journal_visible_to(actor: Actor) -> QuerySet[JournalEntry]:
    """Return the journal to the platform; to others none of it."""
    rows = JournalEntry.objects.prefetch_related("postings__account")
    return scope_to_platform(rows, actor, READ_JOURNAL)


def journal_batches_visible_to(actor: Actor) -> QuerySet[JournalBatch]:
    """Return the batches of the journal to the platform; to others none."""
    return scope_to_platform(JournalBatch.objects.all(), actor, READ_JOURNAL)


def accounting_months_visible_to(actor: Actor) -> QuerySet[AccountingMonth]:
    """Return the closed months of the general ledger to the platform; to others none."""
    rows = AccountingMonth.objects.exclude(label="0000-00")
    return scope_to_platform(rows, actor, READ_JOURNAL)


def savings_visible_to(actor: Actor) -> QuerySet[Any]:
    """Return the waste findings of the projects of which an actor also reads the charges."""
    return scope_to_projects(waste_visible_to(actor), actor, READ_CHARGE)


access_price_book: Final = build_read_access(price_books_visible_to)
access_price: Final = build_read_access(prices_visible_to)
access_customer_class: Final = build_read_access(customer_classes_visible_to)
access_class_membership: Final = build_read_access(class_memberships_visible_to)
access_assignment: Final = build_read_access(assignments_visible_to)
access_period: Final = build_access(periods_visible_to)
access_draft: Final = build_read_access(drafts_visible_to)
access_repricing: Final = build_access(repricings_visible_to)
access_tax_rate: Final = build_read_access(tax_rates_visible_to)
access_tax_treatment: Final = build_read_access(tax_treatments_visible_to)
access_issuer: Final = build_read_access(issuers_visible_to)
access_recipient: Final = build_read_access(recipients_visible_to)
access_route: Final = build_read_access(routes_visible_to)
access_tiers: Final = build_read_access(tiers_visible_to)
access_calendar: Final = build_read_access(calendars_visible_to)
access_minimum: Final = build_read_access(minimums_visible_to)
access_charge: Final = build_read_access(charges_visible_to)
access_exception: Final = build_read_access(exceptions_visible_to)
access_invoice: Final = build_access(invoices_visible_to)
access_line: Final = build_read_access(lines_visible_to)
access_dispute: Final = build_access(disputes_visible_to)
access_write_off: Final = build_read_access(write_offs_visible_to)
access_payment: Final = build_access(payments_visible_to)
access_opening_balance: Final = build_access(opening_balances_visible_to)
access_document_delivery: Final = build_read_access(document_deliveries_visible_to)
access_reminder: Final = build_read_access(reminders_visible_to)
access_reminder_stop: Final = build_access(reminder_stops_visible_to)
access_journal_batch: Final = build_read_access(journal_batches_visible_to)
access_accounting_month: Final = build_read_access(accounting_months_visible_to)
access_journal_entry: Final = build_read_access(journal_visible_to)
access_price_book_to_write: Final = build_write_access(access_price_book, WRITE_PRICE)
access_price_to_write: Final = build_write_access(access_price, WRITE_PRICE)
access_draft_to_write: Final = build_write_access(access_draft, WRITE_PRICE)
access_assignment_to_write: Final = build_write_access(access_assignment, WRITE_PRICE)
access_class_membership_to_write: Final = build_write_access(access_class_membership, WRITE_PRICE)
access_tax_rate_to_write: Final = build_write_access(access_tax_rate, WRITE_PRICE)
access_tax_treatment_to_write: Final = build_write_access(access_tax_treatment, WRITE_PRICE)
access_recipient_to_write: Final = build_write_access(access_recipient, WRITE_PRICE)
access_tiers_to_write: Final = build_write_access(access_tiers, WRITE_PRICE)
access_calendar_to_write: Final = build_write_access(access_calendar, WRITE_PRICE)
access_minimum_to_write: Final = build_write_access(access_minimum, WRITE_PRICE)
access_write_off_to_decide: Final = build_write_access(access_write_off, WRITE_PAYMENT)
access_billed: Final = partial(access_organizations, capability=READ_INVOICE)


def access_payer(actor: Actor, organization_id: UUID, capability: str) -> Organization:
    """Return an organization over whose billing an actor holds a platform's capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_organization(actor, organization_id, capability)
