"""/api/v1/metering-exceptions/: what could not be attributed, sized or trusted."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import READ_EXCEPTION, WRITE_EXCEPTION, access_exception, exceptions_visible_to
from metering.domain.collection.reconciliation import Side
from metering.domain.corrections.exceptions import ExceptionKind
from metering.models import ExceptionState, MeteringException
from metering.services.corrections.exceptions import accept_side, resolve_exception
from tenants.api.filters import IntegerFilter, StrictFilterSet, UpdatedFromFilter
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

KIND_CHOICES = [(kind.value, kind.value) for kind in ExceptionKind]
SIDE_CHOICES = [(side.value, side.value) for side in Side]
NOTE_LENGTH_MAX = 2_000


class MeteringExceptionSerializer(serializers.ModelSerializer[MeteringException]):
    """One cause in one hour about one subject; nothing is billed for it while it is open."""

    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    window = serializers.IntegerField(source="window_id", read_only=True)

    class Meta:
        model = MeteringException
        fields = (
            "id",
            "cluster",
            "window",
            "window_start",
            "kind",
            "subject",
            "namespace",
            "summary",
            "remedy",
            "held_unit_seconds",
            "details",
            "state",
            "created_at",
            "resolved_at",
            "resolution",
        )
        read_only_fields = fields


class ResolutionSerializer(StrictSerializer):
    """Why an exception is resolved."""

    note = serializers.CharField(max_length=NOTE_LENGTH_MAX)


class AcceptanceSerializer(StrictSerializer):
    """Whose evidence is believed, and why."""

    side = serializers.ChoiceField(choices=SIDE_CHOICES)
    note = serializers.CharField(max_length=NOTE_LENGTH_MAX)


class MeteringExceptionFilter(StrictFilterSet):
    """Which exceptions are listed."""

    cluster = filters.UUIDFilter(field_name="cluster_id")
    window = IntegerFilter(field_name="window_id")
    kind = filters.ChoiceFilter(choices=KIND_CHOICES)
    state = filters.ChoiceFilter(choices=ExceptionState.choices)
    namespace = filters.CharFilter()
    updated_from = UpdatedFromFilter(
        "created_at",
        "resolved_at",
        help_text="Only exceptions opened or resolved at this time or since.",
    )
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")


class MeteringExceptionViewSet(ReadingViewSet):
    """Metering exceptions, latest hour first."""

    serializer_class = MeteringExceptionSerializer
    filterset_class = MeteringExceptionFilter
    ordering = ("-window_start", "-pk")
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[MeteringException]:
        """Return the exceptions the caller sees."""
        return exceptions_visible_to(self.actor)

    def get_one(self, pk: int) -> MeteringException:
        """Return one exception."""
        return access_exception(self.actor, pk, READ_EXCEPTION)

    @extend_schema(request=AcceptanceSerializer)
    @action(detail=True, methods=["post"], url_path="accept-evidence")
    def accept_evidence(self, request: Request, pk: int) -> Response:
        """Believe one of the two sources about a pod's hour, and bill what it reported."""
        found = access_exception(self.actor, pk, WRITE_EXCEPTION)
        asked = self.read(AcceptanceSerializer, request)
        accepted = accept_side(
            exception_id=found.pk,
            side=Side(asked["side"]),
            note=asked["note"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(accepted)

    @extend_schema(request=ResolutionSerializer)
    @action(detail=True, methods=["post"])
    def resolve(self, request: Request, pk: int) -> Response:
        """Resolve an exception as looked after; what it holds stays unbilled."""
        found = access_exception(self.actor, pk, WRITE_EXCEPTION)
        asked = self.read(ResolutionSerializer, request)
        return self.answer(
            resolve_exception(
                exception_id=found.pk, note=asked["note"], actor=self.actor, at=self.at
            )
        )
