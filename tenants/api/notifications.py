"""/api/v1/notification-endpoints/ and -deliveries/: receivers, their events, deliveries."""

from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    READ_NOTIFICATION,
    READ_ORGANIZATION,
    access_delivery,
    access_endpoint,
    access_organization,
    deliveries_visible_to,
    endpoints_visible_to,
)
from tenants.api.conditional import if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.notifications import EndpointKind
from tenants.models import DeliveryState, NotificationDelivery, NotificationEndpoint
from tenants.models.notification import KIND_CHOICES
from tenants.models.organization import LifecycleState
from tenants.services.notifications.endpoints import (
    WRITE,
    change_endpoint,
    close_endpoint,
    register_endpoint,
)

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
        organization_id = fields.pop("organization")
        organization = (
            None
            if organization_id is None
            else access_organization(self.actor, organization_id, READ_ORGANIZATION)
        )
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
            "created_at",
        )
        read_only_fields = fields


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
