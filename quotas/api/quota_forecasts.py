"""/api/v1/quota-forecasts/: when the trend of a project's use reaches its limit."""

from decimal import Decimal
from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import limits_visible_to
from quotas.models import LimitScope, QuotaLimit
from quotas.models.limit import SIZE_CHOICES
from quotas.selectors.exhaustion import LimitForecast, forecasts_of
from tenants.api.filters import StrictFilterSet
from tenants.api.views import LedgerViewSet


class QuotaForecastSerializer(serializers.Serializer[LimitForecast]):
    """What the trend says of one limit."""

    limit = serializers.UUIDField(source="limit.limit_id")
    organization = serializers.UUIDField(source="limit.organization_id")
    project = serializers.UUIDField(source="limit.project_id")
    size = serializers.CharField(source="limit.size.value")
    limit_units = serializers.IntegerField(source="limit.nominal_units")
    outcome = serializers.CharField(source="exhaustion.outcome.value")
    expected_on = serializers.DateField(source="exhaustion.on", allow_null=True)
    weekly_units = serializers.SerializerMethodField()

    def get_weekly_units(self, forecast: LimitForecast) -> str | None:
        """Return how the daily peak grows in a week, to a hundredth of a unit."""
        weekly = forecast.exhaustion.weekly_units
        if weekly is None:
            return None
        return str((Decimal(weekly.numerator) / weekly.denominator).quantize(Decimal("0.01")))


class QuotaForecastFilter(StrictFilterSet):
    """Which limits are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)


class QuotaForecastViewSet(LedgerViewSet):
    """Forecasts of the projects' limits for every model and cluster."""

    serializer_class = QuotaForecastSerializer
    filterset_class = QuotaForecastFilter
    ordering = ("organization_id", "pk")

    def get_queryset(self) -> QuerySet[QuotaLimit]:
        """Return the limits that have a forecast and that the caller may read."""
        return limits_visible_to(self.actor).filter(
            scope=LimitScope.PROJECT, model_group="", cluster=None, limit_units__isnull=False
        )

    @extend_schema(responses=QuotaForecastSerializer(many=True))
    def list(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature.
        """List forecasts, by organization."""
        page: list[Any] = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        forecasts = forecasts_of(page, at=self.at)
        return self.get_paginated_response(self.get_serializer(forecasts, many=True).data)
