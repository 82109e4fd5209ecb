"""Endpoints /api/v1/tax-rates/ and tax-treatments/: published from a day on, and withdrawn."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    WRITE_PRICE,
    access_payer,
    access_tax_rate,
    access_tax_rate_to_write,
    access_tax_treatment,
    access_tax_treatment_to_write,
    tax_rates_visible_to,
    tax_treatments_visible_to,
)
from billing.api.pricing.price_books import WithdrawalSerializer
from billing.domain.documents.taxes import EXEMPTION_LENGTH_MAX, TaxTerms
from billing.models import TaxRate, TaxTreatment
from billing.services.taxes import (
    set_tax_rate,
    set_tax_treatment,
    withdraw_tax_rate,
    withdraw_tax_treatment,
)
from tenants.access import require_capability
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class TaxRateSerializer(serializers.ModelSerializer[TaxRate]):
    """The rate of a category in a country, in percent, for tax points from `valid_from` on."""

    class Meta:
        model = TaxRate
        fields = (
            "id",
            "country",
            "category",
            "rate",
            "exemption_text",
            "valid_from",
            "published_at",
            "withdrawn_at",
        )
        read_only_fields = fields


class TaxRateInputSerializer(StrictSerializer):
    """A rate for tax points from a day on, up to the first day of the next one."""

    country = serializers.CharField(max_length=2, help_text="ISO 3166-1 alpha-2.")
    category = serializers.CharField(max_length=2, help_text="UNCL 5305: S, Z, E, AE or O.")
    rate = serializers.DecimalField(
        max_digits=7, decimal_places=4, help_text="Percent; 0 for all but S."
    )
    exemption_text = serializers.CharField(
        max_length=EXEMPTION_LENGTH_MAX,
        default="",
        allow_blank=True,
        help_text="Printed on documents of E, AE and O, which need it.",
    )
    valid_from = serializers.DateField()


class TaxFilter(StrictFilterSet):
    """Which tax rates or treatments are listed."""

    country = filters.CharFilter()
    category = filters.CharFilter()
    is_withdrawn = filters.BooleanFilter(
        field_name="withdrawn_at", lookup_expr="isnull", exclude=True
    )


class TaxRateViewSet(ReadingViewSet):
    """Tax rates."""

    serializer_class = TaxRateSerializer
    filterset_class = TaxFilter

    def get_queryset(self) -> QuerySet[TaxRate]:
        """Return the tax rates the caller sees."""
        return tax_rates_visible_to(self.actor)

    def get_one(self, pk: UUID) -> TaxRate:
        """Return one tax rate."""
        return access_tax_rate(self.actor, pk)

    @extend_schema(request=TaxRateInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Set the rate of a category in a country from a day on."""
        fields = self.read(TaxRateInputSerializer, request)
        require_capability(self.actor, WRITE_PRICE)
        valid_from = fields.pop("valid_from")
        made = set_tax_rate(
            terms=TaxTerms(**fields), valid_from=valid_from, actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw a tax rate; the one before it goes on, and final invoices stay as they are."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_tax_rate_to_write(self.actor, pk)
        done = withdraw_tax_rate(rate_id=found.pk, reason=reason, actor=self.actor, at=self.at)
        return self.answer(done)


class TaxTreatmentSerializer(serializers.ModelSerializer[TaxTreatment]):
    """How an organization is taxed for tax points from `valid_from` on."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = TaxTreatment
        fields = (
            "id",
            "organization",
            "country",
            "category",
            "valid_from",
            "published_at",
            "withdrawn_at",
        )
        read_only_fields = fields


class TaxTreatmentInputSerializer(StrictSerializer):
    """How an organization is taxed from a day on, up to the first day of the next treatment."""

    organization = serializers.UUIDField()
    country = serializers.CharField(max_length=2, help_text="ISO 3166-1 alpha-2.")
    category = serializers.CharField(max_length=2, help_text="UNCL 5305: S, Z, E, AE or O.")
    valid_from = serializers.DateField()


class TaxTreatmentFilter(TaxFilter):
    """Which tax treatments are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")


class TaxTreatmentViewSet(ReadingViewSet):
    """Tax treatments of organizations."""

    serializer_class = TaxTreatmentSerializer
    filterset_class = TaxTreatmentFilter

    def get_queryset(self) -> QuerySet[TaxTreatment]:
        """Return the treatments of the organizations whose prices the caller reads."""
        return tax_treatments_visible_to(self.actor)

    def get_one(self, pk: UUID) -> TaxTreatment:
        """Return one tax treatment."""
        return access_tax_treatment(self.actor, pk)

    @extend_schema(request=TaxTreatmentInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Tax an organization by a country and category from a day on."""
        fields = self.read(TaxTreatmentInputSerializer, request)
        payer = access_payer(self.actor, fields.pop("organization"), WRITE_PRICE)
        made = set_tax_treatment(organization=payer, **fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw a tax treatment; the one before it goes on, final invoices stay as they are."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_tax_treatment_to_write(self.actor, pk)
        done = withdraw_tax_treatment(
            treatment_id=found.pk, reason=reason, actor=self.actor, at=self.at
        )
        return self.answer(done)
