"""/api/v1/usage-summary/: use and its cost, added up by what the caller asks to tell apart."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from billing.access import charges_visible_to
from billing.api.money import MoneyValueField
from billing.domain.period import HourSpan, Month, month_hours
from billing.selectors.costs import UseCost, costs_by_use
from metering.access import READ_USAGE
from metering.domain.errors import SummaryRangeError
from metering.selectors.collection.usage import (
    USE_COLUMNS,
    UsageGroup,
    UsageTotal,
    usage_totals,
)
from tenants.access import projects_visible_to
from tenants.api.actors import actor_of_request
from tenants.api.expansion import add_names, described, wanted_names
from tenants.api.openapi.operations import AS_OF_HELP
from tenants.api.serializers import StrictSerializer
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import require_rows
from tenants.selectors.directory import shared_time_zone
from tenants.selectors.report_database import report_database

RANGE_MAX = timedelta(days=400)
ROWS_MAX = 10_000
"""A month by hour for a dozen groups; more is a list of records, not a summary."""
GROUP_CHOICES = [(group.value, group.value) for group in UsageGroup]
NAMED = ("organization", "project", "cluster")
TOO_MANY = "So many totals are not returned at once."
NO_COST = UseCost(unit_seconds=0, cost=None)


class UsageSummaryQuerySerializer(StrictSerializer):
    """What to add up, and what to tell apart."""

    month = serializers.CharField(
        required=False,
        max_length=7,
        help_text="A month such as 2026-10 instead of a range: in the time zone of the "
        "organization, or UTC for organizations in several.",
    )
    window_start_from = serializers.DateTimeField(required=False, help_text="First hour, included.")
    window_start_before = serializers.DateTimeField(required=False, help_text="End, excluded.")
    group_by = serializers.CharField(
        default="project,size", help_text="Comma-separated: " + ", ".join(UsageGroup)
    )
    organization = serializers.UUIDField(required=False)
    project = serializers.UUIDField(required=False)
    expand = serializers.CharField(required=False)

    def validate_group_by(self, text: str) -> list[UsageGroup]:
        """Return the groups named, in that order.

        Raises:
            ValidationError: One of them is not known.
        """
        field = serializers.ListField(child=serializers.ChoiceField(choices=GROUP_CHOICES))
        names = field.run_validation([part.strip() for part in text.split(",") if part.strip()])
        return [UsageGroup(name) for name in names]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the query, which has a month or both ends of a range.

        Raises:
            ValidationError: It has neither, or more.
        """
        ends = ("window_start_from", "window_start_before")
        if "month" in attrs:
            wrong = {name: "Leave it out beside a month." for name in ends if name in attrs}
        else:
            wrong = {name: "Send both ends, or a month." for name in ends if name not in attrs}
        if wrong:
            raise serializers.ValidationError(wrong)
        return attrs


@dataclass(frozen=True)
class PricedTotal:
    """A total of use, with what it costs."""

    use: UsageTotal
    cost: UseCost


class UsageTotalSerializer(serializers.Serializer[PricedTotal]):
    """One total; dimensions that it is not grouped by are null."""

    organization = serializers.UUIDField(source="use.organization_id", allow_null=True)
    project = serializers.UUIDField(source="use.project_id", allow_null=True)
    owner = serializers.CharField(source="use.owner", allow_null=True)
    cluster = serializers.UUIDField(source="use.cluster_id", allow_null=True)
    size = serializers.CharField(source="use.size", allow_null=True)
    price_group = serializers.CharField(source="use.price_group", allow_null=True)
    bucket_at = serializers.DateTimeField(source="use.bucket_at", allow_null=True)
    records = serializers.IntegerField(source="use.records")
    unit_seconds = serializers.IntegerField(source="use.unit_seconds")
    charged_unit_seconds = serializers.IntegerField(
        source="cost.unit_seconds",
        help_text="How much of it has a price and is among the charges that the caller reads.",
    )
    cost = MoneyValueField(
        source="cost.cost",
        allow_null=True,
        help_text="Of that, at the prices of its charges; discounts over a month, minimums, "
        "credits and taxes come on the document. Null without charges, and for several currencies.",
    )
    busy_ratio = serializers.DecimalField(
        source="use.busy_ratio", max_digits=7, decimal_places=6, allow_null=True
    )
    busy_unit_seconds = serializers.IntegerField(source="use.busy_unit_seconds")
    energy_millijoules = serializers.IntegerField(source="use.energy_millijoules", allow_null=True)


@extend_schema_serializer(many=False)
class UsageSummarySerializer(serializers.Serializer[object]):
    """The totals, ordered by their groups, and the hours that they are of."""

    window_start_from = serializers.DateTimeField(source="span.begin_at")
    window_start_before = serializers.DateTimeField(source="span.end_at")
    as_of = serializers.DateTimeField(allow_null=True, help_text=AS_OF_HELP)
    totals = UsageTotalSerializer(many=True)


class UsageSummaryViewSet(ViewSet):
    """Use and cost, added up."""

    @extend_schema(
        operation_id="get_usage_summary",
        summary="Sum up usage and cost",
        parameters=[UsageSummaryQuerySerializer, described(NAMED)],
        responses=UsageSummarySerializer,
    )
    def list(self, request: Request) -> Response:
        """Return totals of the usage in the projects the caller reaches, with their cost."""
        query = UsageSummaryQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        wanted = wanted_names(request, NAMED)
        asked, actor = query.validated_data, actor_of_request(request)
        projects = projects_visible_to(actor, READ_USAGE)
        narrowed = {
            "organization_id": asked.get("organization"),
            "project_id": asked.get("project"),
        }
        zone = ZoneInfo(shared_time_zone(projects, **narrowed)) if "month" in asked else None
        span = _span(asked, zone)
        hours = {"begin_at": span.begin_at, "end_at": span.end_at, "group_by": asked["group_by"]}
        database = report_database(at=timezone.now())
        with database.reading():
            require_rows(ArchivedTable.USAGE, begin_at=span.begin_at, end_at=span.end_at)
            totals = usage_totals(**hours, **narrowed, projects=projects)
            if len(totals) > ROWS_MAX:
                raise SummaryRangeError(TOO_MANY, field="group_by")
            costs = costs_by_use(charges_visible_to(actor), **hours, **narrowed)
        priced = [PricedTotal(total, costs.get(_key(total), NO_COST)) for total in totals]
        answer = {"span": span, "as_of": database.stated_as_of, "totals": priced}
        body = UsageSummarySerializer(answer).data
        add_names(body, wanted, actor=actor)
        return Response(body)


def _span(asked: dict[str, Any], zone: ZoneInfo | None) -> HourSpan:
    if zone is not None:
        return month_hours(Month.parse(asked["month"], field="month"), zone)
    span = HourSpan(asked["window_start_from"], asked["window_start_before"])
    if not timedelta(0) < span.end_at - span.begin_at <= RANGE_MAX:
        raise SummaryRangeError("The range is empty or too long.", field="window_start_before")
    return span


def _key(total: UsageTotal) -> tuple[Any, ...]:
    return tuple(getattr(total, name) for name in USE_COLUMNS)
