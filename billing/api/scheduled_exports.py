"""Endpoints /api/v1/export-schedules/ and export-runs/: what is delivered, and what came of it."""

from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.urls import path
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access.exports import (
    READ_EXPORT,
    WRITE_EXPORT,
    access_file,
    access_run,
    access_schedule,
    runs_visible_to,
    schedules_visible_to,
)
from billing.api.exports import download
from billing.domain.exports.schedules import CONTENTS, DAY_MAX, HOUR_MAX
from billing.models import ExportFile, ExportRun, ExportSchedule
from billing.models.export import RUN_STATE_CHOICES, TARGET_CHOICES
from billing.selectors.exports.runs import chunks_of
from billing.services.exports.schedules import (
    change_schedule,
    close_schedule,
    create_schedule,
    request_run,
    retry_run,
)
from billing.services.exports.staging import CONTENT_TYPES
from tenants.access import access_organization_if_named
from tenants.api.conditional import if_match, may_conflict
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import LedgerViewSet, ReadingViewSet
from tenants.models.organization import LifecycleState


class ExportScheduleSerializer(serializers.ModelSerializer[ExportSchedule]):
    """A schedule; its secret is named, never shown, and tokens in its address are masked."""

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    contents = serializers.ListField(child=serializers.CharField(), read_only=True)
    address = serializers.CharField(source="shown_address", read_only=True)

    class Meta:
        model = ExportSchedule
        fields = (
            "id",
            "slug",
            "organization",
            "contents",
            "target",
            "address",
            "host_key",
            "secret_reference",
            "day",
            "hour",
            "waits_for_close",
            "state",
            "version",
            "created_at",
        )
        read_only_fields = fields


class ScheduleChangeSerializer(StrictSerializer):
    """What may be changed of a schedule."""

    contents = serializers.ListField(
        child=serializers.ChoiceField(choices=CONTENTS), allow_empty=False
    )
    day = serializers.IntegerField(
        min_value=1, max_value=DAY_MAX, help_text="Of the month after the exported one."
    )
    hour = serializers.IntegerField(min_value=0, max_value=HOUR_MAX, help_text="In UTC.")
    waits_for_close = serializers.BooleanField(
        required=False,
        default=True,
        help_text="Whether a run waits until every billing period of the month is closed.",
    )


class ScheduleInputSerializer(ScheduleChangeSerializer):
    """A new schedule."""

    slug = serializers.CharField(max_length=63)
    organization = serializers.UUIDField(allow_null=True, help_text="Null: all organizations.")
    target = serializers.ChoiceField(choices=TARGET_CHOICES)
    address = serializers.CharField(
        max_length=500,
        help_text="A mail address, https://host/bucket/folder, sftp://user@host/folder, or the "
        "https URL of a webhook.",
    )
    secret_reference = serializers.CharField(
        max_length=200,
        required=False,
        default="",
        allow_blank=True,
        help_text="env:EXPORT_SECRET_<NAME>; the secret itself is never sent. Empty for mail.",
    )
    host_key = serializers.CharField(
        max_length=2100,
        required=False,
        default="",
        allow_blank=True,
        help_text="The public key of an SFTP server, such as ssh-ed25519 AAAA.",
    )


class RunRequestSerializer(StrictSerializer):
    """Which month is exported now."""

    month = serializers.CharField(max_length=7, help_text='Year and month, such as "2026-10".')


class ExportFileSerializer(serializers.ModelSerializer[ExportFile]):
    """A file of a run."""

    class Meta:
        model = ExportFile
        fields = ("id", "name", "content_type", "size", "sha256", "delivered_at")
        read_only_fields = fields


class ExportRunSerializer(serializers.ModelSerializer[ExportRun]):
    """A run with its files, once they are made."""

    schedule = serializers.UUIDField(source="schedule_id", read_only=True)
    remedy = serializers.CharField(read_only=True)
    files = ExportFileSerializer(many=True, read_only=True)

    class Meta:
        model = ExportRun
        fields = (
            "id",
            "schedule",
            "month",
            "number",
            "state",
            "attempts",
            "next_at",
            "note",
            "reason",
            "remedy",
            "requested_by",
            "created_at",
            "staged_at",
            "finished_at",
            "purged_at",
            "files",
        )
        read_only_fields = fields


class ExportScheduleFilter(StrictFilterSet):
    """Which schedules are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    target = filters.ChoiceFilter(choices=TARGET_CHOICES)
    state = filters.ChoiceFilter(choices=LifecycleState.choices)


class ExportScheduleViewSet(ReadingViewSet):
    """Schedules of exports."""

    serializer_class = ExportScheduleSerializer
    filterset_class = ExportScheduleFilter
    ordering = ("slug", "pk")

    def get_queryset(self) -> QuerySet[ExportSchedule]:
        """Return the schedules the caller may read."""
        return schedules_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ExportSchedule:
        """Return one schedule."""
        return access_schedule(self.actor, pk, READ_EXPORT)

    @extend_schema(request=ScheduleInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Deliver each month from now on, on a day of the month after it."""
        fields = self.read(ScheduleInputSerializer, request)
        organization = access_organization_if_named(self.actor, fields.pop("organization"))
        made = create_schedule(
            organization=organization,
            **fields,
            clear_text_hosts=settings.WEBHOOK_CLEAR_TEXT_HOSTS,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=ScheduleChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change what is delivered, and when."""
        return self.change(
            request,
            change_schedule,
            schedule=access_schedule(self.actor, pk, WRITE_EXPORT),
            changes=self.read_changes(ScheduleChangeSerializer, request),
        )

    @extend_schema(operation_id="close_export_schedule", request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """End a schedule."""
        schedule = access_schedule(self.actor, pk, WRITE_EXPORT)
        self.read(EmptySerializer, request)
        return self.change(request, close_schedule, schedule=schedule)

    @extend_schema(
        operation_id="request_export_run",
        request=RunRequestSerializer,
        responses={201: ExportRunSerializer},
    )
    @action(detail=True, methods=["post"])
    @idempotent()
    def runs(self, request: Request, pk: UUID) -> Response:
        """Export a month now; its run is under export-runs."""
        schedule = access_schedule(self.actor, pk, WRITE_EXPORT)
        month = self.read(RunRequestSerializer, request)["month"]
        made = request_run(schedule=schedule, month=month, actor=self.actor, at=self.at)
        body = ExportRunSerializer(made, context=self.get_serializer_context()).data
        return Response(body, status=status.HTTP_201_CREATED)


class ExportRunFilter(StrictFilterSet):
    """Which runs are listed."""

    schedule = filters.UUIDFilter(field_name="schedule_id")
    month = filters.CharFilter(field_name="month")
    state = filters.ChoiceFilter(choices=RUN_STATE_CHOICES)


class ExportRunViewSet(ReadingViewSet):
    """Runs of scheduled exports, newest first."""

    serializer_class = ExportRunSerializer
    filterset_class = ExportRunFilter
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[ExportRun]:
        """Return the runs the caller may read."""
        return runs_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ExportRun:
        """Return one run."""
        return access_run(self.actor, pk, READ_EXPORT)

    @extend_schema(operation_id="retry_export_run", request=EmptySerializer)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: UUID) -> Response:
        """Try a failed run again; what was delivered is not sent twice."""
        run = access_run(self.actor, pk, WRITE_EXPORT)
        self.read(EmptySerializer, request)
        retry_run(run=run, actor=self.actor, at=self.at)
        return self.answer(self.get_one(pk))


class ExportFileViewSet(LedgerViewSet):
    """Files of runs."""

    serializer_class = ExportFileSerializer
    queryset = None

    @extend_schema(
        operation_id="download_export_file",
        responses={
            (200, content_type.partition(";")[0]): OpenApiResponse(OpenApiTypes.BINARY)
            for content_type in CONTENT_TYPES.values()
        },
    )
    @may_conflict
    def content(self, request: Request, pk: UUID) -> StreamingHttpResponse:  # noqa: ARG002 - DRF's signature.
        """Return a file of a run, as it was delivered."""
        file = access_file(self.actor, pk)
        return download(chunks_of(file), name=file.name, content_type=file.content_type)


export_file_urls = [
    path(
        "export-files/<uuid:pk>/content/",
        ExportFileViewSet.as_view({"get": "content"}),
        name="export-file-content",
    ),
]
