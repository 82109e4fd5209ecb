"""Admin pages of issuers, recipients and the routes of projects to them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin

from billing.adapters.terms import invoice_terms
from billing.models import Issuer, ProjectRoute, Recipient
from billing.services.routing import (
    ISSUER_EDITABLE,
    ISSUER_FIXED,
    RECIPIENT_EDITABLE,
    change_issuer,
    change_recipient,
    create_issuer,
    create_recipient,
    set_route,
)
from tenants.admin.base import ServiceAdmin
from tenants.domain.actors import Actor


@admin.register(Issuer)
class IssuerAdmin(ServiceAdmin):
    """Legal entities that bill, beside the one in the settings."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "An issuer has number series of its own. Projects without a route are billed by the issuer "
        "in the settings. Final documents keep what they show."
    )
    add_fields = (*ISSUER_FIXED, *ISSUER_EDITABLE)
    change_fields = ISSUER_EDITABLE
    help_texts = {"country": "Of the address: two capital letters, such as DE."}
    list_display = ("slug", "name", "series", "credit_series", "tax_id")
    search_fields = ("slug", "name")

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Issuer:
        """Create an issuer."""
        return create_issuer(fields=fields, actor=actor, at=at, terms=invoice_terms())

    def change(
        self, row: Issuer, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> Issuer:
        """Change what further documents print."""
        return change_issuer(issuer=row, changes=changes, actor=actor, at=at)


@admin.register(Recipient)
class RecipientAdmin(ServiceAdmin):
    """Parties that organizations have billed instead of themselves."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "A recipient with a tax country and category is taxed by them, the others as their "
        "organization is. Final documents keep what they show."
    )
    add_fields = ("organization", "slug", *RECIPIENT_EDITABLE)
    change_fields = RECIPIENT_EDITABLE
    help_texts = {
        "country": "Of the address: two capital letters, such as DE.",
        "language": "Of its documents; without one, that of the organization.",
    }
    list_display = ("organization", "slug", "name", "buyer_reference", "cost_center")
    list_select_related = ("organization",)
    search_fields = ("slug", "name", "organization__name")
    autocomplete_fields = ("organization",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Recipient:
        """Create a recipient."""
        rest = {name: value for name, value in fields.items() if name != "organization"}
        return create_recipient(
            organization=fields["organization"], fields=rest, actor=actor, at=at
        )

    def change(
        self, row: Recipient, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> Recipient:
        """Change what further documents print, or how it is taxed."""
        return change_recipient(recipient=row, changes=changes, actor=actor, at=at)


@admin.register(ProjectRoute)
class ProjectRouteAdmin(ServiceAdmin):
    """Which issuer bills a project, whom, and under which purchase order."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "A month has a document for each issuer, recipient and purchase order. A review freezes "
        "the routes of its month; later changes apply to later runs."
    )
    add_fields = ("project", "issuer", "recipient", "purchase_order")
    change_fields = ("issuer", "recipient", "purchase_order")
    list_display = ("organization", "project", "issuer", "recipient", "purchase_order")
    list_select_related = ("organization", "project", "issuer", "recipient")
    search_fields = ("project__slug", "organization__name", "purchase_order")
    autocomplete_fields = ("project", "issuer", "recipient")

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> ProjectRoute:
        """Set the route of a project."""
        return set_route(**fields, actor=actor, at=at)

    def change(
        self, row: ProjectRoute, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> ProjectRoute:
        """Set the route of the same project anew."""
        kept = {name: getattr(row, name) for name in self.change_fields}
        return set_route(project=row.project, **{**kept, **changes}, actor=actor, at=at)
