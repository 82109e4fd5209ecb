"""/api/v1/invoices/{id}/lines/, invoice-lines/ and invoice-parts/: lines, their days and sums."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_INVOICE,
    access_invoice,
    access_line,
    charges_visible_to,
    lines_visible_to,
)
from billing.api.money import MoneyField, MoneyValueField, UnitPriceField
from billing.domain.documents.document import unit_hours_text
from billing.domain.documents.invoicing import InvoiceState
from billing.models import InvoiceLine
from billing.models.invoice import KIND_CHOICES
from billing.selectors.documents.invoices import (
    ProjectPart,
    first_lines_of_parts,
    project_parts,
)
from billing.selectors.documents.line_charges import LineDay, days_of_line, price_spans
from tenants.api.filters import StrictFilterSet
from tenants.api.views import LedgerViewSet


class InvoiceLineSerializer(serializers.ModelSerializer[InvoiceLine]):
    """One project's use of one size and device share at one price, or the discount of a tier."""

    project = serializers.UUIDField(source="project_id", read_only=True)
    unit_price = UnitPriceField(currency_source="invoice.currency")
    amount = MoneyField(currency_source="invoice.currency")
    tier_schedule = serializers.UUIDField(
        source="tier_schedule_id", read_only=True, allow_null=True
    )
    unit_hours = serializers.SerializerMethodField()

    class Meta:
        model = InvoiceLine
        fields = (
            "id",
            "position",
            "project",
            "size",
            "price_group",
            "description",
            "unit_seconds",
            "unit_hours",
            "unit_price",
            "amount",
            "kind",
            "tier_schedule",
            "tier_band",
            "tier_span",
        )
        read_only_fields = fields

    def get_unit_hours(self, line: InvoiceLine) -> str:
        """Return the quantity in unit-hours; `unit_seconds` is the exact one."""
        return unit_hours_text(line.unit_seconds)


class LineDaySerializer(serializers.Serializer[Any]):
    """What a line has of one day; its charges are `charges/?line=&day=`."""

    day = serializers.DateField(help_text="In the time zone of the organization.")
    charges = serializers.IntegerField()
    unit_seconds = serializers.IntegerField()
    unit_hours = serializers.SerializerMethodField()
    cost = MoneyValueField(help_text="Of this day alone, rounded; the line rounds all days once.")

    def get_unit_hours(self, day: LineDay) -> str:
        """Return the quantity in unit-hours; `unit_seconds` is the exact one."""
        return unit_hours_text(day.unit_seconds)


class PriceSpanSerializer(serializers.Serializer[Any]):
    """The days on which one price of what a line is about was charged."""

    unit_price = serializers.DecimalField(
        max_digits=20, decimal_places=10, help_text="Per unit-hour, in the document's currency."
    )
    first_day = serializers.DateField(help_text="In the time zone of the organization.")
    last_day = serializers.DateField()
    unit_seconds = serializers.IntegerField()


class InvoicePartSerializer(serializers.Serializer[ProjectPart]):
    """What a project has of a final document: its lines, and their sum net of tax."""

    invoice = serializers.UUIDField(source="invoice.pk")
    reference = serializers.CharField(source="invoice.reference")
    kind = serializers.ChoiceField(choices=KIND_CHOICES, source="invoice.kind")
    period_label = serializers.CharField(
        source="invoice.period.label", help_text="The month that it bills, such as 2026-10."
    )
    finalized_at = serializers.DateTimeField(source="invoice.finalized_at")
    organization = serializers.UUIDField(source="invoice.organization_id")
    project = serializers.UUIDField(source="project_id")
    lines = serializers.IntegerField(help_text="`invoices/{id}/lines/?project=` lists them.")
    amount = MoneyValueField(help_text="Net of tax.")


class InvoicePartFilter(StrictFilterSet):
    """Which parts are listed."""

    organization = filters.UUIDFilter(field_name="invoice__organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    invoice = filters.UUIDFilter(field_name="invoice_id")
    period_label = filters.CharFilter(field_name="invoice__period__label")


class InvoicePartViewSet(LedgerViewSet):
    """Parts of final documents by project, for readers of its charges."""

    serializer_class = InvoicePartSerializer
    filterset_class = InvoicePartFilter
    ordering = ("-invoice_id", "pk")

    def get_queryset(self) -> QuerySet[InvoiceLine]:
        """Return the lines of final documents that the caller reads."""
        return lines_visible_to(self.actor).filter(invoice__state=InvoiceState.FINAL)

    def list(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature.
        """List what each project has of final documents, the newest first."""
        lines = self.filter_queryset(self.get_queryset())
        page = self.paginate_queryset(first_lines_of_parts(lines)) or []
        shown = lines.filter(invoice__in={line.invoice_id for line in page})
        by_key = {(part.invoice.pk, part.project_id): part for part in project_parts(shown)}
        parts = [by_key[line.invoice_id, line.project_id] for line in page]
        return self.get_paginated_response(self.get_serializer(parts, many=True).data)


class InvoiceLineFilter(StrictFilterSet):
    """Which lines of a document are listed."""

    project = filters.UUIDFilter(field_name="project_id")


class InvoiceLineViewSet(LedgerViewSet):
    """Lines of invoices, credit and debit notes."""

    serializer_class = InvoiceLineSerializer
    filterset_class = InvoiceLineFilter
    ordering = ("position",)

    def get_queryset(self) -> QuerySet[Any]:
        """Return the lines of the invoices that the caller reads, and its projects' parts."""
        return lines_visible_to(self.actor)

    def retrieve(self, request: Request, pk: UUID) -> Response:  # noqa: ARG002 - DRF's signature.
        """Return one line."""
        return self.answer(access_line(self.actor, pk))

    @extend_schema(operation_id="list_invoice_lines", responses=InvoiceLineSerializer(many=True))
    def of_invoice(self, request: Request, pk: UUID) -> Response:  # noqa: ARG002 - As above.
        """Return the lines of a document, as it prints them.

        A caller with the charges of a project, and without its organization's invoices, is shown
        that project's part of final documents: send `project`.
        """
        lines = self.filter_queryset(self.get_queryset().filter(invoice=pk))
        if not (self.request.query_params.get("project") and lines.exists()):
            access_invoice(self.actor, pk, READ_INVOICE)
        page = self.paginate_queryset(lines)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(responses=LineDaySerializer(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def days(self, request: Request, pk: UUID) -> Response:  # noqa: ARG002 - As above.
        """Return the days that a line of use adds up, of a draft as they are charged now.

        Lines without quantity, and those of credit and debit notes, have none.
        """
        days = days_of_line(charges_visible_to(self.actor), access_line(self.actor, pk))
        return Response(LineDaySerializer(days, many=True).data)

    @extend_schema(responses=PriceSpanSerializer(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def prices(self, request: Request, pk: UUID) -> Response:  # noqa: ARG002 - DRF's signature.
        """Return each price of what a line is about in its month, with the days it was charged on.

        Several where the price changed; lines without quantity, and those of notes, have none.
        """
        spans = price_spans(charges_visible_to(self.actor), access_line(self.actor, pk))
        return Response(PriceSpanSerializer(spans, many=True).data)
