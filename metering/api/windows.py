"""/api/v1/metering-windows/: how far each hour of each cluster's metering has come."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import Model, QuerySet, prefetch_related_objects
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import READ_WINDOW, WRITE_WINDOW, access_window, windows_visible_to
from metering.domain.collection.hour_decisions import DecidedHour, HourResult
from metering.domain.collection.parts import DivisionPhase
from metering.domain.collection.windows import WINDOW, GapPolicy, MeteringPolicy, WindowState
from metering.domain.corrections.correction import RecheckReason
from metering.models import DeviceWindow, MeteringWindow, WindowDivision
from metering.selectors.collection.hour_decisions import (
    DecisionPreview,
    hours_between,
    preview_decision,
)
from metering.selectors.collection.windows import divisions
from metering.services.collection.hour_decisions import decide_window, decide_windows, retry_window
from metering.services.corrections.rechecks import ask_recheck
from tenants.access import READ_CLUSTER, access_cluster, require_capability
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

STATE_CHOICES = [(state.value, state.value) for state in WindowState]
DECISION_CHOICES = [(decision.value, decision.value) for decision in GapPolicy]
PHASE_CHOICES = [(phase.value, phase.value) for phase in DivisionPhase]
RESULT_CHOICES = [(result.value, result.value) for result in HourResult]
NOTE_LENGTH_MAX = 2_000
RANGE_HOURS_MAX = 8_784
"""A leap year of one cluster: 18 transactions."""


class DeviceWindowSerializer(serializers.ModelSerializer[DeviceWindow]):
    """The device figures of one hour, which have a state and a seal of their own."""

    class Meta:
        model = DeviceWindow
        fields = (
            "state",
            "failures",
            "not_before",
            "missing_figures",
            "evidence",
            "row_count",
            "row_digest",
            "last_error",
            "sealed_at",
        )
        read_only_fields = fields


class WindowDivisionSerializer(serializers.ModelSerializer[WindowDivision]):
    """How far an hour of many pods has come, which is metered in parts."""

    phase = serializers.ChoiceField(
        choices=PHASE_CHOICES,
        read_only=True,
        help_text="Parts are posted once all of them are observed.",
    )
    parts = serializers.IntegerField(source="part_count", read_only=True)
    done = serializers.IntegerField(
        source="done_count", read_only=True, help_text="Parts that are done in this phase."
    )

    class Meta:
        model = WindowDivision
        fields = ("phase", "parts", "done", "as_of", "created_at")
        read_only_fields = fields


class MeteringWindowSerializer(serializers.ModelSerializer[MeteringWindow]):
    """One hour of one cluster."""

    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    hidden_unit_seconds_max = serializers.DictField(
        child=serializers.IntegerField(), allow_null=True, read_only=True
    )
    division = WindowDivisionSerializer(
        read_only=True,
        allow_null=True,
        help_text="Null for an hour that is metered in one go, and once its last part is posted.",
    )
    devices = DeviceWindowSerializer(read_only=True, allow_null=True)

    class Meta:
        model = MeteringWindow
        fields = (
            "id",
            "cluster",
            "start_at",
            "state",
            "attempt",
            "failures",
            "not_before",
            "as_of",
            "sources",
            "expected_ticks",
            "observed_ticks",
            "coverage",
            "unobserved_seconds",
            "longest_hole_seconds",
            "hidden_unit_seconds_max",
            "scrape_targets",
            "watch_coverage",
            "reconciliation",
            "accepts_low_coverage",
            "gap_policy",
            "shown",
            "decided_on",
            "evidence",
            "catalogue_version",
            "record_count",
            "record_digest",
            "last_error",
            "collected_at",
            "sealed_at",
            "division",
            "devices",
        )
        read_only_fields = fields


class RetrySerializer(StrictSerializer):
    """Why a window is metered again."""

    note = serializers.CharField(
        max_length=NOTE_LENGTH_MAX, required=False, default="", allow_blank=True
    )


class WindowDecisionSerializer(StrictSerializer):
    """What becomes of an hour that was not seen well enough, and why."""

    decision = serializers.ChoiceField(choices=DECISION_CHOICES)
    note = serializers.CharField(max_length=NOTE_LENGTH_MAX)
    shown_digest = serializers.CharField(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="`digest` of what was shown; refused when something else is known by now.",
    )


class HourRangeSerializer(StrictSerializer):
    """Which hours of one cluster are decided on, and how."""

    cluster = serializers.UUIDField()
    start_from = serializers.DateTimeField(help_text="The first hour.")
    start_before = serializers.DateTimeField(help_text="The hour after the last one.")
    decision = serializers.ChoiceField(choices=DECISION_CHOICES)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Bound the range."""
        hours = (attrs["start_before"] - attrs["start_from"]) // WINDOW
        if not 1 <= hours <= RANGE_HOURS_MAX:
            raise serializers.ValidationError(
                {"start_before": f"A range has 1 to {RANGE_HOURS_MAX} hours."}
            )
        return attrs


class RangeDecisionSerializer(HourRangeSerializer, WindowDecisionSerializer):
    """One decision on a range of hours, and why; the digest is that of the preview."""


class DecidedHourSerializer(serializers.Serializer[DecidedHour]):
    """What a decision did to one hour."""

    window = serializers.IntegerField(source="window_id")
    start_at = serializers.DateTimeField()
    result = serializers.ChoiceField(choices=RESULT_CHOICES)


class RangeDecidedSerializer(serializers.Serializer[Any]):
    """What a decision did to each hour of a range, oldest first."""

    hours = DecidedHourSerializer(many=True)


class DecisionPreviewSerializer(serializers.Serializer[DecisionPreview]):
    """What a decision on a range of hours would do."""

    hours = serializers.IntegerField(help_text="Hours of the range that have a window.")
    decided = serializers.IntegerField(help_text="Hours that the decision applies to.")
    results = serializers.DictField(child=serializers.IntegerField())
    causes = serializers.DictField(child=serializers.IntegerField())
    first_at = serializers.DateTimeField(allow_null=True)
    last_at = serializers.DateTimeField(allow_null=True)
    billed_unit_seconds = serializers.DictField(
        child=serializers.IntegerField(), help_text="By size, what accepting these hours bills."
    )
    held_unit_seconds = serializers.DictField(
        child=serializers.IntegerField(), help_text="By cause, what it keeps in exceptions."
    )
    unknown = serializers.IntegerField(help_text="Of these hours, those nothing is known of.")
    unobserved = serializers.IntegerField(help_text="Of these hours, those without a scrape.")
    effect = serializers.CharField()
    digest = serializers.CharField()


class MeteringWindowFilter(StrictFilterSet):
    """Which windows are listed."""

    cluster = filters.UUIDFilter(field_name="cluster_id")
    state = filters.ChoiceFilter(choices=STATE_CHOICES)
    start_from = filters.IsoDateTimeFilter(field_name="start_at", lookup_expr="gte")
    start_before = filters.IsoDateTimeFilter(field_name="start_at", lookup_expr="lt")


class MeteringWindowViewSet(ReadingViewSet):
    """Metering windows, latest hour first."""

    serializer_class = MeteringWindowSerializer
    filterset_class = MeteringWindowFilter
    ordering = ("-start_at", "-pk")
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[MeteringWindow]:
        """Return the windows the caller sees."""
        windows = windows_visible_to(self.actor).select_related("devices")
        return windows.prefetch_related(divisions())

    def get_one(self, pk: int) -> MeteringWindow:
        """Return one window."""
        return access_window(self.actor, pk, READ_WINDOW)

    def answer(self, row: Model, *, status_code: int = status.HTTP_200_OK) -> Response:
        """Return a window with how far its parts have come."""
        prefetch_related_objects([row], divisions())
        return super().answer(row, status_code=status_code)

    @extend_schema(request=RetrySerializer)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: int) -> Response:
        """Make a window that is not sealed due now."""
        window = access_window(self.actor, pk, WRITE_WINDOW)
        asked = self.read(RetrySerializer, request)
        return self.answer(
            retry_window(window_id=window.pk, note=asked["note"], actor=self.actor, at=self.at)
        )

    @extend_schema(request=RetrySerializer)
    @action(detail=True, methods=["post"])
    def recheck(self, request: Request, pk: int) -> Response:
        """Check a sealed window again now; differences become usage corrections."""
        window = access_window(self.actor, pk, WRITE_WINDOW)
        asked = self.read(RetrySerializer, request)
        ask_recheck(
            window_id=window.pk,
            reason=RecheckReason.PERSON,
            note=asked["note"],
            policy=MeteringPolicy(recheck_retention_seconds=settings.RECHECK_RETENTION_SECONDS),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(window)

    @extend_schema(request=WindowDecisionSerializer)
    @action(detail=True, methods=["post"])
    def decide(self, request: Request, pk: int) -> Response:
        """Decide on an hour that needs review, or that is over its patience."""
        window = access_window(self.actor, pk, WRITE_WINDOW)
        asked = self.read(WindowDecisionSerializer, request)
        released = decide_window(
            window_id=window.pk,
            decision=GapPolicy(asked["decision"]),
            note=asked["note"],
            shown_digest=asked["shown_digest"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(released)

    @extend_schema(request=HourRangeSerializer, responses={200: DecisionPreviewSerializer})
    @action(detail=False, methods=["post"], url_path="preview-decision")
    def preview_decision(self, request: Request) -> Response:
        """Return what a decision on a range of hours would do; change nothing."""
        asked = self.read(HourRangeSerializer, request)
        preview = preview_decision(
            self._range(asked), decision=GapPolicy(asked["decision"]), at=self.at
        )
        return Response(DecisionPreviewSerializer(preview).data)

    @extend_schema(request=RangeDecisionSerializer, responses={200: RangeDecidedSerializer})
    @action(detail=False, methods=["post"], url_path="decide-range")
    def decide_range(self, request: Request) -> Response:
        """Decide on every hour of a range that needs it; made twice, it changes nothing more."""
        asked = self.read(RangeDecisionSerializer, request)
        decided = decide_windows(
            window_ids=list(self._range(asked).values_list("pk", flat=True)),
            decision=GapPolicy(asked["decision"]),
            note=asked["note"],
            shown_digest=asked["shown_digest"],
            actor=self.actor,
            at=self.at,
        )
        return Response(RangeDecidedSerializer({"hours": decided}).data)

    def _range(self, asked: Mapping[str, Any]) -> QuerySet[MeteringWindow]:
        """Return the hours of a range, if the caller may decide on them."""
        cluster = access_cluster(self.actor, asked["cluster"], READ_CLUSTER)
        require_capability(self.actor, WRITE_WINDOW)
        return hours_between(cluster.pk, begin_at=asked["start_from"], end_at=asked["start_before"])
