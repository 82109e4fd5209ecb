"""/api/v1/invoices/: drafted, finalized, and handed out as JSON, PDF and CSV."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Model, QuerySet
from django.http import HttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_CHARGE,
    READ_INVOICE,
    WRITE_INVOICE,
    access_invoice,
    access_payer,
    access_period,
    invoices_visible_to,
)
from billing.adapters.documents import render_csv
from billing.adapters.terms import invoice_terms, render_document, render_usage_annex
from billing.api.attachments import CSV, PDF, attachment
from billing.api.invoice_lines import InvoiceLineSerializer
from billing.api.money import MoneyField, MoneyTextField
from billing.domain.documents.document import file_name_of
from billing.domain.documents.invoicing import InvoiceState
from billing.domain.e_invoices.invoice import EInvoiceSyntax
from billing.domain.errors import CreditInvalidError
from billing.domain.ledger.status import PaymentStatus
from billing.models import Invoice
from billing.models.invoice import FileKind
from billing.selectors.documents.e_invoices import e_invoice
from billing.selectors.documents.line_charges import usage_annex
from billing.selectors.ledger.settlement import with_settlement
from billing.services.crediting import draft_credit, draft_debit, void_invoice
from billing.services.finalizing import file_of, finalize_invoice
from billing.services.invoicing import discard_draft, draft_invoice
from billing.services.ledger.carried import release_balance
from tenants.api.conditional import expected_version, if_match, may_conflict
from tenants.api.filters import IntegerFilter, StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet


class InvoiceSerializer(serializers.ModelSerializer[Invoice]):
    """An invoice without its lines; `reference` is "draft" until it has a number."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    period = serializers.UUIDField(source="period_id", read_only=True)
    period_label = serializers.CharField(source="period.label", read_only=True)
    reference = serializers.CharField(read_only=True)
    corrects = serializers.UUIDField(source="corrects_id", read_only=True, allow_null=True)
    issuer = serializers.UUIDField(source="issuer_id", read_only=True, allow_null=True)
    recipient = serializers.UUIDField(source="recipient_id", read_only=True, allow_null=True)
    total = MoneyField()
    tax_total = MoneyField()
    payable = MoneyField()
    brought_forward = MoneyField()
    carried_forward = MoneyField()
    amount_due = MoneyField()
    open_amount = MoneyField()
    disputed_amount = MoneyField(help_text="Net of tax; of a dispute that is open.")
    payment_status = serializers.ChoiceField(
        choices=[*PaymentStatus], allow_blank=True, read_only=True, help_text='"" for a draft.'
    )
    due_on = serializers.DateField(read_only=True, allow_null=True)

    class Meta:
        model = Invoice
        fields = (
            "id",
            "organization",
            "period",
            "period_label",
            "kind",
            "run",
            "run_reason",
            "corrects",
            "issuer",
            "recipient",
            "purchase_order",
            "state",
            "reference",
            "total",
            "tax_total",
            "payable",
            "brought_forward",
            "carried_forward",
            "amount_due",
            "open_amount",
            "disputed_amount",
            "payment_status",
            "due_on",
            "unit_seconds",
            "content_sha256",
            "drafted_by",
            "drafted_at",
            "finalized_by",
            "finalized_at",
            "version",
        )
        read_only_fields = fields


class InvoiceTaxSerializer(serializers.Serializer[Any]):
    """A tax as printed: `rate` percent of the taxable amount, rounded once."""

    category = serializers.CharField(help_text="UNCL 5305: S, Z, E, AE or O.")
    country = serializers.CharField()
    rate = serializers.CharField()
    taxable_amount = MoneyTextField()
    amount = MoneyTextField()
    exemption_text = serializers.CharField()


class InvoiceDetailSerializer(InvoiceSerializer):
    """An invoice with its lines and taxes."""

    lines = InvoiceLineSerializer(many=True, read_only=True)
    taxes = serializers.SerializerMethodField()

    class Meta:
        model = Invoice
        fields = (*InvoiceSerializer.Meta.fields, "lines", "taxes")
        read_only_fields = fields

    @extend_schema_field(InvoiceTaxSerializer(many=True))
    def get_taxes(self, invoice: Invoice) -> list[dict[str, object]]:
        """Return the taxes of the document; none for a customer without a tax treatment."""
        taxes = [{**tax, "currency": invoice.currency} for tax in invoice.document.get("taxes", ())]
        return list(InvoiceTaxSerializer(taxes, many=True).data)


class VoidInputSerializer(StrictSerializer):
    """Why an invoice is void."""

    reason = serializers.CharField(max_length=500)


class CreditedLineSerializer(StrictSerializer):
    """What is given back, or asked for, of a line."""

    line = serializers.UUIDField()
    amount = serializers.DecimalField(
        max_digits=20, decimal_places=4, help_text="Above zero, in the invoice's currency, as text."
    )


class CreditInputSerializer(VoidInputSerializer):
    """Why and how much is given back, or asked for."""

    lines = serializers.ListField(child=CreditedLineSerializer(), min_length=1, max_length=1000)


def amounts_of(parts: Sequence[Mapping[str, Any]]) -> dict[UUID, Decimal]:
    """Return what is asked of each line.

    Raises:
        CreditInvalidError: A line is named twice.
    """
    amounts = {part["line"]: part["amount"] for part in parts}
    if len(amounts) < len(parts):
        raise CreditInvalidError("A line is named twice.", field="lines")
    return amounts


class DraftInputSerializer(StrictSerializer):
    """Which period to draft."""

    period = serializers.UUIDField()


class EInvoiceQuerySerializer(StrictSerializer):
    """In which syntax an e-invoice is."""

    syntax = serializers.ChoiceField(
        choices=[(one.value, one.value) for one in EInvoiceSyntax],
        required=False,
        default=EInvoiceSyntax.CII.value,
        help_text="UN/CEFACT CII, as in the PDF, or UBL 2.1.",
    )


class InvoiceFilter(StrictFilterSet):
    """Which invoices are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    period = filters.UUIDFilter(field_name="period_id")
    period_label = filters.CharFilter(field_name="period__label")
    run = IntegerFilter()
    purchase_order = filters.CharFilter()
    state = filters.ChoiceFilter(choices=[(state.value, state.value) for state in InvoiceState])
    payment_status = filters.ChoiceFilter(choices=[(one.value, one.value) for one in PaymentStatus])
    updated_from = UpdatedFromFilter(
        "drafted_at",
        "finalized_at",
        help_text="Only documents drafted or issued at this time or since; payments and disputes "
        "do not count.",
    )


class InvoiceViewSet(ReadingViewSet):
    """Invoices, newest first."""

    serializer_class = InvoiceSerializer
    filterset_class = InvoiceFilter
    orderings = ("total",)

    def get_queryset(self) -> QuerySet[Invoice]:
        """Return the invoices of the organizations whose bills the caller reads."""
        rows = invoices_visible_to(self.actor).defer("document")
        return with_settlement(rows, on=self.at.date())

    def get_serializer_class(self) -> type[Any]:
        """Return the serializer with lines for a single invoice."""
        return InvoiceSerializer if self.action == "list" else InvoiceDetailSerializer

    def get_one(self, pk: UUID) -> Invoice:
        """Return one invoice."""
        return access_invoice(self.actor, pk, READ_INVOICE)

    def answer(self, row: Model, *, status_code: int = status.HTTP_200_OK) -> Response:
        """Return a document with what is open of it."""
        rows = invoices_visible_to(self.actor)
        settled = with_settlement(rows, on=self.at.date()).get(pk=row.pk)
        return super().answer(settled, status_code=status_code)

    @extend_schema(request=DraftInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Draft the documents of a period that is over, and return the first.

        There is one for each issuer, recipient and purchase order; earlier drafts are replaced.
        """
        fields = self.read(DraftInputSerializer, request)
        period = access_period(self.actor, fields["period"], WRITE_INVOICE)
        drafted = draft_invoice(
            period_id=period.pk, actor=self.actor, at=self.at, terms=invoice_terms()
        )
        return self.answer(drafted, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    @idempotent()
    def finalize(self, request: Request, pk: UUID) -> Response:
        """Give the drafts of a run their numbers; a final invoice is answered as it is."""
        self.read(EmptySerializer, request)
        invoice = access_invoice(self.actor, pk, WRITE_INVOICE)
        finalized = finalize_invoice(
            invoice_id=invoice.pk,
            actor=self.actor,
            at=self.at,
            terms=invoice_terms(),
            expected_version=expected_version(request),
        )
        return self.answer(finalized)

    @extend_schema(request=VoidInputSerializer)
    @action(detail=True, methods=["post"])
    def void(self, request: Request, pk: UUID) -> Response:
        """Draft the credit note in full, which is answered, and the invoice that replaces it."""
        fields = self.read(VoidInputSerializer, request)
        invoice = access_invoice(self.actor, pk, WRITE_INVOICE)
        note, _ = void_invoice(
            invoice_id=invoice.pk,
            reason=fields["reason"],
            actor=self.actor,
            at=self.at,
            terms=invoice_terms(),
        )
        return self.answer(note, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=CreditInputSerializer)
    @action(detail=True, methods=["post"])
    def credit(self, request: Request, pk: UUID) -> Response:
        """Draft a credit note that gives back part of some lines of a final invoice."""
        fields = self.read(CreditInputSerializer, request)
        invoice = access_invoice(self.actor, pk, WRITE_INVOICE)
        note = draft_credit(
            invoice_id=invoice.pk,
            amounts=amounts_of(fields["lines"]),
            reason=fields["reason"],
            actor=self.actor,
            at=self.at,
            terms=invoice_terms(),
        )
        return self.answer(note, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=CreditInputSerializer)
    @action(detail=True, methods=["post"])
    def debit(self, request: Request, pk: UUID) -> Response:
        """Draft a debit note that asks for more on some lines of use of a final invoice."""
        fields = self.read(CreditInputSerializer, request)
        invoice = access_invoice(self.actor, pk, WRITE_INVOICE)
        note = draft_debit(
            invoice_id=invoice.pk,
            amounts=amounts_of(fields["lines"]),
            reason=fields["reason"],
            actor=self.actor,
            at=self.at,
            terms=invoice_terms(),
        )
        return self.answer(note, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=VoidInputSerializer)
    @action(detail=True, methods=["post"], url_path="release-balance")
    def release_balance(self, request: Request, pk: UUID) -> Response:
        """Release the balance owed to the customer that this and other documents carried.

        It becomes a credit, which settles other invoices or is paid back.
        """
        fields = self.read(VoidInputSerializer, request)
        invoice = access_invoice(self.actor, pk, WRITE_INVOICE)
        release_balance(
            invoice_id=invoice.pk, reason=fields["reason"], actor=self.actor, at=self.at
        )
        return self.answer(invoice)

    @extend_schema(responses={204: None})
    @if_match
    def destroy(self, request: Request, pk: UUID) -> Response:
        """Discard a draft."""
        invoice = access_invoice(self.actor, pk, WRITE_INVOICE)
        discard_draft(
            invoice_id=invoice.pk,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(responses={(200, "application/pdf"): OpenApiResponse(OpenApiTypes.BINARY)})
    @action(detail=True, methods=["get"])
    @may_conflict
    def pdf(self, request: Request, pk: UUID) -> HttpResponse:  # noqa: ARG002 - DRF's signature.
        """Return the invoice as PDF/A; the same bytes every time."""
        invoice = access_invoice(self.actor, pk, READ_INVOICE)
        content = file_of(invoice, kind=FileKind.PDF, render=render_document, at=self.at)
        return _attachment(content, invoice.document, kind=PDF, suffix="pdf")

    @extend_schema(
        operation_id="get_invoice_e_invoice",
        parameters=[EInvoiceQuerySerializer],
        responses={(200, "application/xml"): OpenApiResponse(OpenApiTypes.STR)},
    )
    @action(detail=True, methods=["get"], url_path="e-invoice")
    @may_conflict
    def e_invoice(self, request: Request, pk: UUID) -> HttpResponse:
        """Return the e-invoice of a final document, in CII or UBL; the same bytes every time."""
        query = EInvoiceQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        syntax = EInvoiceSyntax(query.validated_data["syntax"])
        invoice = access_invoice(self.actor, pk, READ_INVOICE)
        content, suffix = e_invoice(invoice, syntax), f"{syntax}.xml"
        return _attachment(content, invoice.document, kind="application/xml", suffix=suffix)

    @extend_schema(
        operation_id="get_invoice_usage_annex",
        responses={(200, "application/pdf"): OpenApiResponse(OpenApiTypes.BINARY)},
    )
    @action(detail=True, methods=["get"], url_path="usage-annex")
    @may_conflict
    def usage_annex(self, request: Request, pk: UUID) -> HttpResponse:  # noqa: ARG002 - As above.
        """Return as PDF what each person used of each line of a final invoice."""
        invoice = access_invoice(self.actor, pk, READ_INVOICE)
        access_payer(self.actor, invoice.organization_id, READ_CHARGE)
        document = usage_annex(invoice, is_on=settings.USAGE_ANNEX)
        return _attachment(render_usage_annex(document), document, kind=PDF, suffix="annex.pdf")

    @extend_schema(responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)})
    @action(detail=True, methods=["get"])
    def csv(self, request: Request, pk: UUID) -> HttpResponse:  # noqa: ARG002 - As above.
        """Return the invoice's lines as CSV; the same bytes every time."""
        document = access_invoice(self.actor, pk, READ_INVOICE).document
        return _attachment(render_csv(document), document, kind=CSV, suffix="csv")


def _attachment(
    content: bytes, document: dict[str, Any], *, kind: str, suffix: str
) -> HttpResponse:
    return attachment(content, f"{file_name_of(document)}.{suffix}", kind=kind)
