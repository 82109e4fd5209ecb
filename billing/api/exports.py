"""Endpoints /api/v1/exports/: FOCUS datasets and the bundle of a month, streamed."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.conf import settings
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from billing.access import READ_INVOICE, READ_JOURNAL, access_billed, access_payer
from billing.access.exports import access_charged
from billing.adapters.focus_files import ENCODERS
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.adapters.terms import invoice_terms
from billing.domain.exports.bundle import bundle_name
from billing.domain.exports.focus import NEWEST, VERSIONS, FocusDataset, FocusFile, FocusFormat
from billing.domain.period import Month
from billing.selectors.exports.focus import FocusScope, stream_focus
from billing.services.exports.month import stream_month
from tenants.access import is_platform_wide
from tenants.api.openapi.operations import AS_OF
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.selectors.report_database import report_database

CONTENT_TYPES = {
    FocusFormat.CSV: "text/csv; charset=utf-8",
    FocusFormat.PARQUET: "application/vnd.apache.parquet",
}


class FocusQuerySerializer(StrictSerializer):
    """Which dataset of which month."""

    month = serializers.CharField(max_length=7, help_text='Year and month, such as "2026-10".')
    version = serializers.ChoiceField(choices=VERSIONS, required=False, default=NEWEST)
    dataset = serializers.ChoiceField(
        choices=[one.value for one in FocusDataset],
        required=False,
        default=FocusDataset.COST_AND_USAGE.value,
        help_text="InvoiceDetail and BillingPeriod are of version 1.4.",
    )
    format = serializers.ChoiceField(
        choices=[one.value for one in FocusFormat],
        required=False,
        default=FocusFormat.CSV.value,
    )
    organization = serializers.UUIDField(
        required=False, default=None, help_text="Only of the one with this id."
    )


class MonthQuerySerializer(StrictSerializer):
    """Which month."""

    month = serializers.CharField(max_length=7, help_text='Year and month, such as "2026-10".')
    organization = serializers.UUIDField(
        required=False, default=None, help_text="Only of the one with this id."
    )


class ExportViewSet(LedgerViewSet):
    """Files for other systems, of the organizations whose bills, and charges, the caller reads."""

    def perform_content_negotiation(
        self,
        request: Request,  # noqa: ARG002 - DRF's signature.
        force: bool = False,  # noqa: ARG002, FBT001, FBT002 - As above.
    ) -> tuple[BaseRenderer, str]:
        """Answer refusals as JSON: `format` is about the file."""
        return JSONRenderer(), JSONRenderer.media_type

    @extend_schema(
        operation_id="export_focus",
        parameters=[FocusQuerySerializer, AS_OF],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR),
            (200, "application/vnd.apache.parquet"): OpenApiResponse(OpenApiTypes.BINARY),
        },
    )
    def focus(self, request: Request) -> StreamingHttpResponse:
        """Return a FOCUS dataset of a month, as CSV or Parquet.

        CostAndUsage, which names persons, is for callers who read the charges, too. All rows are
        of one state of the database. A file that is cut short was not ended properly: its transfer
        fails.
        """
        query = FocusQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        file = FocusFile.of(
            month=asked["month"],
            dataset=asked["dataset"],
            version=asked["version"],
            format_name=asked["format"],
        )
        slug = self._slug(asked["organization"])
        is_of_charges = file.dataset is FocusDataset.COST_AND_USAGE
        access = access_charged if is_of_charges else access_billed
        scope = FocusScope(access(self.actor, slug), issuer=invoice_terms().issuer.name)
        database = report_database(at=self.at)
        blocks = database.stream(stream_focus(file, scope, encode=ENCODERS[file.format]))
        content_type = CONTENT_TYPES[file.format]
        return download(blocks, name=file.name, content_type=content_type, headers=database.headers)

    @extend_schema(
        operation_id="export_month",
        parameters=[MonthQuerySerializer, AS_OF],
        responses={(200, "application/zip"): OpenApiResponse(OpenApiTypes.BINARY)},
    )
    def month(self, request: Request) -> StreamingHttpResponse:
        """Return a month as one zip: documents, charges, FOCUS, and a manifest.

        It is of organizations whose bills and charges the caller reads. Documents are PDF, CSV,
        XLSX and JSON lines, with the usage annex of an invoice where it is on. The journal is for
        callers who read it. All tables are of one state of the database; the manifest has the
        SHA-256, rows and totals of each file.
        """
        query = MonthQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        month = Month.parse(query.validated_data["month"], field="month")
        slug = self._slug(query.validated_data["organization"])
        ids = access_charged(self.actor, slug)
        database = report_database(at=self.at)
        blocks = stream_month(
            month=month,
            scope=FocusScope(ids, issuer=invoice_terms().issuer.name),
            annexed=ids if settings.USAGE_ANNEX else (),
            with_journal=is_platform_wide(self.actor, READ_JOURNAL),
            makers=BUNDLE_MAKERS,
            database=database,
            at=self.at,
        )
        name = bundle_name(month, slug)
        return download(blocks, name=name, content_type="application/zip", headers=database.headers)

    def _slug(self, organization_id: UUID | None) -> str:
        """Return the slug of the organization asked for; "" for all of them."""
        if organization_id is None:
            return ""
        return access_payer(self.actor, organization_id, READ_INVOICE).slug


def download(
    blocks: Iterable[bytes],
    *,
    name: str,
    content_type: str,
    headers: Mapping[str, str] | None = None,
) -> StreamingHttpResponse:
    """Return a file that is made while it is sent."""
    return StreamingHttpResponse(
        blocks,
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, no-store",
            **(headers or {}),
        },
    )
