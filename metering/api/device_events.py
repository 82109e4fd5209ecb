"""/api/v1/device-events/: what went wrong on GPUs, and that a person says it is over."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import (
    READ_DEVICE_EVENT,
    WRITE_DEVICE_EVENT,
    access_device_event,
    device_events_visible_to,
)
from metering.models import DeviceEvent
from metering.models.device_event import KIND_CHOICES, SEVERITY_CHOICES
from metering.services.devices.events import end_device_event
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

NOTE_LENGTH_MAX = 2_000


class DeviceEventSerializer(serializers.ModelSerializer[DeviceEvent]):
    """One change for the worse on one device; `end_at` is null while it is not known to be over."""

    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    window = serializers.IntegerField(source="window_id", read_only=True)

    class Meta:
        model = DeviceEvent
        fields = (
            "id",
            "cluster",
            "window",
            "node",
            "uuid",
            "instance_id",
            "instance_profile",
            "kind",
            "code",
            "severity",
            "begin_at",
            "end_at",
            "metric",
            "value_before",
            "value_after",
            "evidence",
            "note",
        )
        read_only_fields = fields


class EndingSerializer(StrictSerializer):
    """Why a device is sound again, or out of service."""

    note = serializers.CharField(max_length=NOTE_LENGTH_MAX)


class DeviceEventFilter(StrictFilterSet):
    """Which events are listed."""

    cluster = filters.UUIDFilter(field_name="cluster_id")
    node = filters.CharFilter()
    uuid = filters.CharFilter()
    kind = filters.ChoiceFilter(choices=KIND_CHOICES)
    severity = filters.ChoiceFilter(choices=SEVERITY_CHOICES)
    is_open = filters.BooleanFilter(field_name="end_at", lookup_expr="isnull")
    begin_from = filters.IsoDateTimeFilter(field_name="begin_at", lookup_expr="gte")
    begin_before = filters.IsoDateTimeFilter(field_name="begin_at", lookup_expr="lt")


class DeviceEventViewSet(ReadingViewSet):
    """Device events, latest first."""

    serializer_class = DeviceEventSerializer
    filterset_class = DeviceEventFilter
    ordering = ("-begin_at", "-pk")
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[DeviceEvent]:
        """Return the device events the caller sees."""
        return device_events_visible_to(self.actor)

    def get_one(self, pk: int) -> DeviceEvent:
        """Return one device event."""
        return access_device_event(self.actor, pk, READ_DEVICE_EVENT)

    @extend_schema(request=EndingSerializer)
    @action(detail=True, methods=["post"])
    def end(self, request: Request, pk: int) -> Response:
        """Say that the device is sound again, or out of service."""
        found = access_device_event(self.actor, pk, WRITE_DEVICE_EVENT)
        asked = self.read(EndingSerializer, request)
        return self.answer(
            end_device_event(event_id=found.pk, note=asked["note"], actor=self.actor, at=self.at)
        )
