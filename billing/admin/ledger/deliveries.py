"""Admin pages of document deliveries: recipient and time of what was sent."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin

from billing.access import READ_INVOICE, WRITE_PAYMENT
from billing.models import DocumentDelivery
from billing.services.ledger.deliveries import record_delivery
from tenants.admin.base import ServiceAdmin
from tenants.domain.actors import Actor


@admin.register(DocumentDelivery)
class DocumentDeliveryAdmin(ServiceAdmin):
    """Recipient and time of documents, and of reminders, that were sent."""

    view_capability = READ_INVOICE
    write_capability = WRITE_PAYMENT
    hint = "The service records the reminders it has sent; add what you sent yourself."
    add_fields = ("document", "channel", "recipient", "sent_at")
    list_display = ("document", "reminder", "channel", "recipient", "sent_at", "recorded_by")
    list_filter = ("channel", "document__organization")
    list_select_related = ("document__period", "reminder")
    search_fields = ("document__number", "recipient", "document__organization__slug")
    autocomplete_fields = ("document",)
    ordering = ("-sent_at", "pk")

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> DocumentDelivery:
        """Record that a document was sent."""
        how = {name: value for name, value in fields.items() if name != "document"}
        return record_delivery(document_id=fields["document"].pk, **how, actor=actor, at=at)
