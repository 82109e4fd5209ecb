"""/api/v1/enforcement-targets/: desired and live ResourceQuota of each namespace."""

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import WRITE_ENFORCEMENT, access_target, targets_visible_to
from quotas.adapters import quota_enforcer
from quotas.models import EnforcementState, EnforcementTarget
from quotas.selectors.enforcement.coverage import uncounted_reason
from quotas.services.enforcement.applying import apply_again
from tenants.api.filters import StrictFilterSet
from tenants.api.views import ReadingViewSet


class EnforcementTargetSerializer(serializers.ModelSerializer[EnforcementTarget]):
    """Desired, applied and live quota of one namespace."""

    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    uncounted_reason = serializers.SerializerMethodField(
        help_text="Why a limit is divided over namespaces; empty where admission counts every pod."
    )

    class Meta:
        model = EnforcementTarget
        fields = (
            "id",
            "cluster",
            "namespace",
            "project",
            "state",
            "desired_hard",
            "desired_burst",
            "desired_generation",
            "is_held",
            "uncounted_reason",
            "live_hard",
            "live_used",
            "live_burst",
            "live_burst_used",
            "foreign_quotas",
            "notice",
            "refused_pods",
            "applied_hard",
            "applied_burst",
            "applied_generation",
            "attempt",
            "last_error",
            "applied_at",
            "checked_at",
            "drifted_at",
            "drift_managers",
            "drifts_repaired",
        )
        read_only_fields = fields

    def get_uncounted_reason(self, target: EnforcementTarget) -> str:
        """Return why admission does not count every pod of the namespace."""
        return uncounted_reason(target)


class EnforcementTargetFilter(StrictFilterSet):
    """Which targets are listed."""

    cluster = filters.CharFilter(field_name="cluster__slug")
    namespace = filters.CharFilter()
    organization = filters.UUIDFilter(field_name="project__organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    state = filters.ChoiceFilter(choices=EnforcementState.choices)


class EnforcementTargetViewSet(ReadingViewSet):
    """Enforcement targets, for platform admins."""

    serializer_class = EnforcementTargetSerializer
    filterset_class = EnforcementTargetFilter
    ordering = "pk"
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[EnforcementTarget]:
        """Return the targets the caller may read."""
        return targets_visible_to(self.actor).select_related("cluster__admission_coverage")

    def get_one(self, pk: int) -> EnforcementTarget:
        """Return one target."""
        return access_target(self.actor, pk)

    @extend_schema(request=None, responses={200: EnforcementTargetSerializer})
    @action(detail=True, methods=["post"], url_path="apply")
    def apply(self, request: Request, pk: int) -> Response:  # noqa: ARG002 - It has no body.
        """Apply again now, and return the cluster's answer. Repeating it is safe."""
        target = access_target(self.actor, pk, WRITE_ENFORCEMENT)
        apply_again(
            target_ids=[target.pk],
            enforcer=quota_enforcer(settings.QUOTA_ENFORCER),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(access_target(self.actor, pk))
