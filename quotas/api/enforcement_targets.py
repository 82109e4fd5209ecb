"""/api/v1/enforcement-targets/: what each namespace's ResourceQuota should say, and says."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers

from quotas.access import access_target, targets_visible_to
from quotas.models import EnforcementState, EnforcementTarget
from tenants.api.filters import StrictFilterSet
from tenants.api.views import ReadingViewSet


class EnforcementTargetSerializer(serializers.ModelSerializer[EnforcementTarget]):
    """Desired, applied and live quota of one namespace."""

    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)

    class Meta:
        model = EnforcementTarget
        fields = (
            "id",
            "cluster",
            "namespace",
            "project",
            "state",
            "desired_hard",
            "desired_generation",
            "live_hard",
            "live_used",
            "applied_generation",
            "attempt",
            "last_error",
            "applied_at",
            "checked_at",
            "drifted_at",
        )
        read_only_fields = fields


class EnforcementTargetFilter(StrictFilterSet):
    """Which targets are listed."""

    cluster = filters.CharFilter(field_name="cluster__slug")
    namespace = filters.CharFilter()
    project = filters.UUIDFilter(field_name="project_id")
    state = filters.ChoiceFilter(choices=EnforcementState.choices)


class EnforcementTargetViewSet(ReadingViewSet):
    """Enforcement targets, for who runs the platform."""

    serializer_class = EnforcementTargetSerializer
    filterset_class = EnforcementTargetFilter
    ordering = "pk"
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[EnforcementTarget]:
        """Return the targets the caller may read."""
        return targets_visible_to(self.actor)

    def get_one(self, pk: int) -> EnforcementTarget:
        """Return one target."""
        return access_target(self.actor, pk)
