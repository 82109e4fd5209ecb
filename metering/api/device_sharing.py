"""/api/v1/reports/device-sharing/: which tenants shared a device, and when."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import READ_CAPACITY, READ_USAGE
from metering.domain.devices.attribution import EVIDENCE_WORDS, NOTES, CoTenancyEvidence
from metering.domain.errors import SharingRangeError
from metering.selectors.devices.sharing import (
    CoTenancyInterval,
    cluster_of_report,
    device_sharing,
    reach_of,
)
from tenants.access import is_platform_wide, projects_visible_to
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.domain.errors import FieldProblem, InvalidInputError
from tenants.models import Project

SPAN_MAX: Final = timedelta(days=31)
PAGE_SIZE: Final = 50
PAGE_SIZE_MAX: Final = 200
CSV_ROWS_MAX: Final = 10_000
"""What one file holds; a longer one is asked for in parts."""
FORMULA_STARTS: Final = frozenset("=+-@\t\r\n")
COLUMNS: Final = (
    "begin_at",
    "end_at",
    "cluster",
    "node",
    "device_scope",
    "sharing_mode",
    "evidence",
    "organization",
    "project",
    "peer",
    "other_organization",
    "other_project",
)


class DeviceSharingQuerySerializer(StrictSerializer):
    """Which time, whose side, and where."""

    to = serializers.DateTimeField(help_text="End, excluded.")
    organization = serializers.UUIDField(required=False, default=None)
    cluster = serializers.CharField(
        required=False, default="", max_length=63, help_text="Its slug; every one without it."
    )
    cursor = serializers.CharField(required=False, default="", max_length=2_000)
    page_size = serializers.IntegerField(
        required=False, default=PAGE_SIZE, min_value=1, max_value=PAGE_SIZE_MAX
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; `from` is a word of Python's own."""
        begin = serializers.DateTimeField(help_text="From when, included.")
        return {"from": begin, **super().get_fields()}


class CoTenancyIntervalSerializer(serializers.Serializer[CoTenancyInterval]):
    """One interval in which a project and a peer shared a device or a node."""

    begin_at = serializers.DateTimeField()
    end_at = serializers.DateTimeField()
    cluster = serializers.CharField()
    node = serializers.CharField()
    device_scope = serializers.CharField(
        source="place", help_text="The resource; of MIG instances the GPU's uuid."
    )
    sharing_mode = serializers.CharField()
    evidence = serializers.CharField(help_text=", ".join(CoTenancyEvidence))
    organization = serializers.CharField()
    project = serializers.CharField()
    peer = serializers.CharField(help_text="What the peer is, where its name is hidden.")
    other_organization = serializers.CharField(help_text='"" where the caller may not read it.')
    other_project = serializers.CharField(help_text='"" where the caller may not read it.')


class DeviceSharingSerializer(serializers.Serializer[object]):
    """A page of intervals, what their evidence means, and what the report cannot know."""

    results = CoTenancyIntervalSerializer(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    evidence = serializers.DictField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField())


class DeviceSharingViewSet(LedgerViewSet):
    """Intervals in which projects shared a device or a node."""

    @extend_schema(
        operation_id="get_device_sharing",
        parameters=[DeviceSharingQuerySerializer],
        responses=DeviceSharingSerializer,
    )
    def report(self, request: Request) -> Response:
        """Return the intervals of what the caller reaches, oldest first."""
        asked = self._asked(request)
        found = self._find(asked, limit=asked["page_size"] + 1)
        page = found[: asked["page_size"]]
        answer = {
            "results": page,
            "next_cursor": page[-1].mark if len(found) > len(page) else None,
            "evidence": dict(EVIDENCE_WORDS),
            "notes": NOTES,
        }
        return Response(DeviceSharingSerializer(answer).data)

    @extend_schema(
        operation_id="download_device_sharing",
        parameters=[DeviceSharingQuerySerializer],
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)},
    )
    def csv(self, request: Request) -> HttpResponse:
        """Return all intervals of what the caller reaches as CSV, oldest first."""
        found = self._find(self._asked(request), limit=CSV_ROWS_MAX + 1)
        if len(found) > CSV_ROWS_MAX:
            raise SharingRangeError(f"There are more than {CSV_ROWS_MAX} rows.", field="to")
        # The stubs know no `many`: what they take for one interval is a list of them.
        rows = CoTenancyIntervalSerializer(found, many=True).data  # type: ignore[arg-type]
        return csv_response(rows, columns=COLUMNS, filename="device-sharing.csv")

    def _asked(self, request: Request) -> dict[str, Any]:
        query = DeviceSharingQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        asked = dict(query.validated_data)
        # Sharing in the future is unknown.
        asked["to"] = min(asked["to"], self.at)
        if not timedelta(0) < asked["to"] - asked["from"] <= SPAN_MAX:
            raise SharingRangeError("The range is empty, too long or to come.", field="to")
        return asked

    def _find(self, asked: Mapping[str, Any], *, limit: int) -> tuple[CoTenancyInterval, ...]:
        is_everybody = is_platform_wide(self.actor, READ_CAPACITY)
        projects = None if is_everybody else projects_visible_to(self.actor, READ_USAGE)
        cluster_id = _cluster_of(asked["cluster"], projects=projects)
        try:
            return device_sharing(
                begin_at=asked["from"],
                end_at=asked["to"],
                reach=reach_of(projects),
                limit=limit,
                organization_id=asked["organization"],
                cluster_id=cluster_id,
                after=asked["cursor"],
            )
        except ValueError as error:
            raise InvalidInputError(
                "The cursor cannot be used.",
                field="cursor",
                remedy="Follow `next_cursor` as it was given.",
            ) from error


def _cluster_of(slug: str, *, projects: QuerySet[Project] | None) -> UUID | None:
    """Return the cluster that was asked for; None for all of them."""
    if not slug:
        return None
    found = cluster_of_report(slug, projects=projects)
    if found is None:
        # A cluster that is not the caller's and one that does not exist are answered alike.
        message = "None of your projects is on a cluster of that name."
        raise InvalidInputError(
            "There is no such cluster.",
            field="cluster",
            remedy="Name a cluster by its slug, as the report does.",
            problems=(FieldProblem("cluster", "cluster_unknown", message),),
        )
    return found


def csv_response(
    rows: Iterable[Mapping[str, object]], *, columns: Sequence[str], filename: str
) -> HttpResponse:
    """Return rows as a CSV file with a header, in RFC 4180 form."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_safe(str(row[column])) for column in columns])
    answer = HttpResponse(text.getvalue().encode(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{filename}"'
    return answer


def _safe(text: str) -> str:
    """Return text that no spreadsheet takes for a formula. Source: OWASP ASVS 5.0, 1.2.10."""
    return f"'{text}" if text[:1] in FORMULA_STARTS else text
