"""Admin pages of reminders, and of the invoices they are stopped for."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_noop

from billing.access import READ_INVOICE, WRITE_PAYMENT
from billing.admin.amounts import money_text
from billing.models import Reminder, ReminderStop
from billing.services.ledger.reminders import continue_reminders, stop_reminders
from tenants.admin.base import LedgerAdmin, ServiceAdmin
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.domain.actors import Actor


@admin.register(Reminder)
class ReminderAdmin(LedgerAdmin):
    """Which invoices were reminded of, and at which level."""

    view_capability = READ_INVOICE
    hint = (
        "The service reminds of overdue invoices at the days of DUNNING_DAYS, one level a day at "
        "most. Reminder stops end that for one invoice."
    )
    list_display = ("document", "organization", "level", "days_overdue", "open_text", "reminded_on")
    day_column = "reminded_on"
    list_filter = ("level", "document__organization")
    list_select_related = ("document__organization", "document__period")
    search_fields = ("document__number", "document__organization__slug")
    ordering = ("-reminded_on", "pk")

    @admin.display(description="organization", ordering="document__organization__name")
    def organization(self, row: Reminder) -> str:
        """Return whose invoice it is."""
        return row.document.organization.name

    @admin.display(description="open", ordering="open_amount")
    def open_text(self, row: Reminder) -> str:
        """Return what was open on that day."""
        return money_text(row.open_amount, row.document.currency)


@admin.register(ReminderStop)
class ReminderStopAdmin(ServiceAdmin):
    """Invoices that are not reminded of, and why."""

    view_capability = READ_INVOICE
    write_capability = WRITE_PAYMENT
    hint = "Add one to remind of an invoice no more; Continue ends it, with a reason."
    action_form = NoteActionForm
    actions = ("continue_stops",)
    add_fields = ("document", "reason")
    list_display = ("document", "reason", "stopped_by", "stopped_at", "continued_at")
    list_filter = (("continued_at", MarkFilter), "document__organization")
    list_select_related = ("document__period",)
    search_fields = ("document__number", "document__organization__slug", "reason")
    autocomplete_fields = ("document",)
    ordering = ("-stopped_at", "pk")

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> ReminderStop:
        """Stop the reminders of an invoice."""
        return stop_reminders(
            document_id=fields["document"].pk, reason=fields["reason"], actor=actor, at=at
        )

    @admin.action(description="Continue", permissions=["write"])
    def continue_stops(self, request: HttpRequest, rows: QuerySet[ReminderStop]) -> None:
        """Remind of the chosen invoices again."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: continue_reminders(
                stop_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is continued"),
        )
