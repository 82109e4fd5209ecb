"""/api/v1/service-accounts/: programs that act for an organization."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    READ_MEMBERSHIP,
    WRITE_TOKEN,
    access_organization,
    access_service_account,
    service_accounts_visible_to,
)
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.models import ServiceAccount
from tenants.models.organization import LifecycleState
from tenants.services.service_accounts import close_service_account, create_service_account


class ServiceAccountSerializer(serializers.ModelSerializer[ServiceAccount]):
    """A service account."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = ServiceAccount
        fields = ("id", "organization", "slug", "name", "state", "created_at")
        read_only_fields = fields


class ServiceAccountInputSerializer(StrictSerializer):
    """A new service account."""

    organization = serializers.UUIDField()
    slug = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=200)


class ServiceAccountFilter(StrictFilterSet):
    """Which service accounts are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    slug = filters.CharFilter()
    state = filters.ChoiceFilter(choices=LifecycleState.choices)


class ServiceAccountViewSet(ReadingViewSet):
    """Service accounts."""

    serializer_class = ServiceAccountSerializer
    filterset_class = ServiceAccountFilter
    ordering = "slug"

    def get_queryset(self) -> QuerySet[ServiceAccount]:
        """Return the accounts of the organizations the caller reaches."""
        return service_accounts_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ServiceAccount:
        """Return one service account."""
        return access_service_account(self.actor, pk, READ_MEMBERSHIP)

    @extend_schema(request=ServiceAccountInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Make a service account; it has no role and no token yet."""
        fields = self.read(ServiceAccountInputSerializer, request)
        organization = access_organization(self.actor, fields.pop("organization"), WRITE_TOKEN)
        made = create_service_account(
            organization=organization, **fields, actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    def close(self, request: Request, pk: UUID) -> Response:
        """Close a service account and revoke its tokens."""
        account = access_service_account(self.actor, pk, WRITE_TOKEN)
        self.read(EmptySerializer, request)
        return self.answer(close_service_account(account=account, actor=self.actor, at=self.at))
