"""/api/v1/notification-endpoints/, -deliveries/ and me/notifications/: receivers of events."""

from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import path
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    READ_NOTIFICATION,
    access_delivery,
    access_endpoint,
    access_organization_if_named,
    deliveries_visible_to,
    endpoints_visible_to,
)
from tenants.api.conditional import if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import LedgerViewSet, ReadingViewSet
from tenants.domain.errors import ForbiddenError
from tenants.domain.notification_events import events_of_roles
from tenants.domain.notifications import EndpointKind, remedy_of
from tenants.models import (
    DeliveryState,
    NotificationDelivery,
    NotificationEndpoint,
    NotificationPreference,
)
from tenants.models.notification import KIND_CHOICES
from tenants.models.organization import Language, LifecycleState
from tenants.selectors.notifications import preference_of
from tenants.services.notifications.deliveries import WRITE, resend_delivery
from tenants.services.notifications.endpoints import (
    change_endpoint,
    close_endpoint,
    register_endpoint,
)
from tenants.services.notifications.preferences import choose_notifications

MASKED_ADDRESS: Final = (
    "A mail address, or a webhook's URL without tokens: parts of its path of 20 characters or "
    "more, and its query, are shown as an ellipsis."
)


class NotificationEndpointSerializer(serializers.ModelSerializer[NotificationEndpoint]):
    """An endpoint; its secret is named, never shown, and tokens in its address are masked."""

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    address = serializers.CharField(
        source="shown_address", read_only=True, help_text=MASKED_ADDRESS
    )
    events = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = NotificationEndpoint
        fields = (
            "id",
            "organization",
            "kind",
            "address",
            "events",
            "secret_reference",
            "state",
            "version",
            "created_at",
        )
        read_only_fields = fields


class EndpointChangeSerializer(StrictSerializer):
    """What may be changed of an endpoint."""

    events = serializers.ListField(child=serializers.CharField(max_length=100))


class EndpointInputSerializer(EndpointChangeSerializer):
    """A new endpoint."""

    organization = serializers.UUIDField(
        allow_null=True, help_text="Null: events of every organization."
    )
    kind = serializers.ChoiceField(choices=[kind.value for kind in EndpointKind])
    address = serializers.CharField(max_length=500)
    secret_reference = serializers.CharField(
        max_length=200,
        required=False,
        default="",
        allow_blank=True,
        help_text="env:WEBHOOK_SECRET_<NAME> for a webhook; the secret itself is never sent.",
    )


class NotificationEventSerializer(serializers.Serializer[Any]):
    """An event about which the caller's roles bring mails."""

    event = serializers.CharField()
    title = serializers.CharField()
    when = serializers.CharField()
    recipients = serializers.CharField()
    is_mailed = serializers.BooleanField(help_text="Whether the caller has not muted it.")


class NotificationPreferenceSerializer(serializers.ModelSerializer[NotificationPreference]):
    """What the caller is mailed about."""

    muted_events = serializers.ListField(child=serializers.CharField(), read_only=True)
    events = serializers.SerializerMethodField()

    class Meta:
        model = NotificationPreference
        fields = ("muted_events", "language", "events", "version")
        read_only_fields = fields

    @extend_schema_field(NotificationEventSerializer(many=True))
    def get_events(self, preference: NotificationPreference) -> list[dict[str, Any]]:
        """Return the events of the caller's roles."""
        events = events_of_roles(self.context["roles"])
        muted = set(preference.muted_events)
        return [
            {
                "event": name,
                "title": event.label,
                "when": event.when,
                "recipients": event.recipients,
                "is_mailed": name not in muted,
            }
            for name, event in events.items()
        ]


class NotificationChoiceSerializer(StrictSerializer):
    """What may be changed of it."""

    muted_events = serializers.ListField(child=serializers.CharField(max_length=100))
    language = serializers.ChoiceField(
        choices=Language.choices,
        allow_blank=True,
        help_text="Empty: of mails about a document, that of the document, else English.",
    )


class NotificationPreferenceViewSet(LedgerViewSet):
    """The caller's own preferences; programs and tokens limited to scopes have none."""

    serializer_class = NotificationPreferenceSerializer
    queryset = None

    def get_serializer_context(self) -> dict[str, Any]:
        """Add the caller's roles."""
        roles = [grant.role for grant in self.actor.grants]
        return {**super().get_serializer_context(), "roles": roles}

    @extend_schema(operation_id="get_my_notifications")
    def mine(self, request: Request) -> Response:
        """Return what the caller is mailed about, and of which events there is a choice."""
        return self.answer(preference_of(self._person(request)))

    @extend_schema(operation_id="choose_my_notifications", request=NotificationChoiceSerializer)
    @if_match
    def choose(self, request: Request) -> Response:
        """Choose what the caller is mailed about, and in which language."""
        stored = preference_of(self._person(request))
        changes = self.read_changes(NotificationChoiceSerializer, request)
        return self.change(
            request,
            choose_notifications,
            person=stored.user,
            muted_events=changes.get("muted_events", stored.muted_events),
            language=changes.get("language", stored.language),
        )

    def _person(self, request: Request) -> User:
        is_limited = self.actor.scopes is not None or not self.actor.grants
        if is_limited or not isinstance(request.user, User):
            raise ForbiddenError(
                "These credentials have no notifications.",
                remedy="Use those of a person with a role, and no token limited to scopes.",
            )
        return request.user


class EndpointFilter(StrictFilterSet):
    """Which endpoints are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    kind = filters.ChoiceFilter(choices=KIND_CHOICES)
    state = filters.ChoiceFilter(choices=LifecycleState.choices)


class NotificationEndpointViewSet(ReadingViewSet):
    """Notification endpoints."""

    serializer_class = NotificationEndpointSerializer
    filterset_class = EndpointFilter
    ordering = ("created_at", "pk")

    def get_queryset(self) -> QuerySet[NotificationEndpoint]:
        """Return the endpoints the caller may read."""
        return endpoints_visible_to(self.actor)

    def get_one(self, pk: UUID) -> NotificationEndpoint:
        """Return one endpoint."""
        return access_endpoint(self.actor, pk, READ_NOTIFICATION)

    @extend_schema(request=EndpointInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Send events to an address from now on."""
        fields = self.read(EndpointInputSerializer, request)
        organization = access_organization_if_named(self.actor, fields.pop("organization"))
        made = register_endpoint(
            organization=organization,
            **fields,
            clear_text_hosts=settings.WEBHOOK_CLEAR_TEXT_HOSTS,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EndpointChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change which events an endpoint receives."""
        return self.change(
            request,
            change_endpoint,
            endpoint=access_endpoint(self.actor, pk, WRITE),
            changes=self.read_changes(EndpointChangeSerializer, request),
        )

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """Tell an endpoint nothing more."""
        endpoint = access_endpoint(self.actor, pk, WRITE)
        self.read(EmptySerializer, request)
        return self.change(request, close_endpoint, endpoint=endpoint)


class NotificationDeliverySerializer(serializers.ModelSerializer[NotificationDelivery]):
    """One notification on its way to one address."""

    event_id = serializers.UUIDField(source="notification_id", read_only=True)
    event = serializers.CharField(source="notification.event", read_only=True)
    subject = serializers.CharField(source="notification.subject", read_only=True)
    endpoint = serializers.UUIDField(source="endpoint_id", read_only=True, allow_null=True)
    address = serializers.CharField(
        source="shown_address", read_only=True, help_text=MASKED_ADDRESS
    )
    remedy = serializers.SerializerMethodField(
        help_text="What to do about a delivery that has failed for good; empty for any other."
    )

    class Meta:
        model = NotificationDelivery
        fields = (
            "id",
            "event_id",
            "event",
            "subject",
            "endpoint",
            "kind",
            "address",
            "state",
            "attempts",
            "next_at",
            "sent_at",
            "last_error",
            "remedy",
            "created_at",
        )
        read_only_fields = fields

    def get_remedy(self, delivery: NotificationDelivery) -> str:
        """Return what to do."""
        return remedy_of(state=delivery.state, last_error=delivery.last_error)


class DeliveryFilter(StrictFilterSet):
    """Which deliveries are listed."""

    organization = filters.UUIDFilter(field_name="notification__organization_id")
    endpoint = filters.UUIDFilter(field_name="endpoint_id")
    state = filters.ChoiceFilter(choices=DeliveryState.choices)


class NotificationDeliveryViewSet(ReadingViewSet):
    """Notification deliveries."""

    serializer_class = NotificationDeliverySerializer
    filterset_class = DeliveryFilter
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[NotificationDelivery]:
        """Return the deliveries the caller may read."""
        return deliveries_visible_to(self.actor)

    def get_one(self, pk: UUID) -> NotificationDelivery:
        """Return one delivery."""
        return access_delivery(self.actor, pk)

    @extend_schema(operation_id="resend_notification_delivery", request=EmptySerializer)
    @action(detail=True, methods=["post"], url_path="send-again")
    def send_again(self, request: Request, pk: UUID) -> Response:
        """Send a delivery that has failed for good again, from its first attempt on."""
        delivery = access_delivery(self.actor, pk)
        self.read(EmptySerializer, request)
        resend_delivery(delivery_id=delivery.pk, actor=self.actor, at=self.at)
        return self.answer(access_delivery(self.actor, pk))


preference_urls: Final = [
    path(
        "me/notifications/",
        NotificationPreferenceViewSet.as_view({"get": "mine", "patch": "choose"}),
        name="my-notifications",
    ),
]
