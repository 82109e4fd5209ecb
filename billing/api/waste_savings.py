"""/api/v1/waste-savings/: waste findings with what they cost, those that save most first."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin

from billing.access import savings_visible_to
from billing.api.money import MoneySerializer
from billing.domain.document import amount_text
from billing.domain.money import Money
from billing.selectors.waste import money_of, with_money
from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteRule
from tenants.api.filters import StrictFilterSet
from tenants.api.views import LedgerViewSet

STATE_CHOICES = [(state, state) for state in ("open", "closed", "dismissed")]


class WasteSavingSerializer(serializers.Serializer[Any]):
    """A waste finding with money at the prices in force; null where nobody can say."""

    finding = serializers.IntegerField(source="pk")
    cluster = serializers.UUIDField(source="cluster_id")
    organization = serializers.UUIDField(source="organization_id")
    project = serializers.UUIDField(source="project_id")
    owner = serializers.CharField()
    namespace = serializers.CharField()
    pod_name = serializers.CharField()
    rule = serializers.CharField()
    state = serializers.CharField()
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()
    units = serializers.IntegerField()
    size = serializers.CharField()
    price_group = serializers.CharField()
    suggested_units = serializers.IntegerField()
    suggested_size = serializers.CharField()
    suggested_price_group = serializers.CharField()
    wasted_unit_seconds = serializers.IntegerField(
        source="known_wasted_unit_seconds",
        allow_null=True,
        help_text="Null where no memory figure says whether something smaller would do.",
    )
    lost = serializers.SerializerMethodField()
    monthly_saving = serializers.SerializerMethodField()

    @extend_schema_field(MoneySerializer(allow_null=True))
    def get_lost(self, finding: Any) -> dict[str, str] | None:  # noqa: ANN401 - An annotated row.
        """Return what was paid so far for what the suggestion would not have taken."""
        return _text(money_of(finding).lost)

    @extend_schema_field(MoneySerializer(allow_null=True))
    def get_monthly_saving(self, finding: Any) -> dict[str, str] | None:  # noqa: ANN401 - As above.
        """Return what a month of 730 hours would save."""
        return _text(money_of(finding).monthly)


class WasteSavingFilter(StrictFilterSet):
    """Which findings are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    owner = filters.CharFilter()
    rule = filters.ChoiceFilter(choices=[(rule.value, rule.value) for rule in WasteRule])
    state = filters.ChoiceFilter(choices=STATE_CHOICES)
    size = filters.ChoiceFilter(choices=[(size.value, size.value) for size in GPUSize])


class WasteSavingViewSet(ListModelMixin, LedgerViewSet):
    """Waste in money."""

    serializer_class = WasteSavingSerializer
    filterset_class = WasteSavingFilter
    ordering = ("-money_order", "-pk")

    def get_queryset(self) -> QuerySet[Any]:
        """Return the findings of the projects whose usage and charges the caller reaches."""
        return with_money(savings_visible_to(self.actor), at=self.at)


def _text(money: Money | None) -> dict[str, str] | None:
    if money is None:
        return None
    return {"amount": amount_text(money), "currency": money.currency}
