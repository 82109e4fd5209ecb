"""Endpoint /api/v1/journal-batches/: the journal for a general ledger, in numbered files."""

from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import WRITE_JOURNAL, access_journal_batch, journal_batches_visible_to
from billing.adapters.journal_layouts import LAYOUT_NAMES, file_of, layouts
from billing.api.attachments import CSV, attachment
from billing.models import JournalBatch
from billing.services.ledger.batches import export_batch
from tenants.access import require_capability
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class JournalBatchSerializer(serializers.ModelSerializer[JournalBatch]):
    """A batch without its file."""

    class Meta:
        model = JournalBatch
        fields = (
            "id",
            "number",
            "month",
            "layout",
            "entries",
            "content_sha256",
            "created_by",
            "created_at",
        )
        read_only_fields = fields


class JournalBatchInputSerializer(StrictSerializer):
    """Which month, and how the general ledger wants it."""

    month = serializers.CharField(max_length=7, help_text='Year and month, such as "2026-10".')
    layout = serializers.ChoiceField(choices=LAYOUT_NAMES)


class JournalBatchFilter(StrictFilterSet):
    """Which batches are listed."""

    month = filters.CharFilter()
    updated_from = UpdatedFromFilter(
        "created_at", help_text="Only batches made at this time or since; a batch never changes."
    )


class JournalBatchViewSet(ReadingViewSet):
    """Batches of the journal, newest first."""

    serializer_class = JournalBatchSerializer
    filterset_class = JournalBatchFilter
    ordering = ("-number", "pk")

    def get_queryset(self) -> QuerySet[JournalBatch]:
        """Return the batches, to readers of the journal."""
        return journal_batches_visible_to(self.actor).defer("content")

    def get_one(self, pk: UUID) -> JournalBatch:
        """Return one batch."""
        return access_journal_batch(self.actor, pk)

    @extend_schema(request=JournalBatchInputSerializer, responses={201: JournalBatchSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Put the entries of a month that are in no batch into a new one."""
        require_capability(self.actor, WRITE_JOURNAL)
        fields = self.read(JournalBatchInputSerializer, request)
        known = layouts(settings.JOURNAL_LAYOUTS)
        made = export_batch(
            month=fields["month"], layout=known[fields["layout"]], actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)})
    @action(detail=True, methods=["get"])
    def csv(self, request: Request, pk: UUID) -> HttpResponse:  # noqa: ARG002 - DRF's signature.
        """Return the file; the same bytes every time. DATEV's begins with a byte order mark."""
        batch = access_journal_batch(self.actor, pk)
        name, content = file_of(batch.number, layout=batch.layout, content=batch.content)
        return attachment(content, name, kind=CSV)
