"""/api/v1/projects/: the parts of an organization with usage of their own."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    READ_PROJECT,
    access_organization,
    access_project,
    projects_visible_to,
)
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.models import Project
from tenants.models.organization import LifecycleState
from tenants.services.organizations.projects import close_project, create_project, update_project

WRITE = "tenants:project:write"


class ProjectSerializer(serializers.ModelSerializer[Project]):
    """A project."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = Project
        fields = (
            "id",
            "organization",
            "slug",
            "name",
            "state",
            "cost_center",
            "version",
            "created_at",
        )
        read_only_fields = fields


class ProjectChangeSerializer(StrictSerializer):
    """What may be changed of a project."""

    name = serializers.CharField(max_length=200)
    cost_center = serializers.CharField(max_length=64, allow_blank=True, required=False)


class ProjectInputSerializer(ProjectChangeSerializer):
    """A new project."""

    organization = serializers.UUIDField()
    slug = serializers.CharField(max_length=63)


class ProjectFilter(StrictFilterSet):
    """Which projects are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    slug = filters.CharFilter()
    state = filters.ChoiceFilter(choices=LifecycleState.choices)


class ProjectViewSet(ReadingViewSet):
    """Projects."""

    serializer_class = ProjectSerializer
    filterset_class = ProjectFilter
    ordering = "slug"

    def get_queryset(self) -> QuerySet[Project]:
        """Return the projects the caller reaches."""
        return projects_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Project:
        """Return one project."""
        return access_project(self.actor, pk, READ_PROJECT, field="")

    @extend_schema(request=ProjectInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Make a project of an organization."""
        fields = self.read(ProjectInputSerializer, request)
        organization = access_organization(self.actor, fields.pop("organization"), WRITE)
        made = create_project(organization=organization, **fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=ProjectChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change how a project is described."""
        project = access_project(self.actor, pk, WRITE, field="")
        changed = update_project(
            project=project,
            changes=self.read_changes(ProjectChangeSerializer, request),
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(changed)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """Close a project whose namespaces are no longer bound."""
        project = access_project(self.actor, pk, WRITE, field="")
        self.read(EmptySerializer, request)
        closed = close_project(
            project=project,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(closed)
