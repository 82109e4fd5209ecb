"""Endpoint /api/v1/document-deliveries/: recipient and time of documents that were sent."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    WRITE_PAYMENT,
    access_document_delivery,
    access_invoice,
    document_deliveries_visible_to,
)
from billing.models import DeliveryChannel, DocumentDelivery
from billing.services.ledger.deliveries import record_delivery
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class DocumentDeliverySerializer(serializers.ModelSerializer[DocumentDelivery]):
    """That a document was sent, or, with `reminder`, a reminder of it."""

    document = serializers.UUIDField(source="document_id", read_only=True)
    reference = serializers.CharField(source="document.reference", read_only=True)
    reminder = serializers.UUIDField(source="reminder_id", read_only=True, allow_null=True)

    class Meta:
        model = DocumentDelivery
        fields = (
            "id",
            "document",
            "reference",
            "channel",
            "recipient",
            "sent_at",
            "reminder",
            "recorded_by",
            "recorded_at",
        )
        read_only_fields = fields


class DocumentDeliveryInputSerializer(StrictSerializer):
    """A final document that was sent: channel, recipient and time."""

    document = serializers.UUIDField()
    channel = serializers.ChoiceField(choices=DeliveryChannel.choices)
    recipient = serializers.CharField(max_length=500)
    sent_at = serializers.DateTimeField(required=False, help_text="Now without it.")


class DocumentDeliveryFilter(StrictFilterSet):
    """Which deliveries are listed."""

    organization = filters.UUIDFilter(field_name="document__organization_id")
    document = filters.UUIDFilter(field_name="document_id")
    channel = filters.ChoiceFilter(choices=DeliveryChannel.choices)
    updated_from = UpdatedFromFilter(
        "recorded_at", help_text="Only deliveries recorded at this time or since."
    )


class DocumentDeliveryViewSet(ReadingViewSet):
    """Deliveries of documents, newest first."""

    serializer_class = DocumentDeliverySerializer
    filterset_class = DocumentDeliveryFilter
    ordering = ("-sent_at", "pk")
    orderings = ("recorded_at",)

    def get_queryset(self) -> QuerySet[DocumentDelivery]:
        """Return those of the organizations whose bills the caller reads."""
        return document_deliveries_visible_to(self.actor)

    def get_one(self, pk: UUID) -> DocumentDelivery:
        """Return one delivery."""
        return access_document_delivery(self.actor, pk)

    @extend_schema(
        request=DocumentDeliveryInputSerializer, responses={201: DocumentDeliverySerializer}
    )
    def create(self, request: Request) -> Response:
        """Record that a final document was sent."""
        fields = self.read(DocumentDeliveryInputSerializer, request)
        document = access_invoice(self.actor, fields["document"], WRITE_PAYMENT)
        made = record_delivery(
            document_id=document.pk,
            channel=fields["channel"],
            recipient=fields["recipient"],
            sent_at=fields.get("sent_at", self.at),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)
