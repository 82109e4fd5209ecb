"""Admin pages of notifications: who is told, and what came of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.decorators import display

from tenants.admin.base import LedgerAdmin, ServiceAdmin
from tenants.admin.delivery_page import delivery_context, last_result, next_try
from tenants.domain.actors import Actor
from tenants.domain.delivery_words import masked_address
from tenants.models import NotificationDelivery, NotificationEndpoint
from tenants.services.notification_endpoints import (
    change_endpoint,
    close_endpoint,
    register_endpoint,
)


@admin.register(NotificationEndpoint)
class NotificationEndpointAdmin(ServiceAdmin):
    """Who asks to be told."""

    view_capability = "tenants:notification:read"
    write_capability = "tenants:notification:write"
    hint = (
        'Events are patterns, such as ["quotas:request:*"]. A webhook is signed with the secret '
        "in the variable that env:WEBHOOK_SECRET_<NAME> names; secrets are never stored here."
    )
    add_fields = ("organization", "kind", "address", "events", "secret_reference")
    change_fields = ("events",)
    list_display = ("address", "kind", "organization", "events", "state")
    list_filter = ("kind", "state", "organization")
    list_select_related = ("organization",)
    search_fields = ("address",)
    autocomplete_fields = ("organization",)
    actions = ("close_endpoints",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> NotificationEndpoint:
        """Register an endpoint."""
        return register_endpoint(
            **fields, clear_text_hosts=settings.WEBHOOK_CLEAR_TEXT_HOSTS, actor=actor, at=at
        )

    def change(
        self, row: NotificationEndpoint, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> NotificationEndpoint:
        """Change of which events an endpoint is told."""
        return change_endpoint(endpoint=row, changes=changes, actor=actor, at=at)

    @admin.action(description="Close", permissions=["write"])
    def close_endpoints(self, request: HttpRequest, rows: QuerySet[NotificationEndpoint]) -> None:
        """Tell the chosen endpoints nothing more."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: close_endpoint(endpoint=row, actor=actor, at=at),
            done="is closed",
        )


@admin.register(NotificationDelivery)
class NotificationDeliveryAdmin(LedgerAdmin):
    """What was told, to whom, and whether it arrived."""

    view_capability = "tenants:notification:read"
    hint = (
        "Written with what it tells, sent within seconds, tried again for two days. Open one to "
        "read what was said."
    )
    change_form_outer_before_template = "admin/tenants/notificationdelivery/message.html"
    list_display = (
        "created_at",
        "subject",
        "to",
        "state_label",
        "attempts",
        "result",
        "next_try",
    )
    list_filter = ("state", "kind")
    list_select_related = ("notification",)
    fields = ("endpoint", "created_at")
    search_fields = ("address", "notification__subject", "notification__event")
    date_hierarchy = "created_at"

    @display(
        description="state",
        ordering="state",
        label={"pending": "info", "sent": "success", "skipped": "warning", "given_up": "danger"},
    )
    def state_label(self, delivery: NotificationDelivery) -> str:
        """Return the state, coloured."""
        return str(delivery.state)

    @admin.display(description="what", ordering="notification__subject")
    def subject(self, delivery: NotificationDelivery) -> str:
        """Return what it says in a line."""
        return delivery.notification.subject

    @admin.display(description="to", ordering="address")
    def to(self, delivery: NotificationDelivery) -> str:
        """Return where it goes, without tokens."""
        return masked_address(delivery.kind, delivery.address)

    @admin.display(description="last result")
    def result(self, delivery: NotificationDelivery) -> str:
        """Return what came of the last try."""
        return last_result(delivery)

    @admin.display(description="next try", ordering="next_at")
    def next_try(self, delivery: NotificationDelivery) -> str:
        """Return when it is tried next."""
        return next_try(delivery, at=timezone.now())

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of one delivery, with what was said."""
        found = self.get_object(request, object_id)
        told = {} if found is None else delivery_context(found, at=timezone.now())
        context = {**told, **(extra_context or {})}
        answer: HttpResponse = super().change_view(request, object_id, form_url, context)
        return answer
