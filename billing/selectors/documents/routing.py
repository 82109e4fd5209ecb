"""Where the lines of projects go now, and where a billing run has frozen them to go."""

from uuid import UUID

from django.db.models import QuerySet

from billing.domain.documents.routing import Route
from billing.models import BillingPeriod, Invoice, Issuer, ProjectRoute, Recipient, RunRoute

_FIELDS = ("issuer_id", "recipient_id", "purchase_order")


def current_routes(organization_id: UUID) -> dict[UUID, Route]:
    """Return the routes of an organization's projects as they are now, by project."""
    return _routes(ProjectRoute.objects.filter(organization=organization_id))


def frozen_routes(period: BillingPeriod, *, run: int) -> dict[UUID, Route]:
    """Return the routes that a billing run has frozen, by project."""
    return _routes(RunRoute.objects.filter(period=period, run=run))


def route_of(invoice: Invoice) -> Route:
    """Return what a document is for: issuer, recipient and purchase order."""
    return Route(invoice.issuer_id, invoice.recipient_id, invoice.purchase_order)


def issuer_of(issuer_id: UUID | None) -> Issuer | None:
    """Return an issuer; None for the site's own."""
    return None if issuer_id is None else Issuer.objects.get(pk=issuer_id)


def recipient_of(recipient_id: UUID | None) -> Recipient | None:
    """Return a recipient; None for the organization itself."""
    return None if recipient_id is None else Recipient.objects.get(pk=recipient_id)


def _routes(rows: QuerySet[ProjectRoute] | QuerySet[RunRoute]) -> dict[UUID, Route]:
    listed = rows.order_by().values_list("project_id", *_FIELDS)
    return {project_id: Route(*parts) for project_id, *parts in listed}
