"""/api/v1/quota-limits/: how many units of a size may be held at once."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from metering.domain.gpu_sizes import GPUSize
from quotas.access import READ_LIMIT, WRITE_LIMIT, access_limit, access_person, limits_visible_to
from quotas.api.fields import SizeField, WholeUnitsField
from quotas.domain.headroom import Headroom
from quotas.models import LimitScope, QuotaLimit
from quotas.models.limit import SIZE_CHOICES
from quotas.selectors.use import UseKey, used_units
from quotas.services.limits import NOT_SET, remove_limit, set_limit
from tenants.access import access_organization, access_project
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.actors import Actor

READ_ORGANIZATION = "tenants:organization:read"
READ_PROJECT = "tenants:project:read"


class QuotaLimitSerializer(serializers.ModelSerializer[QuotaLimit]):
    """A limit, and what is held against it now."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)
    user = serializers.SerializerMethodField()
    used_units = serializers.SerializerMethodField()
    free_units = serializers.SerializerMethodField()

    class Meta:
        model = QuotaLimit
        fields = (
            "id",
            "scope",
            "organization",
            "project",
            "user",
            "size",
            "limit_units",
            "used_units",
            "free_units",
            "generation",
            "version",
            "created_at",
            "changed_at",
        )
        read_only_fields = fields

    def get_user(self, limit: QuotaLimit) -> str | None:
        """Return the user's name; None when the limit is no user's."""
        return None if limit.user is None else limit.user.username

    def get_used_units(self, limit: QuotaLimit) -> int:
        """Return what is held now by whom the limit binds."""
        return self._headroom(limit).used_units

    def get_free_units(self, limit: QuotaLimit) -> int:
        """Return what may still be held under this limit alone; a wider one may allow less."""
        return self._headroom(limit).free_units or 0

    def _headroom(self, limit: QuotaLimit) -> Headroom:
        used = self.context["view"].used_units
        key = UseKey(
            limit.organization_id, limit.project_id, self.get_user(limit), GPUSize(limit.size)
        )
        return Headroom(limit_units=limit.limit_units, used_units=used[key])


class QuotaLimitChangeSerializer(StrictSerializer):
    """A limit's new number."""

    limit_units = WholeUnitsField()


class QuotaLimitInputSerializer(QuotaLimitChangeSerializer):
    """A new limit: its scope, and whom it binds."""

    scope = serializers.ChoiceField(choices=LimitScope.values)
    organization = serializers.UUIDField()
    project = serializers.UUIDField(required=False, allow_null=True, default=None)
    user = serializers.CharField(max_length=150, required=False, allow_null=True, default=None)
    size = SizeField()


class QuotaLimitFilter(StrictFilterSet):
    """Which limits are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    user = filters.CharFilter(field_name="user__username")
    scope = filters.ChoiceFilter(choices=LimitScope.choices)
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)


class QuotaLimitViewSet(ReadingViewSet):
    """Quota limits."""

    serializer_class = QuotaLimitSerializer
    filterset_class = QuotaLimitFilter
    ordering = ("created_at", "pk")

    @property
    def used_units(self) -> Any:  # noqa: ANN401 - A Counter, cached below.
        """Return what is held now by everybody, read once per request."""
        if not hasattr(self, "_used_units"):
            self._used_units = used_units(at=self.at)
        return self._used_units

    def get_queryset(self) -> QuerySet[QuotaLimit]:
        """Return the limits the caller may read."""
        return limits_visible_to(self.actor)

    def get_one(self, pk: UUID) -> QuotaLimit:
        """Return one limit."""
        return access_limit(self.actor, pk, READ_LIMIT)

    @extend_schema(request=QuotaLimitInputSerializer, responses={201: QuotaLimitSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Set a limit where none is; one that is set is changed under its own address."""
        fields = self.read(QuotaLimitInputSerializer, request)
        limit = set_limit(
            **holder_fields(self.actor, fields),
            size=fields["size"],
            limit_units=fields["limit_units"],
            expected_version=NOT_SET,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(limit, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaLimitChangeSerializer)
    @if_match
    def update(self, request: Request, pk: UUID) -> Response:
        """Change a limit's number."""
        limit = access_limit(self.actor, pk, WRITE_LIMIT)
        fields = self.read(QuotaLimitChangeSerializer, request)
        changed = set_limit(
            scope=limit.scope,
            organization=limit.organization,
            project=limit.project,
            user=limit.user,
            size=limit.size,
            limit_units=fields["limit_units"],
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(changed)

    @extend_schema(request=QuotaLimitChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change a limit's number."""
        return self.update(request, pk)

    @extend_schema(request=None, responses={204: None})
    @if_match
    def destroy(self, request: Request, pk: UUID) -> Response:
        """Take a limit away: the level above decides again."""
        limit = access_limit(self.actor, pk, WRITE_LIMIT)
        remove_limit(
            limit_id=limit.pk,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


def holder_fields(actor: Actor, fields: dict[str, Any]) -> dict[str, Any]:
    """Return whom a new limit binds, as far as the caller sees them.

    Raises:
        NotFoundError: The caller does not see one of them.
        ForbiddenError: The caller sees them and may not write there.
    """
    organization = access_organization(actor, fields["organization"], READ_ORGANIZATION)
    project = None
    if fields["project"] is not None:
        project = access_project(actor, fields["project"], READ_PROJECT)
    user = None
    if fields["user"] is not None:
        user = access_person(organization, fields["user"])
    return {
        "scope": fields["scope"],
        "organization": organization,
        "project": project,
        "user": user,
    }
