"""/api/v1/isolation-policies/: which ways of sharing a GPU may serve a tenant."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import (
    READ_ISOLATION,
    WRITE_ISOLATION,
    access_policy,
    policies_visible_to,
)
from quotas.domain.isolation.policy import ServingMode
from quotas.models import IsolationPolicy
from quotas.models.isolation import SERVING_MODE_CHOICES, WORK_KIND_CHOICES
from quotas.services.isolation import (
    change_isolation_policy,
    remove_isolation_policy,
    set_isolation_policy,
)
from tenants.access import READ_ORGANIZATION, READ_PROJECT, access_organization, access_project
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

MODES = ", ".join(mode.value for mode in ServingMode)


class IsolationPolicySerializer(serializers.ModelSerializer[IsolationPolicy]):
    """A policy: whose it is, for what, and what it allows."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)

    class Meta:
        model = IsolationPolicy
        fields = (
            "id",
            "organization",
            "project",
            "work_kind",
            "modes",
            "allow_shared_with_other_tenants",
            "default_kind",
            "version",
            "created_at",
            "changed_at",
        )
        read_only_fields = fields


class IsolationPolicyChangeSerializer(StrictSerializer):
    """What a policy allows."""

    modes = serializers.ListField(
        child=serializers.ChoiceField(
            choices=SERVING_MODE_CHOICES,
            error_messages={"invalid_choice": f"Use one of: {MODES}."},
        ),
        allow_empty=True,
    )
    allow_shared_with_other_tenants = serializers.BooleanField(required=False, default=False)
    default_kind = serializers.ChoiceField(
        choices=WORK_KIND_CHOICES, required=False, allow_blank=True, default=""
    )


class IsolationPolicyInputSerializer(IsolationPolicyChangeSerializer):
    """A new policy: also whose it is and for which kind of work, "" for any."""

    organization = serializers.UUIDField()
    project = serializers.UUIDField(required=False, allow_null=True, default=None)
    work_kind = serializers.ChoiceField(
        choices=WORK_KIND_CHOICES, required=False, allow_blank=True, default=""
    )


class IsolationPolicyFilter(StrictFilterSet):
    """Which policies are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    work_kind = filters.ChoiceFilter(choices=WORK_KIND_CHOICES)


class IsolationPolicyViewSet(ReadingViewSet):
    """Isolation policies."""

    serializer_class = IsolationPolicySerializer
    filterset_class = IsolationPolicyFilter
    ordering = ("created_at", "pk")

    def get_queryset(self) -> QuerySet[IsolationPolicy]:
        """Return the policies the caller may read."""
        return policies_visible_to(self.actor)

    def get_one(self, pk: UUID) -> IsolationPolicy:
        """Return one policy."""
        return access_policy(self.actor, pk, READ_ISOLATION)

    @extend_schema(
        request=IsolationPolicyInputSerializer, responses={201: IsolationPolicySerializer}
    )
    @idempotent()
    def create(self, request: Request) -> Response:
        """Say what may serve an organization or project; what is there is changed where it is."""
        fields = self.read(IsolationPolicyInputSerializer, request)
        project = None
        if fields["project"] is not None:
            project = access_project(self.actor, fields["project"], READ_PROJECT)
        policy = set_isolation_policy(
            organization=access_organization(self.actor, fields["organization"], READ_ORGANIZATION),
            project=project,
            work_kind=fields["work_kind"],
            modes=fields["modes"],
            allow_shared_with_other_tenants=fields["allow_shared_with_other_tenants"],
            default_kind=fields["default_kind"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(policy, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=IsolationPolicyChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change what a policy allows."""
        policy = access_policy(self.actor, pk, WRITE_ISOLATION)
        changed = change_isolation_policy(
            policy_id=policy.pk,
            changes=self.read_changes(IsolationPolicyChangeSerializer, request),
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(changed)

    @extend_schema(request=None, responses={204: None})
    @if_match
    def destroy(self, request: Request, pk: UUID) -> Response:
        """Take a policy away: what is wider, or the default of the kind, holds again."""
        policy = access_policy(self.actor, pk, WRITE_ISOLATION)
        remove_isolation_policy(
            policy_id=policy.pk,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return Response(status=status.HTTP_204_NO_CONTENT)
