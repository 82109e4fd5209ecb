"""/api/v1/request-policies/: deciders of requests, and automatic approval."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import WRITE_LIMIT, request_policies_visible_to
from quotas.models import RequestPolicy
from quotas.services.requests.policies import change_policy, make_policy
from tenants.access import (
    access_organization_if_named,
    access_seen,
    require_capability,
)
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class RequestPolicySerializer(serializers.ModelSerializer[RequestPolicy]):
    """A policy; null organization is for all that have none of their own."""

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)

    class Meta:
        model = RequestPolicy
        fields = (
            "id",
            "organization",
            "currency",
            "steps",
            "automatic_units",
            "automatic_cost",
            "escalate_after_hours",
            "expire_after_days",
            "remind_days",
            "version",
            "created_at",
        )
        read_only_fields = fields


class PolicyChangeSerializer(StrictSerializer):
    """What may be changed of a policy; the domain validates the values."""

    currency = serializers.CharField(max_length=3, required=False, allow_blank=True)
    steps = serializers.JSONField(required=False)
    automatic_units = serializers.JSONField(required=False)
    automatic_cost = serializers.CharField(max_length=24, required=False, allow_null=True)
    escalate_after_hours = serializers.IntegerField(required=False, allow_null=True)
    expire_after_days = serializers.IntegerField(required=False)
    remind_days = serializers.IntegerField(required=False)


class PolicyInputSerializer(PolicyChangeSerializer):
    """A new policy."""

    organization = serializers.UUIDField(allow_null=True)


class RequestPolicyFilter(StrictFilterSet):
    """Which policies are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")


class RequestPolicyViewSet(ReadingViewSet):
    """Request policies."""

    serializer_class = RequestPolicySerializer
    filterset_class = RequestPolicyFilter
    ordering = ("created_at", "pk")

    def get_queryset(self) -> QuerySet[RequestPolicy]:
        """Return the policies the caller may read."""
        return request_policies_visible_to(self.actor)

    def get_one(self, pk: UUID) -> RequestPolicy:
        """Return one policy."""
        return access_seen(request_policies_visible_to(self.actor), pk)

    @extend_schema(request=PolicyInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Set who decides the requests of an organization, or of all others."""
        fields = self.read(PolicyInputSerializer, request)
        organization = access_organization_if_named(self.actor, fields.pop("organization"))
        require_capability(self.actor, WRITE_LIMIT)
        made = make_policy(organization=organization, fields=fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=PolicyChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change a policy; requests that are under way keep their steps."""
        policy = access_seen(request_policies_visible_to(self.actor), pk)
        require_capability(self.actor, WRITE_LIMIT)
        changed = change_policy(
            policy=policy,
            changes=self.read_changes(PolicyChangeSerializer, request),
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(changed)
