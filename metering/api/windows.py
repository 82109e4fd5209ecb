"""/api/v1/metering-windows/: how far each hour of each cluster's metering has come."""

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import READ_WINDOW, WRITE_WINDOW, access_window, windows_visible_to
from metering.domain.correction import RecheckReason
from metering.domain.policy import GapPolicy, MeteringPolicy
from metering.domain.window_state import WindowState
from metering.models import MeteringWindow
from metering.services.decisions import release_gap, retry_window
from metering.services.rechecks import ask_recheck
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

STATE_CHOICES = [(state.value, state.value) for state in WindowState]
DECISION_CHOICES = [(decision.value, decision.value) for decision in GapPolicy]
NOTE_LENGTH_MAX = 2_000


class MeteringWindowSerializer(serializers.ModelSerializer[MeteringWindow]):
    """One hour of one cluster."""

    cluster = serializers.UUIDField(source="cluster_id", read_only=True)

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
            "watch_coverage",
            "reconciliation",
            "accepts_low_coverage",
            "gap_policy",
            "evidence",
            "catalogue_version",
            "record_count",
            "record_digest",
            "last_error",
            "collected_at",
            "sealed_at",
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
        return windows_visible_to(self.actor)

    def get_one(self, pk: int) -> MeteringWindow:
        """Return one window."""
        return access_window(self.actor, pk, READ_WINDOW)

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
        """Look at a sealed window again now; what is learned becomes usage corrections."""
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
        """Decide on a window that waits for a person; see the decisions for what each bills."""
        window = access_window(self.actor, pk, WRITE_WINDOW)
        asked = self.read(WindowDecisionSerializer, request)
        released = release_gap(
            window_id=window.pk,
            decision=GapPolicy(asked["decision"]),
            note=asked["note"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(released)
