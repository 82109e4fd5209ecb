"""/api/v1/capacity-records/: what nodes offered, against what was billed, held and idle of it."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin

from metering.access import capacity_visible_to
from metering.api.usage_records import SIZE_CHOICES
from metering.models import CapacityRecord
from tenants.api.filters import IntegerFilter, StrictFilterSet
from tenants.api.views import LedgerViewSet


class CapacityRecordSerializer(serializers.ModelSerializer[CapacityRecord]):
    """One node's one resource in one hour: capacity = billed + held + idle."""

    window = serializers.IntegerField(source="window_id", read_only=True)
    cluster = serializers.UUIDField(source="cluster_id", read_only=True)

    class Meta:
        model = CapacityRecord
        fields = (
            "id",
            "window",
            "window_start",
            "cluster",
            "node",
            "resource",
            "size",
            "price_group",
            "share_numerator",
            "share_denominator",
            "allocatable_units",
            "capacity_unit_seconds",
            "billed_unit_seconds",
            "held_unit_seconds",
            "idle_unit_seconds",
        )
        read_only_fields = fields


class CapacityRecordFilter(StrictFilterSet):
    """Which records are listed."""

    cluster = filters.UUIDFilter(field_name="cluster_id")
    window = IntegerFilter(field_name="window_id")
    node = filters.CharFilter()
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")


class CapacityRecordViewSet(ListModelMixin, LedgerViewSet):
    """Capacity records, latest hour first."""

    serializer_class = CapacityRecordSerializer
    filterset_class = CapacityRecordFilter
    ordering = ("-window_start", "-pk")

    def get_queryset(self) -> QuerySet[CapacityRecord]:
        """Return the capacity records the caller sees."""
        return capacity_visible_to(self.actor)
