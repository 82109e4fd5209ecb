"""Endpoint /api/v1/opening-balances/: what organizations owed, or had, in the system before."""

from uuid import UUID

from django.db.models import Model, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_INVOICE,
    WRITE_PAYMENT,
    access_opening_balance,
    access_payer,
    opening_balances_visible_to,
)
from billing.api.money import MoneyField
from billing.domain.ledger.status import PaymentStatus
from billing.models import OpeningBalance
from billing.models.payment import REFERENCE_LENGTH_MAX
from billing.services.ledger.opening_balances import record_opening_balance
from tenants.access import require_capability
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class OpeningBalanceSerializer(serializers.ModelSerializer[OpeningBalance]):
    """An open item above zero, or credit below, which is allocated as the payment `credit`."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    credit = serializers.UUIDField(source="credit_id", read_only=True, allow_null=True)
    amount = MoneyField()
    open_amount = MoneyField()
    payment_status = serializers.ChoiceField(choices=[*PaymentStatus], read_only=True)

    class Meta:
        model = OpeningBalance
        fields = (
            "id",
            "organization",
            "reference",
            "amount",
            "open_amount",
            "payment_status",
            "dated_on",
            "due_on",
            "credit",
            "recorded_by",
            "recorded_at",
        )
        read_only_fields = fields


class OpeningBalanceInputSerializer(StrictSerializer):
    """What the system before had."""

    organization = serializers.UUIDField()
    reference = serializers.CharField(
        max_length=REFERENCE_LENGTH_MAX, help_text="Its number in the system before."
    )
    amount = serializers.DecimalField(
        max_digits=20, decimal_places=4, help_text="Owed above zero, credit below, as text."
    )
    currency = serializers.CharField(max_length=3)
    dated_on = serializers.DateField(help_text="As of when it is taken over.")
    due_on = serializers.DateField(required=False, default=None, help_text="Of what is owed only.")


class OpeningBalanceFilter(StrictFilterSet):
    """Which opening balances are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    reference = filters.CharFilter()
    payment_status = filters.ChoiceFilter(choices=[(one.value, one.value) for one in PaymentStatus])
    updated_from = UpdatedFromFilter(
        "recorded_at",
        part="allocations__allocated_at",
        help_text="Only balances recorded or settled at this time or since.",
    )


class OpeningBalanceViewSet(ReadingViewSet):
    """Opening balances, newest first."""

    serializer_class = OpeningBalanceSerializer
    filterset_class = OpeningBalanceFilter
    ordering = ("-dated_on", "pk")
    orderings = ("recorded_at",)

    def get_queryset(self) -> QuerySet[OpeningBalance]:
        """Return those of the organizations whose bills the caller reads."""
        return opening_balances_visible_to(self.actor, on=self.at.date())

    def get_one(self, pk: UUID) -> OpeningBalance:
        """Return one opening balance."""
        access_opening_balance(self.actor, pk, READ_INVOICE)
        return self.get_queryset().get(pk=pk)

    def answer(self, row: Model, *, status_code: int = status.HTTP_200_OK) -> Response:
        """Return an opening balance with what is open of it."""
        return super().answer(self.get_queryset().get(pk=row.pk), status_code=status_code)

    @extend_schema(request=OpeningBalanceInputSerializer, responses={201: OpeningBalanceSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Record and post what an organization owed, or had as credit, in the system before."""
        require_capability(self.actor, WRITE_PAYMENT)
        fields = self.read(OpeningBalanceInputSerializer, request)
        organization = access_payer(self.actor, fields.pop("organization"), WRITE_PAYMENT)
        made = record_opening_balance(
            organization=organization, **fields, actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)
