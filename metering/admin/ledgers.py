"""Admin pages of metering's ledgers: usage, allocations and capacity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.urls import reverse

from metering.access import READ_USAGE, WRITE_CORRECTION
from metering.admin.record_correction import correction_context, press_correction
from metering.domain.allocations.timeline import EndKind
from metering.domain.catalogue.units import GPUSize, SharingMode
from metering.domain.explain import Step
from metering.domain.figures import percent_text, unit_hours_text
from metering.models import CapacityRecord, PodAllocation, UsageRecord
from metering.selectors.explain import explain_record
from tenants.admin.base import LedgerAdmin


@admin.register(UsageRecord)
class UsageRecordAdmin(LedgerAdmin):
    """What each pod used in each hour."""

    view_capability = READ_USAGE
    write_capability = WRITE_CORRECTION
    hint = (
        "Once its hour is sealed, the database refuses to change or delete a record. Open it to "
        "correct it by a signed one."
    )
    change_form_before_template = "admin/metering/usagerecord/explanation.html"
    change_form_outer_after_template = "admin/metering/usagerecord/correction.html"
    list_display = (
        "window_start",
        "organization",
        "project",
        "owner_name",
        "pod_name",
        "size",
        "price_group",
        "units",
        "unit_seconds",
        "unit_hours",
        "busy_percent",
    )
    list_filter = ("size", "sharing_mode", "organization", "cluster", "window_start")
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {
        "size": GPUSize,
        "sharing_mode": SharingMode,
    }
    list_select_related = ("organization", "project", "activity")
    search_fields = ("pod_name", "pod_uid", "namespace", "owner")
    day_column = "window_start"
    ordering = ("-window_start", "id")

    @admin.display(description="owner", ordering="owner")
    def owner_name(self, record: UsageRecord) -> str:
        """Return the owner it is attributed to."""
        return record.owner or "unattributed"

    @admin.display(description="unit-hours", ordering="unit_seconds")
    def unit_hours(self, record: UsageRecord) -> str:
        """Return units x time, rounded for reading."""
        return unit_hours_text(record.unit_seconds)

    @admin.display(description="busy", ordering="activity__busy_ratio")
    def busy_percent(self, record: UsageRecord) -> str:
        """Return how busy the device was, where that was measured."""
        return percent_text(record.activity.busy_ratio if record.activity else None)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return a record's page: the way back to its evidence, and the form that corrects it."""
        record = self.get_object(request, object_id) if object_id else None
        may_write = self.has_write_permission(request)
        if record is not None and request.method == "POST" and may_write:
            return press_correction(self, request, record)
        if record is not None and self.has_view_permission(request):
            extra_context = {
                "steps": [_shown(step) for step in explain_record(record)],
                **correction_context(request, record, may_write=may_write),
                **(extra_context or {}),
            }
        answer: HttpResponse = super().changeform_view(request, object_id, form_url, extra_context)
        return answer


def _shown(step: Step) -> dict[str, Any]:
    """Return a step with its facts named in words; a query is long and folded."""
    return {
        "heading": step.heading,
        "sentence": step.sentence,
        "is_folded": "query" in step.facts,
        "facts": [
            (name if "." in name else name.replace("_", " ").capitalize(), text)
            for name, text in step.facts.items()
            if text not in (None, "")
        ],
    }


@admin.register(PodAllocation)
class PodAllocationAdmin(LedgerAdmin):
    """What each pod holds or held."""

    view_capability = "metering:usage:read"
    hint = "What a pod holds is settled when it is first observed and never derived again."
    list_display = (
        "pod_name",
        "namespace",
        "cluster",
        "node",
        "owner",
        "units",
        "resource",
        "size",
        "begin_at",
        "end_at",
        "end_kind",
    )
    day_column = "begin_at"
    list_filter = ("size", "sharing_mode", "end_kind", "cluster", "begin_at")
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {
        "size": GPUSize,
        "sharing_mode": SharingMode,
        "end_kind": EndKind,
    }
    list_select_related = ("cluster",)
    search_fields = ("pod_name", "pod_uid", "namespace", "owner", "node")

    def get_search_fields(self, request: HttpRequest) -> Sequence[str]:
        """Return what is searched: the sidebar only looks where an index helps.

        It searches while a person types, and a part of a name would be compared with every pod.
        """
        if request.path == reverse("admin:search"):
            return ("pod_name__istartswith", "pod_uid__istartswith")
        return self.search_fields


@admin.register(CapacityRecord)
class CapacityRecordAdmin(LedgerAdmin):
    """What each node offered in each hour."""

    view_capability = "metering:capacity:read"
    hint = "Capacity = billed + held + idle, in unit-hours; negative idle is over capacity."
    list_display = (
        "window_start",
        "cluster",
        "node",
        "resource",
        "size",
        "allocatable_units",
        "capacity_hours",
        "billed_hours",
        "held_hours",
        "idle_hours",
    )
    list_filter = ("size", "cluster", "window_start")
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {"size": GPUSize}
    list_select_related = ("cluster",)
    search_fields = ("node", "resource")
    day_column = "window_start"
    ordering = ("-window_start", "node", "resource")

    @admin.display(description="capacity", ordering="capacity_unit_seconds")
    def capacity_hours(self, record: CapacityRecord) -> str:
        """Return what was offered."""
        return unit_hours_text(record.capacity_unit_seconds)

    @admin.display(description="billed", ordering="billed_unit_seconds")
    def billed_hours(self, record: CapacityRecord) -> str:
        """Return what was billed."""
        return unit_hours_text(record.billed_unit_seconds)

    @admin.display(description="held", ordering="held_unit_seconds")
    def held_hours(self, record: CapacityRecord) -> str:
        """Return what was seen in use but not billed."""
        return unit_hours_text(record.held_unit_seconds)

    @admin.display(description="idle", ordering="idle_unit_seconds")
    def idle_hours(self, record: CapacityRecord) -> str:
        """Return what was left."""
        return unit_hours_text(record.idle_unit_seconds)
