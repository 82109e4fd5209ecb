"""/api/v1/device-usage/: what each device did in each hour, and which pods its figures cover."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin

from metering.access import device_usage_visible_to
from metering.api.usage_records import SIZE_CHOICES
from metering.domain.devices.figures import Attribution
from metering.models import DeviceUsage
from tenants.api.filters import StrictFilterSet
from tenants.api.views import LedgerViewSet

ATTRIBUTION_CHOICES = [(kind.value, kind.value) for kind in Attribution]


class DeviceUsageSerializer(serializers.ModelSerializer[DeviceUsage]):
    """One device, or MIG instance, over a stretch; a figure that is null has no data."""

    window = serializers.IntegerField(source="window_id", read_only=True)
    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)

    class Meta:
        model = DeviceUsage
        fields = (
            "id",
            "window",
            "window_start",
            "cluster",
            "node",
            "uuid",
            "model",
            "instance_id",
            "instance_profile",
            "attribution",
            "organization",
            "project",
            "owner",
            "namespace",
            "pod_name",
            "pod_uid",
            "resource",
            "size",
            "price_group",
            "sharing_mode",
            "begin_at",
            "end_at",
            "seconds",
            "busy_ratio",
            "busy_coverage",
            "is_busy_uncertain",
            "sm_active_ratio",
            "sm_active_coverage",
            "tensor_active_ratio",
            "tensor_active_coverage",
            "dram_active_ratio",
            "dram_active_coverage",
            "memory_used_peak_mebibytes",
            "memory_total_mebibytes",
            "memory_coverage",
            "power_mean_milliwatts",
            "power_coverage",
            "energy_millijoules",
            "energy_coverage",
        )
        read_only_fields = fields


class DeviceUsageFilter(StrictFilterSet):
    """Which rows are listed; the range is over the starts of their hours."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    window = filters.NumberFilter(field_name="window_id")
    node = filters.CharFilter()
    uuid = filters.CharFilter()
    pod_uid = filters.CharFilter()
    attribution = filters.ChoiceFilter(choices=ATTRIBUTION_CHOICES)
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")


class DeviceUsageViewSet(ListModelMixin, LedgerViewSet):
    """Device usage, latest hour first."""

    serializer_class = DeviceUsageSerializer
    filterset_class = DeviceUsageFilter
    ordering = ("-window_start", "-pk")

    def get_queryset(self) -> QuerySet[DeviceUsage]:
        """Return the device usage the caller sees."""
        return device_usage_visible_to(self.actor)
