"""/api/v1/quota-limits/: how many units of a size may be held at once."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Model, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import (
    READ_LIMIT,
    WRITE_LIMIT,
    access_cluster_of,
    access_limit,
    access_person,
    limits_visible_to,
)
from quotas.api.fields import (
    LimitUnitsField,
    ModelGroupField,
    OvercommitField,
    SizeField,
    UnitHoursField,
    WholeUnitsField,
)
from quotas.models import LimitScope, QuotaLimit
from quotas.models.limit import SIZE_CHOICES
from quotas.selectors.limits.units_now import LimitUse, limit_use
from quotas.services.limits.changes import NOT_SET
from quotas.services.limits.limits import remove_limit, set_limit
from tenants.access import access_organization, access_project
from tenants.api.conditional import expected_version, if_match
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.actors import Actor

READ_ORGANIZATION = "tenants:organization:read"
READ_PROJECT = "tenants:project:read"


class QuotaLimitSerializer(serializers.ModelSerializer[QuotaLimit]):
    """A limit, what of it is in force, and what is taken of that now.

    `limit_units` is what was set, `units_in_force` with the grants of now; null is unlimited.
    """

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)
    user = serializers.SerializerMethodField()
    cluster = serializers.SerializerMethodField()
    units_in_force = serializers.SerializerMethodField()
    used_units = serializers.SerializerMethodField()
    reserved_units = serializers.SerializerMethodField()
    free_units = serializers.SerializerMethodField()
    burst_used_units = serializers.SerializerMethodField()
    is_suspended = serializers.SerializerMethodField()

    class Meta:
        model = QuotaLimit
        fields = (
            "id",
            "scope",
            "organization",
            "project",
            "user",
            "size",
            "model_group",
            "cluster",
            "limit_units",
            "units_in_force",
            "burst_units",
            "overcommit_percent",
            "monthly_unit_hours",
            "is_suspended",
            "used_units",
            "reserved_units",
            "free_units",
            "burst_used_units",
            "generation",
            "version",
            "created_at",
            "changed_at",
        )
        read_only_fields = fields

    def get_user(self, limit: QuotaLimit) -> str | None:
        """Return the user's name; None when the limit is no user's."""
        return None if limit.user is None else limit.user.username

    def get_cluster(self, limit: QuotaLimit) -> str | None:
        """Return the cluster's slug; None for every cluster."""
        return None if limit.cluster is None else limit.cluster.slug

    def get_units_in_force(self, limit: QuotaLimit) -> int | None:
        """Return the units with the grants of now; None is unlimited."""
        return self._use(limit).in_force.nominal_units

    def get_used_units(self, limit: QuotaLimit) -> int:
        """Return what bound pods hold now that the limit counts."""
        return self._use(limit).headroom.used_units

    def get_reserved_units(self, limit: QuotaLimit) -> int:
        """Return what was admitted and is not bound yet."""
        return self._use(limit).headroom.reserved_units

    def get_free_units(self, limit: QuotaLimit) -> int | None:
        """Return what may still be held under this limit alone; a wider one may allow less."""
        return self._use(limit).headroom.free_units

    def get_burst_used_units(self, limit: QuotaLimit) -> int:
        """Return what preemptible pods hold, admitted or bound."""
        return self._use(limit).headroom.burst_used_units

    def get_is_suspended(self, limit: QuotaLimit) -> bool:
        """Return whether the holder, or one above it, may start nothing."""
        return self._use(limit).in_force.is_suspended

    def _use(self, limit: QuotaLimit) -> LimitUse:
        found: LimitUse = self.context["view"].use_of(limit)
        return found


class QuotaLimitChangeSerializer(StrictSerializer):
    """What a limit says; what is left out stays, but for its units."""

    limit_units = LimitUnitsField()
    burst_units = WholeUnitsField(required=False)
    overcommit_percent = OvercommitField(required=False)
    monthly_unit_hours = UnitHoursField(required=False, allow_null=True)


class QuotaLimitInputSerializer(QuotaLimitChangeSerializer):
    """A new limit: its scope, its holder, and what it limits."""

    scope = serializers.ChoiceField(choices=LimitScope.values)
    organization = serializers.UUIDField()
    project = serializers.UUIDField(required=False, allow_null=True, default=None)
    user = serializers.CharField(max_length=150, required=False, allow_null=True, default=None)
    size = SizeField()
    model_group = ModelGroupField(required=False, default="")
    cluster = serializers.CharField(max_length=63, required=False, allow_null=True, default=None)


class QuotaLimitFilter(StrictFilterSet):
    """Which limits are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    user = filters.CharFilter(field_name="user__username")
    scope = filters.ChoiceFilter(choices=LimitScope.choices)
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    model_group = filters.CharFilter()
    cluster = filters.CharFilter(field_name="cluster__slug")
    updated_from = UpdatedFromFilter(
        "changed_at",
        help_text="Only limits set or changed at this time or since; their use does not count.",
    )


class QuotaLimitViewSet(ReadingViewSet):
    """Quota limits."""

    serializer_class = QuotaLimitSerializer
    filterset_class = QuotaLimitFilter
    ordering = ("created_at", "pk")

    def use_of(self, limit: QuotaLimit) -> LimitUse:
        """Return what binds and what is taken, read once for all limits that are answered."""
        return self._use[limit.pk]

    def paginate_queryset(self, queryset: QuerySet[Any] | Sequence[Any]) -> Any:  # noqa: ANN401 - DRF's signature.
        """Return a page of limits, with what is taken of each looked up."""
        page = super().paginate_queryset(queryset)
        self._look_up(page or [])
        return page

    def answer(self, row: Model, *, status_code: int = status.HTTP_200_OK) -> Response:
        """Return one limit, with what is taken of it looked up."""
        self._look_up([row])
        return super().answer(row, status_code=status_code)

    def _look_up(self, limits: Sequence[Any]) -> None:
        self._use = limit_use(limits, at=self.at, burst_classes=settings.BURST_PRIORITY_CLASSES)

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
            **{**fields, **holder_fields(self.actor, fields)},
            expected_version=NOT_SET,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(limit, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaLimitChangeSerializer)
    @if_match
    def update(self, request: Request, pk: UUID) -> Response:
        """Change a limit; its units are required."""
        limit = access_limit(self.actor, pk, WRITE_LIMIT)
        fields = self.read(QuotaLimitChangeSerializer, request)
        return self._change(request, limit, fields)

    @extend_schema(request=QuotaLimitChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change some of what a limit says."""
        limit = access_limit(self.actor, pk, WRITE_LIMIT)
        fields = self.read_changes(QuotaLimitChangeSerializer, request)
        return self._change(request, limit, {"limit_units": limit.limit_units, **fields})

    def _change(self, request: Request, limit: QuotaLimit, fields: dict[str, Any]) -> Response:
        changed = set_limit(
            scope=limit.scope,
            organization=limit.organization,
            project=limit.project,
            user=limit.user,
            size=limit.size,
            model_group=limit.model_group,
            cluster=limit.cluster,
            **fields,
            expected_version=expected_version(request),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(changed)

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
    """Return the holder and scope of a new limit, as far as the caller may read them.

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
    cluster = None
    if fields["cluster"] is not None:
        cluster = access_cluster_of(actor, organization, fields["cluster"])
    return {"organization": organization, "project": project, "user": user, "cluster": cluster}
