"""/api/v1/organizations/: the billed customers."""

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
    READ_ORGANIZATION,
    access_organization,
    organizations_visible_to,
    require_capability,
)
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.models import Organization
from tenants.models.organization import LifecycleState
from tenants.services.organizations.organizations import (
    close_organization,
    create_organization,
    update_organization,
)

WRITE = "tenants:organization:write"
BILLING_FIELDS = ("billing_contact", "billing_email", "billing_address", "tax_id")


class OrganizationSerializer(serializers.ModelSerializer[Organization]):
    """An organization; who only works in one of its projects is not told its billing details."""

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
        require_capability(self.actor, WRITE)
        made = create_organization(**fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=OrganizationChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change how an organization is described."""
        organization = access_organization(self.actor, pk, WRITE, field="")
        changes = self.read_changes(OrganizationChangeSerializer, request)
        changed = update_organization(
            organization=organization,
            changes=changes,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(changed)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """Close an organization without active projects; what it owes stays."""
        organization = access_organization(self.actor, pk, WRITE, field="")
        self.read(EmptySerializer, request)
        closed = close_organization(
            organization=organization,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(closed)
