"""Admin pages of tax rates and of the tax treatment of organizations."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_noop

from billing.domain.documents.taxes import TaxTerms
from billing.models import TaxRate, TaxTreatment
from billing.services.taxes import (
    set_tax_rate,
    set_tax_treatment,
    withdraw_tax_rate,
    withdraw_tax_treatment,
)
from tenants.admin.base import ServiceAdmin
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.domain.actors import Actor


@admin.register(TaxRate)
class TaxRateAdmin(ServiceAdmin):
    """The rate of a category in a country, from which tax point on."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "A rate applies to tax points from its first day up to that of the next one. A wrong one "
        "is withdrawn; final invoices keep the rate they show."
    )
    action_form = NoteActionForm
    actions = ("withdraw_rates",)
    add_fields = ("country", "category", "rate", "exemption_text", "valid_from")
    list_display = ("country", "category", "rate", "valid_from", "withdrawn_at")
    list_filter = (("withdrawn_at", MarkFilter), "country", "category")
    search_fields = ("country", "exemption_text")

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> TaxRate:
        """Set a rate."""
        terms = {name: value for name, value in fields.items() if name != "valid_from"}
        return set_tax_rate(
            terms=TaxTerms(**terms), valid_from=fields["valid_from"], actor=actor, at=at
        )

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_rates(self, request: HttpRequest, rows: QuerySet[TaxRate]) -> None:
        """Withdraw the chosen rates with a reason."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_tax_rate(
                rate_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )


@admin.register(TaxTreatment)
class TaxTreatmentAdmin(ServiceAdmin):
    """How organizations are taxed, from which tax point on."""

    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "An organization without a treatment has no taxes on its invoices. A treatment applies "
        "from its first day up to that of the next one; a wrong one is withdrawn."
    )
    action_form = NoteActionForm
    actions = ("withdraw_treatments",)
    add_fields = ("organization", "country", "category", "valid_from")
    list_display = ("organization", "country", "category", "valid_from", "withdrawn_at")
    list_filter = (("withdrawn_at", MarkFilter), "country", "category")
    list_select_related = ("organization",)
    search_fields = ("organization__name", "country")
    autocomplete_fields = ("organization",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> TaxTreatment:
        """Set a treatment."""
        return set_tax_treatment(**fields, actor=actor, at=at)

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_treatments(self, request: HttpRequest, rows: QuerySet[TaxTreatment]) -> None:
        """Withdraw the chosen treatments with a reason."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_tax_treatment(
                treatment_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )
