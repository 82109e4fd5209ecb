"""Endpoint /api/v1/payments/: recorded or imported, settled and paid back."""

from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_INVOICE,
    WRITE_PAYMENT,
    access_invoice,
    access_opening_balance,
    access_payer,
    access_payment,
    payments_visible_to,
)
from billing.adapters.bank_files import BYTES_MAX, READERS
from billing.api.money import MoneyField
from billing.domain.ledger.bank_rows import BankRow
from billing.models import Payment, PaymentAllocation, PaymentKind
from billing.services.ledger.payments import import_payments, record_payment
from billing.services.ledger.settling import (
    allocate_payment,
    refund_payment,
    release_payment,
    reverse_payment,
    unassign_payment,
)
from tenants.access import require_capability
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class PaymentAllocationSerializer(serializers.ModelSerializer[PaymentAllocation]):
    """An amount that settles an open item; a negative one takes the one it releases back."""

    document = serializers.UUIDField(source="document_id", read_only=True, allow_null=True)
    opening_balance = serializers.UUIDField(
        source="opening_balance_id", read_only=True, allow_null=True
    )
    releases = serializers.UUIDField(source="releases_id", read_only=True, allow_null=True)
    amount = MoneyField(currency_source="payment.currency")

    class Meta:
        model = PaymentAllocation
        fields = (
            "id",
            "document",
            "opening_balance",
            "amount",
            "releases",
            "allocated_by",
            "allocated_at",
        )
        read_only_fields = fields


class PaymentSerializer(serializers.ModelSerializer[Payment]):
    """Money received, or paid back below zero; `free_amount` is neither allocated nor paid back."""

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    origin = serializers.UUIDField(source="origin_id", read_only=True, allow_null=True)
    document = serializers.UUIDField(source="document_id", read_only=True, allow_null=True)
    amount = MoneyField()
    free_amount = MoneyField()
    allocations = PaymentAllocationSerializer(many=True, read_only=True)

    class Meta:
        model = Payment
        fields = (
            "id",
            "kind",
            "organization",
            "bank_account",
            "bank_reference",
            "amount",
            "free_amount",
            "booked_on",
            "payer",
            "remittance",
            "origin",
            "document",
            "reason",
            "allocations",
            "recorded_by",
            "recorded_at",
        )
        read_only_fields = fields


def _amount_input(*, required: bool = True) -> serializers.DecimalField:
    return serializers.DecimalField(
        max_digits=20, decimal_places=4, help_text="Above zero, as text.", required=required
    )


class PaymentInputSerializer(StrictSerializer):
    """A payment as the bank has it, and whose it is if its text does not say so."""

    bank_account = serializers.CharField(max_length=34)
    bank_reference = serializers.CharField(max_length=140)
    amount = _amount_input()
    currency = serializers.CharField(max_length=3)
    booked_on = serializers.DateField()
    payer = serializers.CharField(max_length=140, required=False, default="", allow_blank=True)
    remittance = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)
    organization = serializers.UUIDField(required=False, default=None, allow_null=True)


class PaymentImportSerializer(StrictSerializer):
    """A bank's file as text."""

    format = serializers.ChoiceField(choices=sorted(READERS))
    content = serializers.CharField(max_length=BYTES_MAX, trim_whitespace=False)


class RefusedRowSerializer(serializers.Serializer[dict[str, object]]):
    """A row that is not recorded: line of a CSV file, or number of a camt.053 entry."""

    line = serializers.IntegerField()
    code = serializers.CharField()
    reason = serializers.CharField()


class PaymentReportSerializer(serializers.Serializer[dict[str, object]]):
    """What became of a bank's file; rows that were recorded before are `repeated`."""

    recorded = serializers.ListField(child=serializers.UUIDField())
    repeated = serializers.IntegerField()
    refused = RefusedRowSerializer(many=True)


class AllocationInputSerializer(StrictSerializer):
    """Which open item is settled, and with how much; without an amount as far as both reach."""

    document = serializers.UUIDField(required=False, help_text="A final invoice or debit note.")
    opening_balance = serializers.UUIDField(required=False, help_text="Instead of a document.")
    amount = _amount_input(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Expect one open item."""
        if ("document" in attrs) == ("opening_balance" in attrs):
            raise serializers.ValidationError(
                {"document": "Name a document or an opening balance, and one of them only."}
            )
        return attrs


class ReleaseInputSerializer(StrictSerializer):
    """Why allocations, or the payer, are taken back."""

    reason = serializers.CharField(max_length=500)


class ReversalInputSerializer(ReleaseInputSerializer):
    """When and why the bank took a payment back."""

    booked_on = serializers.DateField()


class RefundInputSerializer(ReversalInputSerializer):
    """The bank's transaction that paid money back, and why."""

    amount = _amount_input()
    bank_reference = serializers.CharField(max_length=140)
    bank_account = serializers.CharField(
        max_length=34,
        required=False,
        default="",
        help_text="The account it left; by default the one that the payment came to.",
    )


class PaymentFilter(StrictFilterSet):
    """Which payments are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    kind = filters.ChoiceFilter(choices=PaymentKind.choices)
    bank_reference = filters.CharFilter()
    is_assigned = filters.BooleanFilter(
        field_name="organization", lookup_expr="isnull", exclude=True
    )
    has_free_amount = filters.BooleanFilter(method="with_free")
    updated_from = UpdatedFromFilter(
        "recorded_at",
        part="allocations__allocated_at",
        help_text="Only payments recorded, allocated or released at this time or since; taking a "
        "wrong payer back does not count.",
    )

    def with_free(self, rows: QuerySet[Any], _: str, value: object) -> QuerySet[Any]:
        """Return payments with money to allocate, or those without."""
        return rows.filter(free_amount__gt=0) if value else rows.exclude(free_amount__gt=0)


class PaymentViewSet(ReadingViewSet):
    """Payments, newest first."""

    serializer_class = PaymentSerializer
    filterset_class = PaymentFilter
    ordering = ("-booked_on", "pk")
    orderings = ("recorded_at",)

    def get_queryset(self) -> QuerySet[Payment]:
        """Return the payments of the organizations whose bills the caller reads."""
        return payments_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Payment:
        """Return one payment."""
        payment: Payment = access_payment(self.actor, pk, READ_INVOICE)
        return payment

    def answer(self, row: Model, *, status_code: int = status.HTTP_200_OK) -> Response:
        """Return a payment with what is left of it."""
        return super().answer(self.get_one(row.pk), status_code=status_code)

    @extend_schema(request=PaymentInputSerializer, responses={201: PaymentSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Record a payment; invoice numbers in its text are settled at once."""
        require_capability(self.actor, WRITE_PAYMENT)
        fields = self.read(PaymentInputSerializer, request)
        organization_id = fields.pop("organization")
        if organization_id is not None:
            access_payer(self.actor, organization_id, WRITE_PAYMENT)
        made = record_payment(
            row=BankRow(**fields), organization_id=organization_id, actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=PaymentImportSerializer, responses={200: PaymentReportSerializer})
    @action(detail=False, methods=["post"], url_path="import")
    @idempotent()
    def import_file(self, request: Request) -> Response:
        """Record the payments of a bank's file that can be, and report the other rows."""
        require_capability(self.actor, WRITE_PAYMENT)
        fields = self.read(PaymentImportSerializer, request)
        bank_file = READERS[fields["format"]](fields["content"].encode())
        report = import_payments(bank_file=bank_file, actor=self.actor, at=self.at)
        body = {
            "recorded": [payment.pk for payment in report.recorded],
            "repeated": report.repeated,
            "refused": report.refused,
        }
        return Response(PaymentReportSerializer(body).data)

    @extend_schema(request=AllocationInputSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def allocate(self, request: Request, pk: UUID) -> Response:
        """Settle an invoice or an opening balance with a payment."""
        payment = access_payment(self.actor, pk, WRITE_PAYMENT)
        fields = self.read(AllocationInputSerializer, request)
        if "document" in fields:
            item = {"document_id": access_invoice(self.actor, fields["document"], WRITE_PAYMENT).pk}
        else:
            balance = access_opening_balance(self.actor, fields["opening_balance"], WRITE_PAYMENT)
            item = {"opening_balance_id": balance.pk}
        done = allocate_payment(
            payment_id=payment.pk,
            **item,
            amount=fields.get("amount"),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(done)

    @extend_schema(request=ReleaseInputSerializer)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: UUID) -> Response:
        """Take all allocations of a payment back."""
        payment = access_payment(self.actor, pk, WRITE_PAYMENT)
        fields = self.read(ReleaseInputSerializer, request)
        done = release_payment(payment_id=payment.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(done)

    @extend_schema(request=ReleaseInputSerializer)
    @action(detail=True, methods=["post"])
    def unassign(self, request: Request, pk: UUID) -> Response:
        """Take a wrong payer back; nothing of the payment may be allocated or paid back."""
        payment = access_payment(self.actor, pk, WRITE_PAYMENT)
        fields = self.read(ReleaseInputSerializer, request)
        done = unassign_payment(payment_id=payment.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(done)

    @extend_schema(request=ReversalInputSerializer, responses={201: PaymentSerializer})
    @action(detail=True, methods=["post"])
    @idempotent()
    def reverse(self, request: Request, pk: UUID) -> Response:
        """Reverse a payment that the bank took back; what it settled is open again."""
        payment = access_payment(self.actor, pk, WRITE_PAYMENT)
        fields = self.read(ReversalInputSerializer, request)
        made = reverse_payment(payment_id=payment.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=RefundInputSerializer, responses={201: PaymentSerializer})
    @action(detail=True, methods=["post"])
    @idempotent()
    def refund(self, request: Request, pk: UUID) -> Response:
        """Record that free money was paid back."""
        payment = access_payment(self.actor, pk, WRITE_PAYMENT)
        fields = self.read(RefundInputSerializer, request)
        made = refund_payment(payment_id=payment.pk, **fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)
