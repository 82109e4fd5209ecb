"""/api/v1/waste-findings/: what was held and not used; waste-savings has the money."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import DISMISS_WASTE, READ_WASTE, access_waste, waste_visible_to
from metering.api.usage_records import SIZE_CHOICES
from metering.models import WasteFinding, WasteState
from metering.models.waste import RULE_CHOICES
from metering.services.efficiency.waste import dismiss_finding
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

REASON_LENGTH_MAX = 2_000
FINDING_FIELDS = (
    "id",
    "cluster",
    "organization",
    "project",
    "owner",
    "namespace",
    "pod_name",
    "pod_uid",
    "resource",
    "rule",
    "from_at",
    "until_at",
    "units",
    "size",
    "price_group",
    "suggested_units",
    "suggested_size",
    "suggested_price_group",
    "held_unit_seconds",
    "suggested_unit_seconds",
    "wasted_unit_seconds",
    "activity_ratio",
    "memory_peak_mebibytes",
    "state",
    "reason",
    "created_at",
    "dismissed_at",
)


class WasteFindingSerializer(serializers.ModelSerializer[WasteFinding]):
    """One rule that one allocation breaks, and what would have served; no units: give it back."""

    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    wasted_unit_seconds = serializers.IntegerField(
        source="known_wasted_unit_seconds",
        read_only=True,
        allow_null=True,
        help_text="Null where no memory figure says whether something smaller would do.",
    )

    class Meta:
        model = WasteFinding
        fields = FINDING_FIELDS
        read_only_fields = fields


class DismissalSerializer(StrictSerializer):
    """Why the use is intended."""

    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class WasteFindingFilter(StrictFilterSet):
    """Which findings are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    owner = filters.CharFilter()
    rule = filters.ChoiceFilter(choices=RULE_CHOICES)
    state = filters.ChoiceFilter(choices=WasteState.choices)
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    until_from = filters.IsoDateTimeFilter(field_name="until_at", lookup_expr="gte")
    until_before = filters.IsoDateTimeFilter(field_name="until_at", lookup_expr="lt")


class WasteFindingViewSet(ReadingViewSet):
    """Waste findings, latest first."""

    serializer_class = WasteFindingSerializer
    filterset_class = WasteFindingFilter
    ordering = ("-until_at", "-pk")
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[WasteFinding]:
        """Return the findings about the projects the caller reaches."""
        return waste_visible_to(self.actor)

    def get_one(self, pk: int) -> WasteFinding:
        """Return one finding."""
        return access_waste(self.actor, pk, READ_WASTE)

    @extend_schema(request=DismissalSerializer)
    @action(detail=True, methods=["post"])
    def dismiss(self, request: Request, pk: int) -> Response:
        """Dismiss a finding: the use is intended."""
        found = access_waste(self.actor, pk, DISMISS_WASTE)
        asked = self.read(DismissalSerializer, request)
        return self.answer(
            dismiss_finding(
                finding_id=found.pk, reason=asked["reason"], actor=self.actor, at=self.at
            )
        )
