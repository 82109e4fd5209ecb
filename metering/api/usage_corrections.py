"""/api/v1/usage-corrections/: what corrects sealed usage, asked for and decided by people."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import (
    READ_USAGE,
    WRITE_CORRECTION,
    access_correction,
    access_usage_record,
    corrections_visible_to,
)
from metering.domain.corrections.correction import CorrectionCause, CorrectionState
from metering.models import UsageCorrection
from metering.services.corrections.review import (
    approve_correction,
    ask_correction,
    reject_correction,
)
from tenants.api.filters import IntegerFilter, StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

CAUSE_CHOICES = [(cause.value, cause.value) for cause in CorrectionCause]
STATE_CHOICES = [(state.value, state.value) for state in CorrectionState]
REASON_LENGTH_MAX = 2_000
UNIT_SECONDS_MAX = 10**12
RECORDS_SHOWN = 50
SHOWN = ("pod_uid", "pod_name", "namespace", "resource", "basis", "unit_seconds")


class UsageCorrectionSerializer(serializers.ModelSerializer[UsageCorrection]):
    """Signed unit-seconds added to sealed usage, and why.

    `records` holds its first 50 records, each with the sum it was made against (`basis`); once it
    is posted, all of them are listed by `usage-records/?correction=`.
    """

    window = serializers.IntegerField(source="window_id", read_only=True)
    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    requested_by = serializers.CharField(read_only=True)
    requested_at = serializers.DateTimeField(read_only=True, allow_null=True)
    records = serializers.SerializerMethodField()

    class Meta:
        model = UsageCorrection
        fields = (
            "id",
            "window",
            "window_start",
            "cluster",
            "organization",
            "project",
            "cause",
            "reason",
            "evidence",
            "record_count",
            "unit_seconds",
            "records",
            "digest",
            "state",
            "requested_by",
            "requested_at",
            "decided_by",
            "decided_at",
            "decision_note",
            "version",
        )
        read_only_fields = fields

    def get_records(self, correction: UsageCorrection) -> list[dict[str, Any]]:
        """Return the first records in short."""
        return [{name: line[name] for name in SHOWN} for line in correction.lines[:RECORDS_SHOWN]]


class CorrectionInputSerializer(StrictSerializer):
    """Which record is corrected, by how much, and why.

    `unit_seconds` is what is added, negative to take away; `retract` takes all there is instead.
    """

    record = serializers.IntegerField(min_value=1)
    unit_seconds = serializers.IntegerField(
        required=False, min_value=-UNIT_SECONDS_MAX, max_value=UNIT_SECONDS_MAX
    )
    retract = serializers.BooleanField(required=False, default=False)
    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Take either a number or a retraction."""
        if attrs["retract"] == ("unit_seconds" in attrs):
            raise serializers.ValidationError(
                {"unit_seconds": "Give either unit_seconds or retract: true."},
                code="number_or_retraction",
            )
        return attrs


class ApprovalSerializer(StrictSerializer):
    """The note of an approval."""

    note = serializers.CharField(
        max_length=REASON_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class RejectionSerializer(StrictSerializer):
    """Why a correction is turned down."""

    note = serializers.CharField(max_length=REASON_LENGTH_MAX)


class UsageCorrectionFilter(StrictFilterSet):
    """Which corrections are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    window = IntegerFilter(field_name="window_id")
    cause = filters.ChoiceFilter(choices=CAUSE_CHOICES)
    state = filters.ChoiceFilter(choices=STATE_CHOICES)
    updated_from = UpdatedFromFilter(
        "requested_at",
        "decided_at",
        help_text="Only corrections requested or decided at this time or since.",
    )
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")


class UsageCorrectionViewSet(ReadingViewSet):
    """Usage corrections, latest hour first."""

    serializer_class = UsageCorrectionSerializer
    filterset_class = UsageCorrectionFilter
    ordering = ("-window_start", "-pk")

    def get_queryset(self) -> QuerySet[UsageCorrection]:
        """Return the corrections of the projects the caller reaches."""
        return corrections_visible_to(self.actor)

    def get_one(self, pk: UUID) -> UsageCorrection:
        """Return one correction."""
        return access_correction(self.actor, pk, READ_USAGE)

    @extend_schema(request=CorrectionInputSerializer, responses={201: UsageCorrectionSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Request a correction of a sealed record; without four eyes it is posted at once."""
        asked = self.read(CorrectionInputSerializer, request)
        made = ask_correction(
            record=access_usage_record(self.actor, asked["record"], WRITE_CORRECTION),
            unit_seconds=asked.get("unit_seconds"),
            reason=asked["reason"],
            is_four_eyes=settings.FOUR_EYES,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=ApprovalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def approve(self, request: Request, pk: UUID) -> Response:
        """Post a proposed correction; it is charged in a month that is open."""
        found = access_correction(self.actor, pk, WRITE_CORRECTION)
        posted = approve_correction(
            correction_id=found.pk,
            note=self.read(ApprovalSerializer, request)["note"],
            is_four_eyes=settings.FOUR_EYES,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(posted)

    @extend_schema(request=RejectionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def reject(self, request: Request, pk: UUID) -> Response:
        """Reject a proposed correction; the usage stays as it is."""
        found = access_correction(self.actor, pk, WRITE_CORRECTION)
        rejected = reject_correction(
            correction_id=found.pk,
            note=self.read(RejectionSerializer, request)["note"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(rejected)
