"""/api/v1/reservations/ and /api/v1/admission-refusals/: admitted and denied pods."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers

from quotas.access import (
    access_refusal,
    access_reservation,
    hidden_scopes,
    refusals_visible_to,
    reservations_visible_to,
)
from quotas.domain.admission.denials import visible_refusal
from quotas.models import AdmissionRefusal, Reservation, ReservationState
from quotas.models.limit import SIZE_CHOICES
from quotas.models.reservation import ReservationOrigin
from tenants.api.filters import StrictFilterSet
from tenants.api.views import ReadingViewSet
from tenants.domain.actors import Actor


class ReservationSerializer(serializers.ModelSerializer[Reservation]):
    """What one pod takes of one resource, from its admission until it is gone."""

    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    model_groups = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Reservation
        fields = (
            "id",
            "cluster",
            "namespace",
            "pod_uid",
            "pod_name",
            "controller",
            "resource",
            "organization",
            "project",
            "username",
            "size",
            "units",
            "model_groups",
            "is_burst",
            "state",
            "origin",
            "admitted_at",
            "expires_at",
            "held_at",
            "released_at",
            "release_reason",
        )
        read_only_fields = fields


class ReservationFilter(StrictFilterSet):
    """Which reservations are listed."""

    cluster = filters.CharFilter(field_name="cluster__slug")
    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    namespace = filters.CharFilter()
    user = filters.CharFilter(field_name="username")
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    state = filters.ChoiceFilter(choices=ReservationState.choices)
    origin = filters.ChoiceFilter(choices=ReservationOrigin.choices)


class ReservationViewSet(ReadingViewSet):
    """Reservations, of the projects the caller may read."""

    serializer_class = ReservationSerializer
    filterset_class = ReservationFilter
    ordering = "pk"
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[Reservation]:
        """Return the reservations the caller may read."""
        return reservations_visible_to(self.actor)

    def get_one(self, pk: int) -> Reservation:
        """Return one reservation."""
        return access_reservation(self.actor, pk)


class AdmissionRefusalSerializer(serializers.ModelSerializer[AdmissionRefusal]):
    """What was refused to one workload for one reason, and how often."""

    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)
    message = serializers.SerializerMethodField(
        help_text="Figures of limits the caller may read; else scope and holder alone."
    )

    class Meta:
        model = AdmissionRefusal
        fields = (
            "id",
            "cluster",
            "namespace",
            "workload",
            "code",
            "size",
            "units",
            "organization",
            "project",
            "username",
            "message",
            "count",
            "first_at",
            "last_at",
        )
        read_only_fields = fields

    def get_message(self, refusal: AdmissionRefusal) -> str:
        """Return what was refused, as far as the caller may read the limit that refused it."""
        actor: Actor = self.context["actor"]
        hidden = hidden_scopes(
            actor, organization_id=refusal.organization_id, project_id=refusal.project_id
        )
        return visible_refusal(refusal.message, code=refusal.code, hidden_scopes=hidden)


class AdmissionRefusalFilter(StrictFilterSet):
    """Which refusals are listed."""

    cluster = filters.CharFilter(field_name="cluster__slug")
    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    namespace = filters.CharFilter()
    user = filters.CharFilter(field_name="username")
    code = filters.CharFilter()


class AdmissionRefusalViewSet(ReadingViewSet):
    """Refusals in projects the caller may read; all refusals for readers of the platform."""

    serializer_class = AdmissionRefusalSerializer
    filterset_class = AdmissionRefusalFilter
    ordering = "pk"
    lookup_value_converter = "int"

    def get_serializer_context(self) -> dict[str, Any]:
        """Return the serializer's context with the caller."""
        return {**super().get_serializer_context(), "actor": self.actor}

    def get_queryset(self) -> QuerySet[AdmissionRefusal]:
        """Return the refusals the caller may read."""
        return refusals_visible_to(self.actor)

    def get_one(self, pk: int) -> AdmissionRefusal:
        """Return one refusal."""
        return access_refusal(self.actor, pk)
