"""Endpoint /api/v1/minimum-charges/: what organizations pay for a month at least."""

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
    access_minimum,
    access_minimum_to_write,
    access_payer,
    minimums_visible_to,
)
from billing.api.money import MoneyField
from billing.api.pricing.price_books import WithdrawalSerializer
from billing.domain.pricing.minimum import MinimumRule
from billing.models import MinimumCharge
from billing.services.pricing.minimums import publish_minimum, withdraw_minimum
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class MinimumChargeSerializer(serializers.ModelSerializer[MinimumCharge]):
    """What an organization pays for a month at least, net, from month to month."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    amount = MoneyField()
    replaces = serializers.UUIDField(source="replaces_id", read_only=True, allow_null=True)

    class Meta:
        model = MinimumCharge
        fields = (
            "id",
            "organization",
            "amount",
            "first_month",
            "last_month",
            "published_at",
            "withdrawn_at",
            "replaces",
            "superseded_from",
        )
        read_only_fields = fields


class MinimumChargeInputSerializer(StrictSerializer):
    """A new minimum charge of an organization, in its billing currency."""

    organization = serializers.UUIDField()
    amount = serializers.DecimalField(
        max_digits=20, decimal_places=4, help_text="Net, for each month; 0 ends the replaced one."
    )
    first_month = serializers.CharField(max_length=7, help_text='Such as "2027-01".')
    last_month = serializers.CharField(
        required=False, default="", max_length=7, allow_blank=True, help_text="Open without it."
    )
    replaces = serializers.UUIDField(
        required=False, default=None, help_text="The one in force, from `first_month` on."
    )
    reason = serializers.CharField(required=False, default="", max_length=500)


class MinimumChargeFilter(StrictFilterSet):
    """Which minimum charges are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    is_withdrawn = filters.BooleanFilter(
        field_name="withdrawn_at", lookup_expr="isnull", exclude=True
    )


class MinimumChargeViewSet(ReadingViewSet):
    """Minimum charges of organizations."""

    serializer_class = MinimumChargeSerializer
    filterset_class = MinimumChargeFilter

    def get_queryset(self) -> QuerySet[MinimumCharge]:
        """Return those of the organizations whose prices the caller reads."""
        return minimums_visible_to(self.actor)

    def get_one(self, pk: UUID) -> MinimumCharge:
        """Return one minimum charge."""
        return access_minimum(self.actor, pk)

    @extend_schema(request=MinimumChargeInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Publish a minimum charge, which may replace another one from a month on."""
        fields = self.read(MinimumChargeInputSerializer, request)
        payer = access_payer(self.actor, fields.pop("organization"), WRITE_PRICE)
        repair = {name: fields.pop(name) for name in ("replaces", "reason")}
        made = publish_minimum(
            organization=payer, rule=MinimumRule(**fields), actor=self.actor, at=self.at, **repair
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw a minimum charge of whose months none is closed."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_minimum_to_write(self.actor, pk)
        done = withdraw_minimum(minimum_id=found.pk, reason=reason, actor=self.actor, at=self.at)
        return self.answer(done)
