"""Admin pages of minimum charges: published or replaced by a form, and withdrawn."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_noop
from unfold.widgets import UnfoldAdminTextInputWidget

from billing.admin.amounts import money_text
from billing.domain.pricing.minimum import MinimumRule
from billing.models import MinimumCharge
from billing.services.pricing.minimums import publish_minimum, withdraw_minimum
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.domain.actors import Actor


class MinimumChargeForm(ServiceForm):
    """A minimum charge, and why it replaces another one."""

    reason = forms.CharField(
        required=False,
        max_length=500,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Why, where it replaces another one from its first month on.",
    )


@admin.register(MinimumCharge)
class MinimumChargeAdmin(ServiceAdmin):
    """What organizations pay for a month at least."""

    form = MinimumChargeForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "What a month lacks to the amount, net and after tiers, is a line of its invoice, also "
        "without use. A minimum charge is never edited: it is withdrawn while none of its months "
        "is closed, and else replaced; one of 0 ends it."
    )
    action_form = NoteActionForm
    actions = ("withdraw_minimums",)
    add_fields = ("organization", "amount", "first_month", "last_month", "replaces", "reason")
    help_texts: ClassVar = {
        "amount": "A month, net, in the organization's billing currency.",
        "first_month": "Such as 2026-12.",
        "last_month": "Such as 2027-11. Empty: until further notice.",
    }
    list_display = (
        "organization",
        "amount_text",
        "first_month",
        "last_month",
        "superseded_from",
        "withdrawn_at",
    )
    list_filter = (("withdrawn_at", MarkFilter), "organization")
    list_select_related = ("organization",)
    search_fields = ("organization__name", "organization__slug")
    autocomplete_fields = ("organization",)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the form's fields, or those of a minimum charge."""
        if obj is None:
            return super().get_fields(request, obj)
        named = [name for name in self.add_fields if name != "reason"]
        return [*named, "currency", "published_at", "withdrawn_at", "superseded_from"]

    @admin.display(description="amount a month", ordering="amount")
    def amount_text(self, row: MinimumCharge) -> str:
        """Return the amount with its currency."""
        return money_text(row.amount, row.currency)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> MinimumCharge:
        """Publish a minimum charge."""
        replaced = fields["replaces"]
        return publish_minimum(
            organization=fields["organization"],
            rule=MinimumRule(fields["amount"], fields["first_month"], fields["last_month"]),
            replaces=None if replaced is None else replaced.pk,
            reason=fields["reason"],
            actor=actor,
            at=at,
        )

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_minimums(self, request: HttpRequest, rows: QuerySet[MinimumCharge]) -> None:
        """Withdraw the chosen minimum charges, of whose months none is closed."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_minimum(
                minimum_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )
