"""/api/v1/usage-records/: what each pod used in each hour. Read only, as the table itself."""

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import access_usage_record, usage_visible_to
from metering.api.explanations import StepSerializer
from metering.domain.catalogue.units import GPUSize
from metering.models import UsageRecord
from metering.selectors.collection.records import records_added_since, records_of_project
from metering.selectors.explain import explain_record
from tenants.api.filters import IntegerFilter, StrictFilterSet
from tenants.api.serializers import RowSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import require_rows

SIZE_CHOICES = [(size.value, size.value.capitalize()) for size in GPUSize]


class UsageRecordSerializer(RowSerializer[UsageRecord]):
    """One pod's use of one resource in one hour; `unit_seconds` = `units` x `seconds`."""

    window = serializers.IntegerField(source="window_id", read_only=True)
    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    correction = serializers.UUIDField(source="correction_id", read_only=True, allow_null=True)
    busy_ratio = serializers.DecimalField(
        max_digits=7,
        decimal_places=6,
        read_only=True,
        allow_null=True,
    )
    busy_coverage = serializers.DecimalField(
        max_digits=6,
        decimal_places=5,
        read_only=True,
        allow_null=True,
    )
    energy_millijoules = serializers.SerializerMethodField()

    class Meta:
        model = UsageRecord
        fields = (
            "id",
            "window",
            "window_start",
            "cluster",
            "organization",
            "project",
            "owner",
            "namespace",
            "pod_name",
            "pod_uid",
            "resource",
            "revision",
            "correction",
            "node",
            "size",
            "price_group",
            "sharing_mode",
            "share_numerator",
            "share_denominator",
            "units",
            "begin_at",
            "end_at",
            "seconds",
            "unit_seconds",
            "end_kind",
            "slack_seconds",
            "catalogue_version",
            "busy_ratio",
            "busy_coverage",
            "energy_millijoules",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_energy_millijoules(self, record: UsageRecord) -> int | None:
        """Return the energy of the hour, once: corrections repeat the activity of their record."""
        activity = record.activity if record.revision == 0 else None
        return activity.energy_millijoules if activity else None


class UsageRecordFilter(StrictFilterSet):
    """Which records are listed; the range is over the starts of their hours."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(method="filter_project")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    owner = filters.CharFilter()
    namespace = filters.CharFilter()
    pod_uid = filters.CharFilter()
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    price_group = filters.CharFilter()
    revision = IntegerFilter()
    correction = filters.UUIDFilter(field_name="correction_id")
    updated_from = filters.IsoDateTimeFilter(
        method="filter_updated",
        help_text="Only records sealed with their hour, or posted by a correction, at this time "
        "or since; sealed records never change, and those of an open hour are left out.",
    )
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")

    def filter_queryset(self, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        """Return the records of a range, none of which is archived.

        Raises:
            MonthArchivedError: A month of the range is in an archive.
        """
        begin_at = self.form.cleaned_data.get("window_start_from")
        end_at = self.form.cleaned_data.get("window_start_before")
        if begin_at or end_at:
            require_rows(ArchivedTable.USAGE, begin_at=begin_at, end_at=end_at)
        rows: QuerySet[UsageRecord] = super().filter_queryset(queryset)
        return rows

    def filter_project(
        self,
        rows: QuerySet[UsageRecord],
        name: str,  # noqa: ARG002 - As django-filter calls it.
        value: UUID,
    ) -> QuerySet[UsageRecord]:
        """Return the records of a project."""
        return records_of_project(rows, value)

    def filter_updated(
        self,
        rows: QuerySet[UsageRecord],
        name: str,  # noqa: ARG002 - As django-filter calls it.
        value: datetime,
    ) -> QuerySet[UsageRecord]:
        """Return the records that were added to the ledger for good at a time or since."""
        return records_added_since(rows, value)


class UsageRecordViewSet(ReadingViewSet):
    """Usage records, latest hour first."""

    serializer_class = UsageRecordSerializer
    filterset_class = UsageRecordFilter
    ordering = ("-window_start", "-fact_id", "-revision", "-pk")
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[UsageRecord]:
        """Return the usage of the projects the caller reaches."""
        return usage_visible_to(self.actor)

    def get_one(self, pk: int) -> UsageRecord:
        """Return one record."""
        return access_usage_record(self.actor, pk)

    @extend_schema(responses=StepSerializer(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def explain(self, request: Request, pk: int) -> Response:  # noqa: ARG002 - DRF's signature.
        """Return the way back from a record to its evidence, step by step."""
        steps = explain_record(access_usage_record(self.actor, pk))
        return Response(StepSerializer(steps, many=True).data)
