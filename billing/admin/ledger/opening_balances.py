"""Admin pages of opening balances, which are recorded once and settled as invoices are."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.decorators import display

from billing.access import READ_INVOICE, WRITE_PAYMENT
from billing.admin.amounts import money_text
from billing.models import OpeningBalance
from billing.selectors.ledger.settlement import with_open_balance
from billing.services.ledger.opening_balances import record_opening_balance
from tenants.admin.base import ServiceAdmin
from tenants.domain.actors import Actor
from tenants.templatetags.texts import value_text

STATUS_COLORS = {
    "open": "info",
    "part_paid": "info",
    "paid": "success",
    "overdue": "danger",
    "credited": "primary",
}


@admin.register(OpeningBalance)
class OpeningBalanceAdmin(ServiceAdmin):
    """What organizations owed, or had as credit, in the system before."""

    view_capability = READ_INVOICE
    write_capability = WRITE_PAYMENT
    hint = (
        "What is owed stands above zero and is settled by Payments, Allocate; credit stands below "
        "zero, without a due date, and is a payment to allocate. A wrong one is settled by an "
        "opposite one."
    )
    add_fields = ("organization", "reference", "amount", "currency", "dated_on", "due_on")
    help_texts: ClassVar = {
        "reference": "As the system before named it; once in an organization.",
        "amount": "Above zero is owed by the organization; below zero is its credit.",
        "dated_on": "The day as of which it is taken over.",
        "due_on": "Empty for a credit.",
    }
    list_display = (
        "reference",
        "organization",
        "dated_on",
        "due_on",
        "amount_text",
        "open_text",
        "status_label",
    )
    list_filter = ("organization", "currency")
    list_select_related = ("organization",)
    search_fields = ("reference", "organization__slug")
    autocomplete_fields = ("organization",)
    ordering = ("-dated_on", "pk")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return opening balances with what is open of them."""
        return with_open_balance(super().get_queryset(request), on=timezone.now().date())

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> OpeningBalance:
        """Record an opening balance."""
        return record_opening_balance(**fields, actor=actor, at=at)

    @admin.display(description="amount", ordering="amount")
    def amount_text(self, row: OpeningBalance) -> str:
        """Return the amount as printed."""
        return money_text(row.amount, row.currency)

    @admin.display(description="open")
    def open_text(self, row: Any) -> str:  # noqa: ANN401 - A row of `with_open_balance`.
        """Return what is left to pay."""
        return money_text(row.open_amount, row.currency)

    @display(description="status", label=STATUS_COLORS)
    def status_label(self, row: Any) -> tuple[str, str]:  # noqa: ANN401 - As above.
        """Return the payment status, coloured."""
        return str(row.payment_status), value_text(row.payment_status)
