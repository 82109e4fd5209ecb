"""/api/v1/organizations/, projects/ and namespace-bindings/: who is billed for which usage."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    READ_CLUSTER,
    READ_NAMESPACE,
    READ_ORGANIZATION,
    READ_PROJECT,
    access_binding,
    access_cluster,
    access_organization,
    access_project,
    bindings_visible_to,
    organizations_visible_to,
    projects_visible_to,
    require_capability,
)
from tenants.api.conditional import if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.models import NamespaceBinding, Organization, Project
from tenants.models.organization import Language, LifecycleState
from tenants.selectors.people import user_named
from tenants.services.namespaces import bind_namespace, close_binding
from tenants.services.organizations import (
    close_organization,
    close_project,
    create_organization,
    create_project,
    update_organization,
    update_project,
)

WRITE_ORGANIZATION = "tenants:organization:write"
BILLING_FIELDS = (
    "billing_contact",
    "billing_email",
    "billing_address",
    "tax_id",
    "country",
    "language",
)


class OrganizationSerializer(serializers.ModelSerializer[Organization]):
    """An organization; its billing details are hidden from members of a single project."""

    class Meta:
        model = Organization
        fields = (
            "id",
            "slug",
            "name",
            "state",
            "billing_currency",
            "time_zone",
            "cost_center",
            *BILLING_FIELDS,
            "version",
            "created_at",
        )
        read_only_fields = fields
        extra_kwargs = {name: {"allow_null": True} for name in BILLING_FIELDS}

    def to_representation(self, instance: Organization) -> dict[str, Any]:
        """Return the organization as far as the caller's roles reach."""
        document = super().to_representation(instance)
        actor = self.context["view"].actor
        if not actor.may(READ_ORGANIZATION, organization_id=instance.pk):
            document.update(dict.fromkeys(BILLING_FIELDS))
        return document


class OrganizationChangeSerializer(StrictSerializer):
    """What may be changed of an organization."""

    name = serializers.CharField(max_length=200)
    cost_center = serializers.CharField(max_length=64, allow_blank=True, required=False)
    billing_contact = serializers.CharField(max_length=200, allow_blank=True, required=False)
    billing_email = serializers.EmailField(allow_blank=True, required=False)
    billing_address = serializers.CharField(max_length=2000, allow_blank=True, required=False)
    tax_id = serializers.CharField(max_length=64, allow_blank=True, required=False)
    country = serializers.CharField(max_length=2, allow_blank=True, required=False)
    language = serializers.ChoiceField(choices=Language.choices, required=False)


class OrganizationInputSerializer(OrganizationChangeSerializer):
    """A new organization."""

    slug = serializers.CharField(max_length=63)
    billing_currency = serializers.CharField(max_length=3)
    time_zone = serializers.CharField(max_length=64, required=False)


class OrganizationFilter(StrictFilterSet):
    """Which organizations are listed."""

    slug = filters.CharFilter()
    state = filters.ChoiceFilter(choices=LifecycleState.choices)


class OrganizationViewSet(ReadingViewSet):
    """Organizations."""

    serializer_class = OrganizationSerializer
    filterset_class = OrganizationFilter
    ordering = "slug"
    orderings = ("name", "created_at")

    def get_queryset(self) -> QuerySet[Organization]:
        """Return the organizations the caller has to do with."""
        return organizations_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Organization:
        """Return one organization."""
        return access_organization(self.actor, pk, READ_ORGANIZATION, field="")

    @extend_schema(request=OrganizationInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Make an organization."""
        fields = self.read(OrganizationInputSerializer, request)
        require_capability(self.actor, WRITE_ORGANIZATION)
        made = create_organization(**fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=OrganizationChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change how an organization is described."""
        organization = access_organization(self.actor, pk, WRITE_ORGANIZATION, field="")
        changes = self.read_changes(OrganizationChangeSerializer, request)
        return self.change(request, update_organization, organization=organization, changes=changes)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """Close an organization without active projects; what it owes stays."""
        organization = access_organization(self.actor, pk, WRITE_ORGANIZATION, field="")
        self.read(EmptySerializer, request)
        return self.change(request, close_organization, organization=organization)


WRITE_PROJECT = "tenants:project:write"


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
    orderings = ("name", "created_at")

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
        organization = access_organization(self.actor, fields.pop("organization"), WRITE_PROJECT)
        made = create_project(organization=organization, **fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=ProjectChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change how a project is described."""
        project = access_project(self.actor, pk, WRITE_PROJECT, field="")
        return self.change(
            request,
            update_project,
            project=project,
            changes=self.read_changes(ProjectChangeSerializer, request),
        )

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """Close a project whose namespaces are no longer bound."""
        project = access_project(self.actor, pk, WRITE_PROJECT, field="")
        self.read(EmptySerializer, request)
        return self.change(request, close_project, project=project)


WRITE_NAMESPACE = "tenants:namespace:write"


class BindingSerializer(serializers.ModelSerializer[NamespaceBinding]):
    """One namespace, bound for [valid_from, valid_until)."""

    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    default_owner = serializers.CharField(
        source="default_owner.username", default=None, read_only=True, allow_null=True
    )
    valid_from = serializers.DateTimeField(source="valid.lower", read_only=True)
    valid_until = serializers.DateTimeField(source="valid.upper", read_only=True, allow_null=True)

    class Meta:
        model = NamespaceBinding
        fields = (
            "id",
            "cluster",
            "namespace",
            "project",
            "default_owner",
            "valid_from",
            "valid_until",
            "version",
            "created_at",
        )
        read_only_fields = fields


class BindingInputSerializer(StrictSerializer):
    """A namespace to bind."""

    cluster = serializers.UUIDField()
    namespace = serializers.CharField(max_length=63)
    project = serializers.UUIDField()
    valid_from = serializers.DateTimeField(help_text="The start of a UTC hour.")
    valid_until = serializers.DateTimeField(
        required=False, allow_null=True, help_text="The first UTC hour no longer bound."
    )
    default_owner = serializers.CharField(
        max_length=150, required=False, allow_null=True, help_text="A user name."
    )


class BindingEndSerializer(StrictSerializer):
    """When a binding ends."""

    valid_until = serializers.DateTimeField(help_text="The first UTC hour no longer bound.")


class BindingFilter(StrictFilterSet):
    """Which bindings are listed."""

    cluster = filters.CharFilter(field_name="cluster__slug")
    namespace = filters.CharFilter()
    project = filters.UUIDFilter(field_name="project_id")
    valid_at = filters.IsoDateTimeFilter(field_name="valid", lookup_expr="contains")


class NamespaceBindingViewSet(ReadingViewSet):
    """Namespace bindings."""

    serializer_class = BindingSerializer
    filterset_class = BindingFilter

    def get_queryset(self) -> QuerySet[NamespaceBinding]:
        """Return the bindings of the projects the caller reaches."""
        return bindings_visible_to(self.actor)

    def get_one(self, pk: UUID) -> NamespaceBinding:
        """Return one binding."""
        return access_binding(self.actor, pk, READ_NAMESPACE)

    @extend_schema(request=BindingInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Bind a namespace to a project for whole UTC hours."""
        fields = self.read(BindingInputSerializer, request)
        project = access_project(self.actor, fields["project"], WRITE_NAMESPACE)
        cluster = access_cluster(self.actor, fields["cluster"], READ_CLUSTER)
        owner = fields.get("default_owner")
        made = bind_namespace(
            cluster=cluster,
            namespace=fields["namespace"],
            project=project,
            valid_from=fields["valid_from"],
            valid_until=fields.get("valid_until"),
            default_owner=user_named(owner, field="default_owner") if owner else None,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=BindingEndSerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """End a binding at an hour; hours already begun keep their project."""
        binding = access_binding(self.actor, pk, WRITE_NAMESPACE)
        fields = self.read(BindingEndSerializer, request)
        return self.change(
            request,
            close_binding,
            binding=binding,
            valid_until=fields["valid_until"],
        )
