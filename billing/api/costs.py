"""Endpoints /api/v1/costs/, its csv/ and xlsx/: costs of days, grouped and compared."""

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import exceptions_visible_to
from billing.access.costs import changed_hours_visible_to, clusters_in_use, daily_costs_visible_to
from billing.adapters.documents import render_table
from billing.adapters.workbooks import CONTENT_TYPE, Sheet, render_workbook
from billing.api.attachments import attachment
from billing.api.money import MoneyValueField
from billing.domain.cost_table import FIGURES, cost_columns, cost_file_name, cost_record
from billing.domain.costs import DAY, CostDimension, CostQuery, GroupCost, parse_dimensions
from billing.selectors.cost_report import CostReport, cost_report
from tenants.api.openapi.operations import AS_OF, AS_OF_HELP
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.selectors.report_database import ReportDatabase, report_database


class CostQuerySerializer(StrictSerializer):
    """Which days, grouped by what, and of what alone."""

    to = serializers.DateField(
        required=False, default=None, help_text="The day after the last; tomorrow without it."
    )
    group_by = serializers.CharField(
        required=False,
        default=CostDimension.ORGANIZATION.value,
        max_length=64,
        help_text=f"One or two of: {', '.join(CostDimension)}; divided by a comma.",
    )
    organization = serializers.UUIDField(required=False)
    project = serializers.UUIDField(required=False)
    owner = serializers.CharField(required=False, allow_blank=True, max_length=150)
    cost_center = serializers.CharField(required=False, allow_blank=True, max_length=64)
    size = serializers.CharField(required=False, max_length=16)
    price_group = serializers.CharField(
        required=False, max_length=96, help_text="GPU model and share, such as H100/1g.10gb."
    )
    cluster = serializers.UUIDField(required=False)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; `from` is a word of Python's own."""
        first = serializers.DateField(
            required=False,
            default=None,
            help_text="The first day, local to each organization; the first of this month without.",
        )
        return {"from": first, **super().get_fields()}


class CostKeySerializer(serializers.Serializer[Any]):
    """One value of what costs are grouped by."""

    by = serializers.ChoiceField(choices=[(one.value, one.value) for one in CostDimension])
    value = serializers.CharField(
        help_text="Filters by it: the id of an organization, project or cluster, else the value."
    )
    name = serializers.CharField()
    slug = serializers.CharField(help_text="Of an organization, project or cluster.")
    organization = serializers.CharField(help_text="Slug of a project's organization.")


class CostTotalSerializer(serializers.Serializer[GroupCost]):
    """Costs of all rows in one currency, as charged: before tiers, minimums, credits and taxes."""

    cost = MoneyValueField()
    previous_cost = MoneyValueField()
    growth = serializers.CharField(
        allow_null=True, help_text='Change to the days before as a ratio: "0.2500" is 25 % more.'
    )
    run_rate = MoneyValueField(
        allow_null=True,
        help_text="The whole running month at its pace so far, where some of it is asked for.",
    )


class CostRowSerializer(CostTotalSerializer):
    """Costs of one group in one currency."""

    group = CostKeySerializer(many=True, source="keys")
    unit_seconds = serializers.IntegerField(
        allow_null=True, help_text="Null where units of several sizes would be added."
    )
    share = serializers.CharField(
        allow_null=True, help_text="Of the total in this currency, as a ratio."
    )


class CostReportSerializer(serializers.Serializer[CostReport]):
    """Costs by group, with those of as many days before."""

    to = serializers.DateField(source="query.end", help_text="The day after the last.")
    previous_from = serializers.DateField(source="query.previous_first")
    as_of = serializers.SerializerMethodField()
    metered_until = serializers.DateTimeField(
        allow_null=True,
        help_text="The end of the last hour that every cluster in use has sealed: to a tenant, of "
        "those in which its projects have namespaces.",
    )
    open_hours = serializers.IntegerField(
        source="gaps.open_hours",
        help_text="Hours of clusters in these days that are not sealed before `metered_until`.",
    )
    unpriced_unit_seconds = serializers.DictField(
        child=serializers.IntegerField(),
        source="gaps.unpriced",
        help_text="Use of these days that waits for a price, by size, of all people and clusters.",
    )
    changed_days = serializers.IntegerField(
        source="gaps.changed_days",
        help_text="Days of organizations with charges that are added up within minutes.",
    )
    tiers_included = serializers.BooleanField(
        default=False, help_text="Always false: tiers are discounts of documents, not of charges."
    )
    totals = CostTotalSerializer(many=True)
    results = CostRowSerializer(many=True, source="rows")

    @extend_schema_field(serializers.DateTimeField(allow_null=True, help_text=AS_OF_HELP))
    def get_as_of(self, report: CostReport) -> datetime | None:  # noqa: ARG002 - DRF's signature.
        """Return as of when the database was, which the report was read from."""
        stated: datetime | None = self.context["as_of"]
        return stated

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; `from` is a word of Python's own."""
        return {"from": serializers.DateField(source="query.first"), **super().get_fields()}


class CostViewSet(LedgerViewSet):
    """Costs of what the caller reads charges of; of members their own."""

    @extend_schema(
        operation_id="cost_report", parameters=[CostQuerySerializer], responses=CostReportSerializer
    )
    def report(self, request: Request) -> Response:
        """Return costs of a range of days, grouped, compared with as many days before."""
        report, database = self._report(request)
        context = {"as_of": database.stated_as_of}
        return Response(CostReportSerializer(report, context=context).data)

    @extend_schema(
        operation_id="cost_report_csv",
        parameters=[CostQuerySerializer, AS_OF],
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)},
    )
    def csv(self, request: Request) -> HttpResponse:
        """Return the same rows as CSV."""
        report, database = self._report(request)
        columns, records = cost_columns(report.query.group_by), map(cost_record, report.rows)
        content = render_table(columns, records, numbers=FIGURES)
        return _attachment(content, report, database, kind="text/csv; charset=utf-8", suffix="csv")

    @extend_schema(
        operation_id="cost_report_xlsx",
        parameters=[CostQuerySerializer, AS_OF],
        responses={(200, CONTENT_TYPE): OpenApiResponse(OpenApiTypes.BINARY)},
    )
    def xlsx(self, request: Request) -> HttpResponse:
        """Return the same rows as an XLSX workbook."""
        report, database = self._report(request)
        columns, records = cost_columns(report.query.group_by), map(cost_record, report.rows)
        content = render_workbook(
            Sheet("Costs", columns, records, FIGURES), at=report.metered_until or self.at
        )
        return _attachment(content, report, database, kind=CONTENT_TYPE, suffix="xlsx")

    def _report(self, request: Request) -> tuple[CostReport, ReportDatabase]:
        serializer = CostQuerySerializer(data=request.query_params.dict())
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        today = self.at.date()
        query = CostQuery(
            first=asked["from"] or today.replace(day=1),
            end=asked["to"] or today + DAY,
            group_by=parse_dimensions(asked["group_by"]),
            filters={one: str(asked[one.value]) for one in CostDimension if one.value in asked},
        )
        database = report_database(at=self.at)
        with database.reading():
            report = cost_report(
                daily_costs_visible_to(self.actor),
                query,
                unpriced=exceptions_visible_to(self.actor),
                changed=changed_hours_visible_to(self.actor),
                clusters=clusters_in_use(self.actor, query),
                at=database.as_of,
            )
        return report, database


def _attachment(
    content: bytes, report: CostReport, database: ReportDatabase, *, kind: str, suffix: str
) -> HttpResponse:
    response = attachment(content, cost_file_name(report.query, suffix=suffix), kind=kind)
    for name, value in database.headers.items():
        response[name] = value
    return response
