"""/api/v1/quota-usage/: what is held now against what may be held, at every scope."""

from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from metering.domain.efficiency.rules import thresholds_of
from quotas.access import READ_LIMIT, organizations_with_limits
from quotas.selectors.headroom.board import OrganizationUsage, quota_board
from quotas.selectors.headroom.board_lines import BoardLine
from quotas.selectors.limits.in_force import GrantTerm
from tenants.access import projects_visible_to
from tenants.api.filters import StrictFilterSet
from tenants.api.views import LedgerViewSet
from tenants.domain.actors import Actor
from tenants.models import Organization


class GrantTermSerializer(serializers.Serializer[GrantTerm]):
    """Units that a grant or a loan adds to a limit, or takes from it, for a time."""

    units = serializers.IntegerField()
    valid_from = serializers.DateTimeField(source="begin_at")
    valid_until = serializers.DateTimeField(source="end_at", allow_null=True)
    reason = serializers.CharField()


class SizeUsageSerializer(serializers.Serializer[BoardLine]):
    """Used against limit of one size; without a limit the level above decides."""

    size = serializers.CharField(source="size.value")
    model_group = serializers.CharField()
    cluster = serializers.CharField()
    limit_state = serializers.CharField()
    limit_units = serializers.IntegerField(source="headroom.limit_units", allow_null=True)
    configured_units = serializers.IntegerField(source="set_units", allow_null=True)
    grants = GrantTermSerializer(many=True)
    used_units = serializers.IntegerField(source="headroom.used_units")
    reserved_units = serializers.IntegerField(source="headroom.reserved_units")
    free_units = serializers.IntegerField(source="headroom.free_units", allow_null=True)
    over_units = serializers.IntegerField(source="headroom.over_units")
    used_percent = serializers.IntegerField(source="headroom.used_percent", allow_null=True)
    burst_limit_units = serializers.IntegerField(source="headroom.burst_limit_units")
    burst_used_units = serializers.IntegerField(source="headroom.burst_used_units")
    hoarded_units = serializers.IntegerField()
    refused_workloads = serializers.IntegerField(
        source="refused",
        help_text="Refused for lack of headroom within two hours, and not admitted since.",
    )
    clusters_full = serializers.ListField(
        source="cluster_constraints.full",
        child=serializers.CharField(),
        help_text="Clusters without admission whose own quotas are full for the project.",
    )
    clusters_constrained = serializers.SerializerMethodField(
        help_text="Likewise, where they leave something, but less than the limit does."
    )
    clusters_stale = serializers.ListField(
        source="cluster_constraints.stale",
        child=serializers.CharField(),
        help_text="Likewise, where they were not read lately, so what they leave is unknown.",
    )

    def get_clusters_constrained(self, line: BoardLine) -> list[str]:
        """Return their slugs alone: what they leave may be the organization's limit."""
        return [one.cluster for one in line.cluster_constraints.constrained]


class UserUsageSerializer(serializers.Serializer[Any]):
    """What one user holds inside a project."""

    user = serializers.CharField(source="username")
    sizes = SizeUsageSerializer(many=True, source="lines")


class ProjectUsageSerializer(serializers.Serializer[Any]):
    """What a project holds."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    is_suspended = serializers.SerializerMethodField()
    sizes = SizeUsageSerializer(many=True)
    more_specific_sizes = SizeUsageSerializer(many=True)
    users = UserUsageSerializer(many=True)

    def get_is_suspended(self, holder: Any) -> bool:  # noqa: ANN401 - A project or organization.
        """Return whether it may start nothing."""
        return holder.suspension is not None


class OrganizationUsageSerializer(serializers.Serializer[OrganizationUsage]):
    """What an organization holds; its own sizes are shown to callers who may read all of it."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    is_suspended = serializers.SerializerMethodField()
    sizes = SizeUsageSerializer(many=True)
    more_specific_sizes = SizeUsageSerializer(many=True)
    projects = ProjectUsageSerializer(many=True)

    def get_is_suspended(self, holder: OrganizationUsage) -> bool:
        """Return whether it may start nothing."""
        return holder.suspension is not None


class QuotaUsageFilter(StrictFilterSet):
    """Which organizations are listed."""

    organization = filters.UUIDFilter(field_name="pk")


class QuotaUsageViewSet(LedgerViewSet):
    """Used against limit, one organization at a time."""

    serializer_class = OrganizationUsageSerializer
    filterset_class = QuotaUsageFilter
    ordering = "slug"

    def get_queryset(self) -> QuerySet[Organization]:
        """Return the organizations of which the caller may read a limit."""
        return organizations_with_limits(self.actor)

    @extend_schema(responses=OrganizationUsageSerializer(many=True))
    def list(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature.
        """List used against limit of organizations, their projects and their users."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        board = quota_board(
            page,
            projects=projects_visible_to(self.actor, READ_LIMIT),
            at=self.at,
            burst_classes=settings.BURST_PRIORITY_CLASSES,
            thresholds=thresholds_of(settings.WASTE_THRESHOLDS),
        )
        visible = [as_far_as_visible(organization, actor=self.actor) for organization in board]
        return self.get_paginated_response(self.get_serializer(visible, many=True).data)


def as_far_as_visible(organization: OrganizationUsage, *, actor: Actor) -> OrganizationUsage:
    """Return what an organization holds, less its own limits where an actor may not read them."""
    if actor.may(READ_LIMIT, organization_id=organization.id):
        return organization
    return replace(organization, sizes=(), more_specific_sizes=())
