"""Admin pages of billing periods; a month is drafted from here."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from billing.domain.document import InvoiceTerms
from billing.models import BillingPeriod
from billing.services.invoicing import draft_invoice
from billing.services.periods import open_period
from tenants.admin.base import ServiceAdmin
from tenants.domain.actors import Actor
from tenants.domain.hours import hours_words


def invoice_terms() -> InvoiceTerms:
    """Return what the site has settled about its invoices."""
    return InvoiceTerms.read(
        settings.ISSUER, series=settings.INVOICE_SERIES, is_four_eyes=settings.FOUR_EYES
    )


@admin.register(BillingPeriod)
class BillingPeriodAdmin(ServiceAdmin):
    """Months of organizations."""

    view_capability = "billing:period:read"
    write_capability = "billing:invoice:write"
    hint = "A month opens by itself. Draft it here once it is over; finalizing closes it."
    add_fields = ("organization", "label")
    list_display = ("label", "organization", "hours_text", "state_label", "closed_at")
    list_filter = ("state", "label", "organization")
    list_select_related = ("organization",)
    search_fields = ("label", "organization__name", "organization__slug")
    autocomplete_fields = ("organization",)
    actions = ("draft_invoices",)

    @admin.display(description="hours (UTC)", ordering="hours")
    def hours_text(self, period: BillingPeriod) -> str:
        """Return the hours of the month in its organization's time zone."""
        return hours_words(period.hours.lower, period.hours.upper)

    @display(description="state", ordering="state", label={"open": "info", "closed": "success"})
    def state_label(self, period: BillingPeriod) -> str:
        """Return the state, coloured."""
        return str(period.state)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> BillingPeriod:
        """Open a month."""
        return open_period(**fields, actor=actor, at=at)

    @admin.action(description="Draft invoice", permissions=["write"])
    def draft_invoices(self, request: HttpRequest, rows: QuerySet[BillingPeriod]) -> None:
        """Draft the chosen months."""
        terms = invoice_terms()
        self.for_each(
            request,
            rows,
            lambda row, actor, at: draft_invoice(period_id=row.pk, actor=actor, at=at, terms=terms),
            done="is drafted",
        )
