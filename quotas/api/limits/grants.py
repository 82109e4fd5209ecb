"""/api/v1/quota-grants/: units on top of a limit, or taken from it, for a range of time."""

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import READ_LIMIT, WRITE_LIMIT, access_grant, access_limit, grants_visible_to
from quotas.api.fields import GrantUnitsField
from quotas.domain.limits.input import NOTE_LENGTH_MAX, GrantState, grant_state
from quotas.models import GrantReason, QuotaGrant
from quotas.services.limits.grants import end_grant, grant_units
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class QuotaGrantSerializer(serializers.ModelSerializer[QuotaGrant]):
    """A grant and its present state; a cancelled one has no range any more."""

    limit = serializers.UUIDField(source="limit_id", read_only=True, allow_null=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)
    valid_from = serializers.DateTimeField(source="valid.lower", read_only=True, allow_null=True)
    valid_until = serializers.DateTimeField(source="valid.upper", read_only=True, allow_null=True)
    grant_state = serializers.SerializerMethodField()

    class Meta:
        model = QuotaGrant
        fields = (
            "id",
            "limit",
            "organization",
            "project",
            "units",
            "valid_from",
            "valid_until",
            "grant_state",
            "reason",
            "reference",
            "note",
            "version",
            "created_at",
        )
        read_only_fields = fields

    def get_grant_state(self, grant: QuotaGrant) -> GrantState:
        """Return its present state."""
        at: datetime = self.context["view"].at
        return grant_state(grant.valid.lower, grant.valid.upper, at=at)


class QuotaGrantInputSerializer(StrictSerializer):
    """A new grant; without `valid_from` it begins now, without `valid_until` it does not end."""

    limit = serializers.UUIDField()
    units = GrantUnitsField()
    valid_from = serializers.DateTimeField(required=False, allow_null=True, default=None)
    valid_until = serializers.DateTimeField(required=False, allow_null=True, default=None)
    note = serializers.CharField(
        max_length=NOTE_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class QuotaGrantEndSerializer(StrictSerializer):
    """When a grant ends; at once when that is left out."""

    valid_until = serializers.DateTimeField(required=False, allow_null=True, default=None)


class QuotaGrantFilter(StrictFilterSet):
    """Which grants are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    limit = filters.UUIDFilter(field_name="limit_id")
    reason = filters.ChoiceFilter(choices=GrantReason.choices)
    reference = filters.CharFilter()
    in_force_at = filters.IsoDateTimeFilter(field_name="valid", lookup_expr="contains")


class QuotaGrantViewSet(ReadingViewSet):
    """Quota grants."""

    serializer_class = QuotaGrantSerializer
    filterset_class = QuotaGrantFilter
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[QuotaGrant]:
        """Return the grants the caller may read."""
        return grants_visible_to(self.actor)

    def get_one(self, pk: UUID) -> QuotaGrant:
        """Return one grant."""
        return access_grant(self.actor, pk, READ_LIMIT)

    @extend_schema(request=QuotaGrantInputSerializer, responses={201: QuotaGrantSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Grant units on top of a limit for a time."""
        fields = self.read(QuotaGrantInputSerializer, request)
        limit = access_limit(self.actor, fields["limit"], WRITE_LIMIT)
        grant = grant_units(
            limit_id=limit.pk,
            units=fields["units"],
            begin_at=fields["valid_from"],
            end_at=fields["valid_until"],
            note=fields["note"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(grant, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaGrantEndSerializer, responses=QuotaGrantSerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def end(self, request: Request, pk: UUID) -> Response:
        """End a grant earlier than it says, or cancel it before it begins."""
        grant = access_grant(self.actor, pk, WRITE_LIMIT)
        fields = self.read(QuotaGrantEndSerializer, request)
        ended = end_grant(
            grant_id=grant.pk,
            end_at=fields["valid_until"],
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(ended)
