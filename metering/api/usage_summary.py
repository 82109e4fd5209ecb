"""/api/v1/usage-summary/: unit-seconds added up by what the caller asks to tell apart."""

from datetime import timedelta

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from metering.access import READ_USAGE
from metering.domain.errors import SummaryRangeError
from metering.selectors.collection.usage import UsageGroup, UsageTotal, usage_totals
from tenants.access import projects_visible_to
from tenants.api.actors import actor_of_request
from tenants.api.serializers import StrictSerializer

RANGE_MAX = timedelta(days=400)
ROWS_MAX = 10_000
"""A month by hour for a dozen groups; more is a list of records, not a summary."""
GROUP_CHOICES = [(group.value, group.value) for group in UsageGroup]


class UsageSummaryQuerySerializer(StrictSerializer):
    """What to add up, and what to tell apart."""

    window_start_from = serializers.DateTimeField(help_text="First hour, included.")
    window_start_before = serializers.DateTimeField(help_text="End, excluded.")
    group_by = serializers.CharField(
        default="project,size", help_text="Comma-separated: " + ", ".join(UsageGroup)
    )
    organization = serializers.UUIDField(required=False)
    project = serializers.UUIDField(required=False)

    def validate_group_by(self, text: str) -> list[UsageGroup]:
        """Return the groups named, in that order.

        Raises:
            ValidationError: One of them is not known.
        """
        field = serializers.ListField(child=serializers.ChoiceField(choices=GROUP_CHOICES))
        names = field.run_validation([part.strip() for part in text.split(",") if part.strip()])
        return [UsageGroup(name) for name in names]


class UsageTotalSerializer(serializers.Serializer[UsageTotal]):
    """One total; dimensions that it is not grouped by are null."""

    organization = serializers.UUIDField(source="organization_id", allow_null=True)
    project = serializers.UUIDField(source="project_id", allow_null=True)
    owner = serializers.CharField(allow_null=True)
    cluster = serializers.UUIDField(source="cluster_id", allow_null=True)
    size = serializers.CharField(allow_null=True)
    price_group = serializers.CharField(allow_null=True)
    bucket_at = serializers.DateTimeField(allow_null=True)
    records = serializers.IntegerField()
    unit_seconds = serializers.IntegerField()
    busy_ratio = serializers.DecimalField(max_digits=7, decimal_places=6, allow_null=True)
    busy_unit_seconds = serializers.IntegerField()
    energy_millijoules = serializers.IntegerField(allow_null=True)


@extend_schema_serializer(many=False)
class UsageSummarySerializer(serializers.Serializer[object]):
    """The totals, ordered by their groups."""

    totals = UsageTotalSerializer(many=True)


class UsageSummaryViewSet(ViewSet):
    """Usage, added up."""

    @extend_schema(
        operation_id="get_usage_summary",
        summary="Sum up usage",
        parameters=[UsageSummaryQuerySerializer],
        responses=UsageSummarySerializer,
    )
    def list(self, request: Request) -> Response:
        """Return totals of the usage in the projects the caller reaches."""
        query = UsageSummaryQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        begin_at, end_at = asked["window_start_from"], asked["window_start_before"]
        if not timedelta(0) < end_at - begin_at <= RANGE_MAX:
            raise SummaryRangeError("The range is empty or too long.", field="window_start_before")
        totals = usage_totals(
            begin_at=begin_at,
            end_at=end_at,
            group_by=asked["group_by"],
            projects=projects_visible_to(actor_of_request(request), READ_USAGE),
            organization_id=asked.get("organization"),
            project_id=asked.get("project"),
        )
        if len(totals) > ROWS_MAX:
            raise SummaryRangeError("So many totals are not returned at once.", field="group_by")
        return Response(UsageSummarySerializer({"totals": totals}).data)
