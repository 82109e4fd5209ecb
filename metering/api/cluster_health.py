"""/api/v1/cluster-health/: nodes, queue and device errors of each cluster by hour."""

from decimal import ROUND_DOWN, Decimal

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin

from metering.access import health_visible_to
from metering.models import ClusterHealth
from tenants.api.filters import StrictFilterSet
from tenants.api.views import LedgerViewSet

RATIO_STEP = Decimal("0.00001")


class ClusterHealthSerializer(serializers.ModelSerializer[ClusterHealth]):
    """How well a cluster served in one hour; what no source knew is null, never 0."""

    window = serializers.IntegerField(source="window_id", read_only=True)
    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    availability = serializers.SerializerMethodField()

    class Meta:
        model = ClusterHealth
        fields = (
            "window",
            "window_start",
            "cluster",
            "nodes",
            "expected_seconds",
            "ready_seconds",
            "availability",
            "node_source",
            "queued_pods",
            "pending_pods",
            "wait_seconds_p50",
            "wait_seconds_max",
            "memory_errors",
            "failures",
            "devices",
        )
        read_only_fields = fields

    @extend_schema_field({"type": ["string", "null"], "format": "decimal"})
    def get_availability(self, health: ClusterHealth) -> str | None:
        """Return ready over expected seconds, 0 to 1, rounded down."""
        if not health.expected_seconds or health.ready_seconds is None:
            return None
        ratio = Decimal(health.ready_seconds) / health.expected_seconds
        return str(ratio.quantize(RATIO_STEP, rounding=ROUND_DOWN))


class ClusterHealthFilter(StrictFilterSet):
    """Which hours are listed."""

    cluster = filters.UUIDFilter(field_name="cluster_id")
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")


class ClusterHealthViewSet(ListModelMixin, LedgerViewSet):
    """Cluster health, latest hour first."""

    serializer_class = ClusterHealthSerializer
    filterset_class = ClusterHealthFilter
    ordering = ("-window_start", "-pk")

    def get_queryset(self) -> QuerySet[ClusterHealth]:
        """Return the hours the caller sees."""
        return health_visible_to(self.actor)
