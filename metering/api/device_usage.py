"""/api/v1/device-usage/: what each device did in each hour, and which pods its figures cover.

/api/v1/reports/unbilled-devices/: which devices and allocations no usage record covers.
"""

from datetime import timedelta
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import READ_CAPACITY, device_usage_visible_to
from metering.api.device_sharing import csv_response
from metering.api.usage_records import SIZE_CHOICES
from metering.domain.devices.figures import Attribution
from metering.domain.devices.unbilled import CAUSE_WORDS, NOTES, UnbilledCause
from metering.domain.errors import UnbilledRangeError
from metering.models import DeviceUsage
from metering.selectors.devices.sharing import cluster_of_report
from metering.selectors.devices.unbilled import (
    UnbilledDevice,
    UnbilledReport,
    unbilled_devices,
)
from tenants.access import require_capability
from tenants.api.filters import IntegerFilter, StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.domain.archives import ArchivedTable
from tenants.domain.errors import InvalidInputError
from tenants.selectors.archives import require_rows

ATTRIBUTION_CHOICES = [(kind.value, kind.value) for kind in Attribution]
SPAN_MAX: Final = timedelta(days=31)
ROWS_MAX: Final = 10_000
UNBILLED_COLUMNS: Final = (
    "window_start",
    "cluster",
    "node",
    "cause",
    "uuid",
    "instance_id",
    "namespace",
    "pod_name",
    "pod_uid",
    "resource",
    "seconds",
    "busy_ratio",
    "exception",
)


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
    window = IntegerFilter(field_name="window_id")
    node = filters.CharFilter()
    uuid = filters.CharFilter()
    pod_uid = filters.CharFilter()
    attribution = filters.ChoiceFilter(choices=ATTRIBUTION_CHOICES)
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")

    def filter_queryset(self, queryset: QuerySet[DeviceUsage]) -> QuerySet[DeviceUsage]:
        """Return the rows of a range, none of which is archived.

        Raises:
            MonthArchivedError: A month of the range is in an archive.
        """
        begin_at = self.form.cleaned_data.get("window_start_from")
        end_at = self.form.cleaned_data.get("window_start_before")
        if begin_at or end_at:
            require_rows(ArchivedTable.DEVICES, begin_at=begin_at, end_at=end_at)
        rows: QuerySet[DeviceUsage] = super().filter_queryset(queryset)
        return rows


class DeviceUsageViewSet(ListModelMixin, LedgerViewSet):
    """Device usage, latest hour first."""

    serializer_class = DeviceUsageSerializer
    filterset_class = DeviceUsageFilter
    ordering = ("-window_start", "-pk")

    def get_queryset(self) -> QuerySet[DeviceUsage]:
        """Return the device usage the caller sees."""
        return device_usage_visible_to(self.actor)


class UnbilledQuerySerializer(StrictSerializer):
    """Which hours, and where."""

    to = serializers.DateTimeField(help_text="End of the last hour, excluded.")
    cluster = serializers.CharField(
        required=False, default="", max_length=63, help_text="Its slug; every one without it."
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; `from` is a word of Python's own."""
        begin = serializers.DateTimeField(help_text="Start of the first hour.")
        return {"from": begin, **super().get_fields()}


class UnbilledDeviceSerializer(serializers.Serializer[UnbilledDevice]):
    """One device, or one allocation, in one sealed hour without a usage record."""

    window_start = serializers.DateTimeField()
    cluster = serializers.CharField()
    node = serializers.CharField()
    cause = serializers.CharField(help_text=", ".join(UnbilledCause))
    uuid = serializers.CharField(help_text='"" where only the allocation is known.')
    instance_id = serializers.CharField()
    namespace = serializers.CharField()
    pod_name = serializers.CharField()
    pod_uid = serializers.CharField()
    resource = serializers.CharField()
    seconds = serializers.IntegerField(help_text="How long in that hour.")
    busy_ratio = serializers.DecimalField(7, 6, allow_null=True)
    exception = serializers.CharField(help_text='Kind of the open exception; "" for none.')


class UnbilledReportSerializer(serializers.Serializer[UnbilledReport]):
    """The rows, what their causes mean, and where nothing is known about devices."""

    results = UnbilledDeviceSerializer(many=True, source="rows")
    hours_without_device_figures = serializers.DictField(
        child=serializers.IntegerField(), source="unknown_hours", help_text="By cluster."
    )
    causes = serializers.DictField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField())


class UnbilledDevicesViewSet(LedgerViewSet):
    """Devices in use that are on no bill, for people of the platform."""

    @extend_schema(
        operation_id="get_unbilled_devices",
        parameters=[UnbilledQuerySerializer],
        responses=UnbilledReportSerializer,
    )
    def report(self, request: Request) -> Response:
        """Return what was in use without a usage record, by hour and node."""
        found = self._find(request)
        answer = {
            "rows": found.rows,
            "unknown_hours": found.unknown_hours,
            "causes": dict(CAUSE_WORDS),
            "notes": NOTES,
        }
        return Response(UnbilledReportSerializer(answer).data)  # type: ignore[arg-type]

    @extend_schema(
        operation_id="download_unbilled_devices",
        parameters=[UnbilledQuerySerializer],
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)},
    )
    def csv(self, request: Request) -> HttpResponse:
        """Return the same rows as CSV."""
        # The stubs know no `many`: what they take for one row is a list of them.
        rows = UnbilledDeviceSerializer(self._find(request).rows, many=True).data  # type: ignore[arg-type]
        return csv_response(rows, columns=UNBILLED_COLUMNS, filename="unbilled-devices.csv")

    def _find(self, request: Request) -> UnbilledReport:
        require_capability(self.actor, READ_CAPACITY)
        query = UnbilledQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        asked = dict(query.validated_data)
        if not timedelta(0) < asked["to"] - asked["from"] <= SPAN_MAX:
            raise UnbilledRangeError("The range is empty or too long.", field="to")
        cluster_id = None
        if asked["cluster"]:
            cluster_id = cluster_of_report(asked["cluster"], projects=None)
            if cluster_id is None:
                raise InvalidInputError(
                    "There is no such cluster.",
                    field="cluster",
                    remedy="Name a cluster by its slug.",
                )
        found = unbilled_devices(
            begin_at=asked["from"], end_at=asked["to"], limit=ROWS_MAX + 1, cluster_id=cluster_id
        )
        if len(found.rows) > ROWS_MAX:
            raise UnbilledRangeError(f"There are more than {ROWS_MAX} rows.", field="to")
        return found
