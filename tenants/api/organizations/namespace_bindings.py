"""/api/v1/namespace-bindings/: which project a namespace belongs to, and when."""

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
    access_binding,
    access_cluster,
    access_project,
    bindings_visible_to,
)
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.models import NamespaceBinding
from tenants.selectors.people import user_named
from tenants.services.organizations.namespaces import bind_namespace, close_binding

WRITE = "tenants:namespace:write"


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
        project = access_project(self.actor, fields["project"], WRITE)
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
        binding = access_binding(self.actor, pk, WRITE)
        fields = self.read(BindingEndSerializer, request)
        closed = close_binding(
            binding=binding,
            valid_until=fields["valid_until"],
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(closed)
