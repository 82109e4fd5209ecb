"""Endpoint /api/v1/disputes/: what customers do not accept of final documents, and its outcome."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_INVOICE,
    WRITE_DISPUTE,
    WRITE_INVOICE,
    access_dispute,
    access_invoice,
    disputes_visible_to,
)
from billing.adapters.terms import invoice_terms
from billing.api.invoices import CreditedLineSerializer, amounts_of
from billing.api.money import MoneyField
from billing.models import Dispute, DisputedLine, DisputeMessage
from billing.models.dispute import DISPUTE_STATE_CHOICES
from billing.services.crediting import REASON_LENGTH_MAX
from billing.services.disputes import (
    MESSAGE_LENGTH_MAX,
    accept_dispute,
    open_dispute,
    reject_dispute,
    withdraw_dispute,
    write_message,
)
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class DisputedLineSerializer(serializers.ModelSerializer[DisputedLine]):
    """An amount of a line that is disputed, net of tax."""

    line = serializers.UUIDField(source="line_id", read_only=True)
    amount = MoneyField(currency_source="dispute.currency")

    class Meta:
        model = DisputedLine
        fields = ("line", "amount")
        read_only_fields = fields


class DisputeMessageSerializer(serializers.ModelSerializer[DisputeMessage]):
    """A message in the thread of a dispute."""

    class Meta:
        model = DisputeMessage
        fields = ("id", "text", "written_by", "written_at")
        read_only_fields = fields


class DisputeSerializer(serializers.ModelSerializer[Dispute]):
    """A dispute of a final document; without lines all that was left of it is disputed."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    document = serializers.UUIDField(source="document_id", read_only=True)
    reference = serializers.CharField(source="document.reference", read_only=True)
    amount = MoneyField()
    credit_note = serializers.UUIDField(source="credit_note_id", read_only=True, allow_null=True)
    lines = DisputedLineSerializer(many=True, read_only=True)
    messages = DisputeMessageSerializer(many=True, read_only=True)

    class Meta:
        model = Dispute
        fields = (
            "id",
            "organization",
            "document",
            "reference",
            "state",
            "is_whole",
            "amount",
            "lines",
            "reason",
            "messages",
            "opened_by",
            "opened_at",
            "decided_by",
            "decided_at",
            "decision_reason",
            "credit_note",
        )
        read_only_fields = fields


class DisputeReasonSerializer(StrictSerializer):
    """Why a dispute is withdrawn or rejected."""

    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class DisputeAcceptanceSerializer(DisputeReasonSerializer):
    """Why, and what is credited; without lines all that is disputed."""

    lines = serializers.ListField(child=CreditedLineSerializer(), max_length=1000, required=False)


class DisputeInputSerializer(DisputeAcceptanceSerializer):
    """Which final document is disputed, and why; without lines all that is left of it."""

    document = serializers.UUIDField()


class DisputeMessageInputSerializer(StrictSerializer):
    """A message of the thread."""

    text = serializers.CharField(max_length=MESSAGE_LENGTH_MAX)


class DisputeFilter(StrictFilterSet):
    """Which disputes are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    document = filters.UUIDFilter(field_name="document_id")
    state = filters.ChoiceFilter(choices=DISPUTE_STATE_CHOICES)
    updated_from = UpdatedFromFilter(
        "opened_at",
        "decided_at",
        part="messages__written_at",
        help_text="Only disputes opened, written about or decided at this time or since.",
    )


class DisputeViewSet(ReadingViewSet):
    """Disputes, newest first."""

    serializer_class = DisputeSerializer
    filterset_class = DisputeFilter
    ordering = ("-opened_at", "pk")

    def get_queryset(self) -> QuerySet[Dispute]:
        """Return the disputes of the organizations whose bills the caller reads."""
        return disputes_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Dispute:
        """Return one dispute."""
        return access_dispute(self.actor, pk, READ_INVOICE)

    @extend_schema(request=DisputeInputSerializer, responses={201: DisputeSerializer})
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Dispute a final document, whole or by line."""
        fields = self.read(DisputeInputSerializer, request)
        document = access_invoice(self.actor, fields["document"], WRITE_DISPUTE)
        made = open_dispute(
            document_id=document.pk,
            amounts=amounts_of(fields.get("lines", ())),
            reason=fields["reason"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(self.get_one(made.pk), status_code=status.HTTP_201_CREATED)

    @extend_schema(request=DisputeMessageInputSerializer, responses={201: DisputeSerializer})
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def messages(self, request: Request, pk: UUID) -> Response:
        """Write a message about an open dispute."""
        found = access_dispute(self.actor, pk, WRITE_DISPUTE)
        fields = self.read(DisputeMessageInputSerializer, request)
        write_message(dispute_id=found.pk, text=fields["text"], actor=self.actor, at=self.at)
        return self.answer(self.get_one(found.pk), status_code=status.HTTP_201_CREATED)

    @extend_schema(request=DisputeReasonSerializer)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """End a dispute that the customer no longer holds."""
        found = access_dispute(self.actor, pk, WRITE_DISPUTE)
        fields = self.read(DisputeReasonSerializer, request)
        withdraw_dispute(dispute_id=found.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(self.get_one(found.pk))

    @extend_schema(request=DisputeReasonSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: UUID) -> Response:
        """Reject a dispute: the document stays owed as it is."""
        found = access_dispute(self.actor, pk, WRITE_INVOICE)
        fields = self.read(DisputeReasonSerializer, request)
        reject_dispute(dispute_id=found.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(self.get_one(found.pk))

    @extend_schema(request=DisputeAcceptanceSerializer)
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, pk: UUID) -> Response:
        """Accept a dispute, whole or in part, and draft the credit note."""
        found = access_dispute(self.actor, pk, WRITE_INVOICE)
        fields = self.read(DisputeAcceptanceSerializer, request)
        accept_dispute(
            dispute_id=found.pk,
            amounts=amounts_of(fields.get("lines", ())),
            reason=fields["reason"],
            actor=self.actor,
            at=self.at,
            terms=invoice_terms(),
        )
        return self.answer(self.get_one(found.pk))
