"""Admin pages of notification endpoints and of single deliveries."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext
from unfold.decorators import display

from tenants.adapters.notification_mail import MailPages, subject_of, text_of
from tenants.adapters.notification_webhook import body_of
from tenants.admin.base import LedgerAdmin, ServiceAdmin, row_action
from tenants.domain.actors import Actor
from tenants.domain.notifications import (
    EndpointKind,
    attempts_text,
    next_attempt_text,
    remedy_of,
    result_text,
)
from tenants.models import (
    DeliveryState,
    NotificationDelivery,
    NotificationEndpoint,
    NotificationPreference,
)
from tenants.protocols import OutgoingNotification
from tenants.selectors.notifications import with_searched_address
from tenants.services.notifications.deliveries import outgoing_of, resend_delivery
from tenants.services.notifications.endpoints import (
    change_endpoint,
    close_endpoint,
    register_endpoint,
)
from tenants.templatetags.texts import english, minute_text, value_text

if TYPE_CHECKING:
    Page = LedgerAdmin
else:
    Page = object


def delivery_context(delivery: NotificationDelivery, *, at: datetime) -> dict[str, Any]:
    """Return the template's values for one delivery.

    Args:
        delivery: With its notification, the organization and the endpoint.
        at: Now.
    """
    outgoing = outgoing_of(delivery)
    return {
        "delivery": delivery,
        "said": _said(delivery.kind, outgoing),
        "subject": subject_of(outgoing) if delivery.kind == EndpointKind.MAIL else "",
        "has_earlier_failures": delivery.attempts > 1,
        "facts": [
            (gettext("To"), delivery.shown_address),
            (gettext("How"), _how(delivery)),
            (gettext("Event"), outgoing.event),
            (gettext("About"), outgoing.organization or gettext("the whole platform")),
            (
                gettext("Happened"),
                f"{minute_text(outgoing.occurred_at)}:{outgoing.occurred_at:%S} UTC",
            ),
            (gettext("Tries"), english(attempts_text(delivery.attempts))),
            (gettext("Last result"), last_result(delivery)),
            (gettext("Next try"), next_try(delivery, at=at)),
            *((gettext("What to do"), text) for text in [remedy_text(delivery)] if text),
        ],
    }


def last_result(delivery: NotificationDelivery) -> str:
    """Return the result of the last attempt."""
    return english(
        result_text(
            state=delivery.state,
            attempts=delivery.attempts,
            sent_at=delivery.sent_at,
            last_error=delivery.last_error,
        )
    )


def remedy_text(delivery: NotificationDelivery) -> str:
    """Return what to do about a delivery that has failed for good; "" for any other."""
    return english(remedy_of(state=delivery.state, last_error=delivery.last_error))


def next_try(delivery: NotificationDelivery, *, at: datetime) -> str:
    """Return when it is tried next."""
    return english(next_attempt_text(state=delivery.state, next_at=delivery.next_at, at=at))


def _said(kind: str, outgoing: OutgoingNotification) -> str:
    """Return a mail's text, or a webhook's JSON in lines; neither holds the secret that signs."""
    if kind == EndpointKind.MAIL:
        return text_of(outgoing, pages=MailPages(**settings.MAIL_PAGES))
    return json.dumps(json.loads(body_of(outgoing)), indent=2, ensure_ascii=False)


def _how(delivery: NotificationDelivery) -> str:
    if delivery.kind == EndpointKind.MAIL:
        return (
            gettext("mail") if delivery.endpoint else gettext("mail, to the address of an account")
        )
    return gettext("POST of JSON, signed; the secret is shown nowhere")


class MaskedAddresses(Page):
    """A page of rows with an address; tokens in it are masked and cannot be searched."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows with what may be searched of their addresses."""
        return with_searched_address(super().get_queryset(request))

    def lookup_allowed(
        self,
        lookup: str,
        value: str,
        request: HttpRequest | None = None,
    ) -> bool:
        """Refuse to ask for a part of an address in the page's own address."""
        if lookup.split("__", 1)[0] == "address":
            return False
        return bool(super().lookup_allowed(lookup, value, request))

    @admin.display(description="address", ordering="address")
    def shown(self, row: NotificationEndpoint | NotificationDelivery) -> str:
        """Return the address without tokens."""
        return row.shown_address


@admin.register(NotificationEndpoint)
class NotificationEndpointAdmin(MaskedAddresses, ServiceAdmin):
    """Receivers of notifications."""

    view_capability = "tenants:notification:read"
    write_capability = "tenants:notification:write"
    hint = (
        'Events are patterns, such as ["quotas:request:*"]. A webhook is signed with the secret '
        "in the variable that env:WEBHOOK_SECRET_<NAME> names; secrets are never stored here. "
        "Tokens in an address are not shown again. An address never changes; register another."
    )
    add_fields = ("organization", "kind", "address", "events", "secret_reference")
    change_fields = ("events",)
    list_display = ("shown", "kind", "organization", "events", "state")
    list_filter = ("kind", "state", "organization")
    list_select_related = ("organization",)
    search_fields = ("searched_address",)
    autocomplete_fields = ("organization",)
    actions = ("close_endpoints",)

    def get_exclude(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: Model | None = None,
    ) -> tuple[str, ...]:
        """Return what a registered endpoint's page leaves out: the address as it was typed."""
        return () if obj is None else ("address",)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return the read-only fields; the masked address replaces the full one."""
        fields = super().get_readonly_fields(request, obj)
        return tuple("shown" if name == "address" else name for name in fields)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> NotificationEndpoint:
        """Register an endpoint."""
        return register_endpoint(
            **fields, clear_text_hosts=settings.WEBHOOK_CLEAR_TEXT_HOSTS, actor=actor, at=at
        )

    def change(
        self, row: NotificationEndpoint, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> NotificationEndpoint:
        """Change the events of an endpoint."""
        return change_endpoint(endpoint=row, changes=changes, actor=actor, at=at)

    @row_action("Close", done="is closed")
    def close_endpoints(self, row: NotificationEndpoint, *, actor: Actor, at: datetime) -> None:
        """Close an endpoint."""
        close_endpoint(endpoint=row, actor=actor, at=at)


@admin.register(NotificationDelivery)
class NotificationDeliveryAdmin(MaskedAddresses, LedgerAdmin):
    """Notifications sent to each receiver, with their state."""

    view_capability = "tenants:notification:read"
    write_capability = "tenants:notification:write"
    undecided = DeliveryState.GIVEN_UP.value
    hint = (
        "Written with the change, sent within seconds, tried again for two days. Open one to read "
        "its text. Those that failed for good wait here: each says what to do, and Send again "
        "tries it anew."
    )
    actions = ("send_again",)
    change_form_outer_before_template = "admin/tenants/notificationdelivery/message.html"
    list_display = (
        "created_at",
        "subject",
        "shown",
        "state_label",
        "attempts",
        "result",
        "next_try",
    )
    list_filter = ("state", "kind")
    list_select_related = ("notification",)
    fields = ("endpoint", "created_at")
    search_fields = ("searched_address", "notification__subject", "notification__event")
    day_column = "created_at"

    @row_action("Send again", done="is sent again")
    def send_again(self, row: NotificationDelivery, *, actor: Actor, at: datetime) -> None:
        """Send a failed delivery again."""
        resend_delivery(delivery_id=row.pk, actor=actor, at=at)

    @display(
        description="state",
        ordering="state",
        label={"pending": "info", "sent": "success", "skipped": "warning", "given_up": "danger"},
    )
    def state_label(self, delivery: NotificationDelivery) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(delivery.state), value_text(delivery.state)

    @admin.display(description="what", ordering="notification__subject")
    def subject(self, delivery: NotificationDelivery) -> str:
        """Return its content in one line."""
        return delivery.notification.subject

    @admin.display(description="last result")
    def result(self, delivery: NotificationDelivery) -> str:
        """Return the result of the last attempt."""
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
        """Return the page of one delivery, with its message."""
        found = self.get_object(request, object_id)
        details = {} if found is None else delivery_context(found, at=timezone.now())
        context = {**details, **(extra_context or {})}
        answer: HttpResponse = super().change_view(request, object_id, form_url, context)
        return answer


@admin.register(NotificationPreference)
class NotificationPreferenceAdmin(LedgerAdmin):
    """What people have chosen not to be mailed about."""

    view_capability = "tenants:notification:read"
    hint = (
        "People choose for themselves, under Your notifications. People without a row "
        "get every mail of their roles."
    )
    list_display = ("user", "muted_events", "language", "changed_at")
    list_select_related = ("user",)
    search_fields = ("user__username",)
