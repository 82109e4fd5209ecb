"""/api/v1/suspensions/: tenants that may start nothing new until they are resumed."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import (
    READ_SUSPENSION,
    WRITE_SUSPENSION,
    access_suspension,
    suspensions_visible_to,
)
from quotas.domain.limits.input import JUSTIFICATION_LENGTH_MAX
from quotas.models import QuotaSuspension
from quotas.services.limits.suspensions import resume_suspension, suspend_tenant
from tenants.access import access_organization, access_project
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet

READ_ORGANIZATION = "tenants:organization:read"
READ_PROJECT = "tenants:project:read"


class SuspensionSerializer(serializers.ModelSerializer[QuotaSuspension]):
    """A suspension; it is in force until it has an end."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)

    class Meta:
        model = QuotaSuspension
        fields = (
            "id",
            "organization",
            "project",
            "reason",
            "source",
            "begin_at",
            "end_at",
            "version",
        )
        read_only_fields = fields


class SuspensionInputSerializer(StrictSerializer):
    """The tenant to suspend, and why; without a project the whole organization."""

    organization = serializers.UUIDField()
    project = serializers.UUIDField(required=False, allow_null=True, default=None)
    reason = serializers.CharField(max_length=JUSTIFICATION_LENGTH_MAX)


class SuspensionFilter(StrictFilterSet):
    """Which suspensions are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    source = filters.CharFilter()
    is_ended = filters.BooleanFilter(field_name="end_at", lookup_expr="isnull", exclude=True)
    updated_from = UpdatedFromFilter(
        "begin_at", "end_at", help_text="Only suspensions begun or ended at this time or since."
    )


class SuspensionViewSet(ReadingViewSet):
    """Suspensions of organizations and projects."""

    serializer_class = SuspensionSerializer
    filterset_class = SuspensionFilter
    ordering = ("-begin_at", "-pk")

    def get_queryset(self) -> QuerySet[QuotaSuspension]:
        """Return the suspensions the caller may read."""
        return suspensions_visible_to(self.actor)

    def get_one(self, pk: UUID) -> QuotaSuspension:
        """Return one suspension."""
        return access_suspension(self.actor, pk, READ_SUSPENSION)

    @extend_schema(request=SuspensionInputSerializer, responses={201: SuspensionSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Suspend an organization or a project: it starts nothing new; what runs keeps running."""
        fields = self.read(SuspensionInputSerializer, request)
        project = fields["project"]
        suspension = suspend_tenant(
            organization=access_organization(self.actor, fields["organization"], READ_ORGANIZATION),
            project=None if project is None else access_project(self.actor, project, READ_PROJECT),
            reason=fields["reason"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(suspension, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EmptySerializer, responses=SuspensionSerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def resume(self, request: Request, pk: UUID) -> Response:
        """End a suspension; the tenant starts again when no other is in force."""
        suspension = access_suspension(self.actor, pk, WRITE_SUSPENSION)
        self.read(EmptySerializer, request)
        resumed = resume_suspension(
            suspension_id=suspension.pk,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(resumed)
