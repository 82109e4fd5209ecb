"""/api/v1/billing-periods/: months, what they cost to date, and the steps to close them."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_PERIOD,
    WRITE_INVOICE,
    WRITE_PERIOD,
    access_payer,
    access_period,
    periods_visible_to,
)
from billing.adapters.terms import invoice_terms
from billing.api.money import MoneyValueField, UnitPriceField
from billing.domain.documents.invoicing import Line, LineKind, total_of
from billing.models import BillingPeriod, PeriodState
from billing.selectors.documents.previews import preview_lines
from billing.services.closing import approve_period, reopen_period, review_period
from billing.services.periods import open_period
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet


class PeriodSerializer(serializers.ModelSerializer[BillingPeriod]):
    """A month of an organization's zone, as the UTC hours [begin_at, end_at)."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    begin_at = serializers.DateTimeField(source="hours.lower", read_only=True)
    end_at = serializers.DateTimeField(source="hours.upper", read_only=True)

    class Meta:
        model = BillingPeriod
        fields = (
            "id",
            "organization",
            "label",
            "begin_at",
            "end_at",
            "state",
            "reviewed_by",
            "reviewed_at",
            "acknowledgement",
            "approved_by",
            "approved_at",
            "created_at",
            "closed_at",
        )
        read_only_fields = fields


class ReviewInputSerializer(StrictSerializer):
    """Why the cost is right, where it is many times the usual."""

    acknowledgement = serializers.CharField(max_length=500, required=False, default="")


class ReopenInputSerializer(StrictSerializer):
    """Why a month is opened again."""

    reason = serializers.CharField(max_length=500)


class PeriodInputSerializer(StrictSerializer):
    """A month to open."""

    organization = serializers.UUIDField()
    label = serializers.CharField(  # type: ignore[assignment]
        max_length=7, help_text='Such as "2026-10".'
    )


class PeriodFilter(StrictFilterSet):
    """Which periods are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    label = filters.CharFilter()
    state = filters.ChoiceFilter(choices=PeriodState.choices)


class MonthPreviewLineSerializer(serializers.Serializer[Line]):
    """A line of the month's document as it would be drafted now; see the lines of invoices."""

    project = serializers.UUIDField(source="project_id")
    size = serializers.CharField()
    price_group = serializers.CharField()
    description = serializers.CharField()
    unit_seconds = serializers.IntegerField()
    unit_price = UnitPriceField(currency_source="amount.currency")
    amount = MoneyValueField()
    kind = serializers.ChoiceField(choices=[*LineKind])


class MonthPreviewSerializer(serializers.Serializer[dict[str, Any]]):
    """What a month costs to date, net, with the lines of its document."""

    total = MoneyValueField()
    lines = MonthPreviewLineSerializer(many=True)


class BillingPeriodViewSet(ReadingViewSet):
    """Billing periods."""

    serializer_class = PeriodSerializer
    filterset_class = PeriodFilter
    orderings = ("label",)

    def get_queryset(self) -> QuerySet[BillingPeriod]:
        """Return the periods of the organizations the caller does the billing of, or audits."""
        return periods_visible_to(self.actor)

    def get_one(self, pk: UUID) -> BillingPeriod:
        """Return one period."""
        return access_period(self.actor, pk, READ_PERIOD)

    @extend_schema(request=PeriodInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Open a month, or return it if it is there."""
        fields = self.read(PeriodInputSerializer, request)
        opened = open_period(
            organization=access_payer(self.actor, fields["organization"], WRITE_PERIOD),
            label=fields["label"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(opened, status_code=status.HTTP_201_CREATED)

    @extend_schema(responses=MonthPreviewSerializer)
    @action(detail=True, methods=["get"])
    def preview(self, request: Request, pk: UUID) -> Response:
        """Return what the month costs by the charges of now, tiers included; nothing is written."""
        del request
        period = access_period(self.actor, pk, READ_PERIOD)
        lines = preview_lines([period])[period.pk]
        total = total_of(lines, currency=period.organization.billing_currency)
        return Response(MonthPreviewSerializer({"total": total, "lines": lines}).data)

    @extend_schema(request=ReviewInputSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def review(self, request: Request, pk: UUID) -> Response:
        """Draft the month and send it to review: it takes no more charges."""
        fields = self.read(ReviewInputSerializer, request)
        period = access_period(self.actor, pk, WRITE_INVOICE)
        reviewed = review_period(
            period_id=period.pk,
            actor=self.actor,
            at=self.at,
            terms=invoice_terms(),
            acknowledgement=fields["acknowledgement"],
        )
        return self.answer(reviewed)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: UUID) -> Response:
        """Approve a month in review, as another person than sent it there."""
        self.read(EmptySerializer, request)
        period = access_period(self.actor, pk, WRITE_INVOICE)
        approved = approve_period(
            period_id=period.pk, actor=self.actor, at=self.at, terms=invoice_terms()
        )
        return self.answer(approved)

    @extend_schema(request=ReopenInputSerializer)
    @action(detail=True, methods=["post"])
    def reopen(self, request: Request, pk: UUID) -> Response:
        """Open a month in review, or approved, again: review and approval are dropped."""
        fields = self.read(ReopenInputSerializer, request)
        period = access_period(self.actor, pk, WRITE_INVOICE)
        opened = reopen_period(
            period_id=period.pk, reason=fields["reason"], actor=self.actor, at=self.at
        )
        return self.answer(opened)
