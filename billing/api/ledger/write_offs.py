"""Endpoint /api/v1/write-offs/: what of final documents will not be paid, by two persons."""

from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    WRITE_PAYMENT,
    access_invoice,
    access_write_off,
    access_write_off_to_decide,
    write_offs_visible_to,
)
from billing.api.ledger.payments import ReleaseInputSerializer
from billing.api.money import MoneyField
from billing.models import WriteOff
from billing.models.write_off import WRITE_OFF_STATE_CHOICES
from billing.services.ledger.write_offs import (
    REASON_LENGTH_MAX,
    confirm_write_off,
    propose_write_off,
    reject_write_off,
    reverse_write_off,
)
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class WriteOffSerializer(serializers.ModelSerializer[WriteOff]):
    """An amount of a final document that will not be paid, with tax; posted, it is not open."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    document = serializers.UUIDField(source="document_id", read_only=True)
    reference = serializers.CharField(source="document.reference", read_only=True)
    amount = MoneyField()

    class Meta:
        model = WriteOff
        fields = (
            "id",
            "organization",
            "document",
            "reference",
            "state",
            "amount",
            "reason",
            "requested_by",
            "requested_at",
            "decided_by",
            "decided_at",
            "decision_note",
            "reversed_by",
            "reversed_at",
            "reversal_reason",
        )
        read_only_fields = fields


class WriteOffInputSerializer(StrictSerializer):
    """What is written off, and why; without an amount all that is open."""

    document = serializers.UUIDField()
    amount = serializers.DecimalField(
        max_digits=20, decimal_places=4, required=False, help_text="Above zero, with tax, as text."
    )
    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class WriteOffConfirmationSerializer(StrictSerializer):
    """The note of a confirmation."""

    note = serializers.CharField(
        max_length=REASON_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class WriteOffRejectionSerializer(StrictSerializer):
    """Why a write-off is rejected."""

    note = serializers.CharField(max_length=REASON_LENGTH_MAX)


class WriteOffFilter(StrictFilterSet):
    """Which write-offs are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    document = filters.UUIDFilter(field_name="document_id")
    state = filters.ChoiceFilter(choices=WRITE_OFF_STATE_CHOICES)
    updated_from = UpdatedFromFilter(
        "requested_at",
        "decided_at",
        "reversed_at",
        help_text="Only write-offs requested, decided or reversed at this time or since.",
    )


class WriteOffViewSet(ReadingViewSet):
    """Write-offs, newest first."""

    serializer_class = WriteOffSerializer
    filterset_class = WriteOffFilter
    ordering = ("-requested_at", "pk")

    def get_queryset(self) -> QuerySet[WriteOff]:
        """Return the write-offs to readers of the journal."""
        return write_offs_visible_to(self.actor)

    def get_one(self, pk: UUID) -> WriteOff:
        """Return one write-off."""
        return access_write_off(self.actor, pk)

    @extend_schema(request=WriteOffInputSerializer, responses={201: WriteOffSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Propose a write-off of a final document; posted at once without four eyes."""
        fields = self.read(WriteOffInputSerializer, request)
        document = access_invoice(self.actor, fields["document"], WRITE_PAYMENT)
        made = propose_write_off(
            document_id=document.pk,
            amount=fields.get("amount"),
            reason=fields["reason"],
            is_four_eyes=settings.FOUR_EYES,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WriteOffConfirmationSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def confirm(self, request: Request, pk: UUID) -> Response:
        """Post a write-off that another person proposed."""
        found = access_write_off_to_decide(self.actor, pk)
        fields = self.read(WriteOffConfirmationSerializer, request)
        done = confirm_write_off(
            write_off_id=found.pk,
            note=fields["note"],
            is_four_eyes=settings.FOUR_EYES,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(done)

    @extend_schema(request=WriteOffRejectionSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: UUID) -> Response:
        """Reject a proposed write-off: the document stays open."""
        found = access_write_off_to_decide(self.actor, pk)
        fields = self.read(WriteOffRejectionSerializer, request)
        done = reject_write_off(write_off_id=found.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(done)

    @extend_schema(request=ReleaseInputSerializer)
    @action(detail=True, methods=["post"])
    def reverse(self, request: Request, pk: UUID) -> Response:
        """Reverse a posted write-off: its amount is open again."""
        found = access_write_off_to_decide(self.actor, pk)
        fields = self.read(ReleaseInputSerializer, request)
        done = reverse_write_off(write_off_id=found.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(done)
