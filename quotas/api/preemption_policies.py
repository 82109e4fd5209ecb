"""/api/v1/preemption-policies/: what the service does by itself about who stays over its limits."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import (
    READ_PREEMPTION,
    WRITE_PREEMPTION,
    access_preemption_policy,
    preemption_policies_visible_to,
)
from quotas.models import PreemptionMode, PreemptionPolicy
from quotas.services.preemption_sweep import set_policy
from tenants.access import access_organization
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

MODE_HELP = (
    "`off` makes no plans, `propose` makes one and tells the administrators, `execute` also runs "
    "it without a person."
)


class PreemptionPolicySerializer(serializers.ModelSerializer[PreemptionPolicy]):
    """A policy. `over_since` is since when more is held than allowed, null when it is not.

    An organization without one, also one of which the service has only noted that it is over, has
    `propose`.
    """

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = PreemptionPolicy
        fields = ("organization", "mode", "over_since", "version", "changed_at")
        read_only_fields = fields


class PreemptionPolicyChangeSerializer(StrictSerializer):
    """What the service does by itself."""

    mode = serializers.ChoiceField(choices=PreemptionMode.choices, help_text=MODE_HELP)


class PreemptionPolicyInputSerializer(PreemptionPolicyChangeSerializer):
    """Whose policy it is, and what the service does."""

    organization = serializers.UUIDField()


class PreemptionPolicyFilter(StrictFilterSet):
    """Which policies are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    mode = filters.ChoiceFilter(choices=PreemptionMode.choices)


class PreemptionPolicyViewSet(ReadingViewSet):
    """Preemption policies; each has the id of its organization."""

    serializer_class = PreemptionPolicySerializer
    filterset_class = PreemptionPolicyFilter
    ordering = ("organization_id",)

    def get_queryset(self) -> QuerySet[PreemptionPolicy]:
        """Return the policies the caller may read."""
        return preemption_policies_visible_to(self.actor)

    def get_one(self, pk: UUID) -> PreemptionPolicy:
        """Return the policy of one organization."""
        return access_preemption_policy(self.actor, pk, READ_PREEMPTION)

    @extend_schema(
        request=PreemptionPolicyInputSerializer, responses={201: PreemptionPolicySerializer}
    )
    @idempotent()
    def create(self, request: Request) -> Response:
        """Set an organization's policy, new or instead of the one it had."""
        fields = self.read(PreemptionPolicyInputSerializer, request)
        policy = set_policy(
            organization=access_organization(self.actor, fields["organization"], WRITE_PREEMPTION),
            mode=PreemptionMode(fields["mode"]),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(policy, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=PreemptionPolicyChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change what the service does by itself about one organization."""
        found = access_preemption_policy(self.actor, pk, WRITE_PREEMPTION)
        changed = set_policy(
            organization=found.organization,
            mode=PreemptionMode(self.read(PreemptionPolicyChangeSerializer, request)["mode"]),
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(changed)
