"""/api/v1/preemption-policies/ and /api/v1/protected-windows/: what is preempted, and when not."""

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import (
    READ_PREEMPTION,
    WRITE_PREEMPTION,
    access_preemption_policy,
    access_window,
    preemption_policies_visible_to,
    windows_visible_to,
)
from quotas.domain.preemption.states import ProtectionState, window_state
from quotas.models import PreemptionMode, PreemptionPolicy, ProtectedWindow
from quotas.services.preemption.protected_windows import (
    REASON_LENGTH_MAX,
    close_window,
    open_window,
)
from quotas.services.preemption.sweep import set_policy
from tenants.access import access_organization, access_project
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet

MODE_HELP = (
    "`off` makes no plans, `propose` makes one and notifies the administrators, `execute` also "
    "runs it automatically."
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


READ_PROJECT = "tenants:project:read"


class ProtectedWindowSerializer(serializers.ModelSerializer[ProtectedWindow]):
    """A protected window; without a project the whole organization is protected."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)
    valid_from = serializers.DateTimeField(source="valid.lower", read_only=True, allow_null=True)
    valid_until = serializers.DateTimeField(source="valid.upper", read_only=True, allow_null=True)
    window_state = serializers.SerializerMethodField()

    class Meta:
        model = ProtectedWindow
        fields = (
            "id",
            "organization",
            "project",
            "window_state",
            "valid_from",
            "valid_until",
            "cancelled_at",
            "reason",
            "created_by",
            "created_at",
            "version",
        )
        read_only_fields = fields

    def get_window_state(self, window: ProtectedWindow) -> ProtectionState:
        """Return its present state."""
        at: datetime = self.context["view"].at
        return window_state(window.valid.lower, window.valid.upper, window.cancelled_at, at=at)


class ProtectedWindowInputSerializer(StrictSerializer):
    """The tenant to protect, when and why."""

    organization = serializers.UUIDField()
    project = serializers.UUIDField(required=False, allow_null=True, default=None)
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class ProtectedWindowFilter(StrictFilterSet):
    """Which windows are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")


class ProtectedWindowViewSet(ReadingViewSet):
    """Protected windows."""

    serializer_class = ProtectedWindowSerializer
    filterset_class = ProtectedWindowFilter
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[ProtectedWindow]:
        """Return the windows the caller may read."""
        return windows_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ProtectedWindow:
        """Return one window."""
        return access_window(self.actor, pk, READ_PREEMPTION)

    @extend_schema(
        request=ProtectedWindowInputSerializer, responses={201: ProtectedWindowSerializer}
    )
    @idempotent()
    def create(self, request: Request) -> Response:
        """Protect an organization or one of its projects from preemption for a time."""
        fields = self.read(ProtectedWindowInputSerializer, request)
        project = fields.pop("project")
        organization = fields.pop("organization")
        window = open_window(
            organization=access_organization(self.actor, organization, WRITE_PREEMPTION),
            project=None if project is None else access_project(self.actor, project, READ_PROJECT),
            **fields,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(window, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EmptySerializer, responses=ProtectedWindowSerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """End a window now; one that has not begun is cancelled, and keeps its times."""
        window = access_window(self.actor, pk, WRITE_PREEMPTION)
        self.read(EmptySerializer, request)
        closed = close_window(
            window_id=window.pk,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(closed)
