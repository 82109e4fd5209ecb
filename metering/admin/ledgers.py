"""Admin pages of metering's ledgers: usage, allocations, capacity and catalogue versions."""

from django.contrib import admin

from metering.models import CapacityRecord, CatalogueVersion, PodAllocation, UsageRecord
from tenants.admin.base import LedgerAdmin


@admin.register(UsageRecord)
class UsageRecordAdmin(LedgerAdmin):
    """What each pod used in each hour."""

    view_capability = "metering:usage:read"
    hint = "Once its hour is sealed, the database refuses to change or delete a record."
    list_display = (
        "window_start",
        "organization",
        "project",
        "owner_name",
        "pod_name",
        "size",
        "price_group",
        "units",
        "seconds",
        "unit_seconds",
        "busy_ratio",
    )
    list_filter = ("size", "sharing_mode", "organization", "cluster", "window_start")
    list_select_related = ("organization", "project")
    search_fields = ("pod_name", "pod_uid", "namespace", "owner")
    date_hierarchy = "window_start"
    ordering = ("-window_start", "id")

    @admin.display(description="owner", ordering="owner")
    def owner_name(self, record: UsageRecord) -> str:
        """Return who it is attributed to."""
        return record.owner or "unattributed"


@admin.register(PodAllocation)
class PodAllocationAdmin(LedgerAdmin):
    """What each pod holds or held."""

    view_capability = "metering:usage:read"
    hint = "What a pod holds is settled at its first sight and never derived again."
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
    list_filter = ("size", "sharing_mode", "end_kind", "cluster", "begin_at")
    list_select_related = ("cluster",)
    search_fields = ("pod_name", "pod_uid", "namespace", "owner", "node")


@admin.register(CapacityRecord)
class CapacityRecordAdmin(LedgerAdmin):
    """What each node offered in each hour."""

    view_capability = "metering:capacity:read"
    hint = "Capacity = billed + held + idle, in unit-seconds; negative idle is over capacity."
    list_display = (
        "window_start",
        "cluster",
        "node",
        "resource",
        "size",
        "allocatable_units",
        "capacity_unit_seconds",
        "billed_unit_seconds",
        "held_unit_seconds",
        "idle_unit_seconds",
    )
    list_filter = ("size", "cluster", "window_start")
    list_select_related = ("cluster",)
    search_fields = ("node", "resource")
    date_hierarchy = "window_start"


@admin.register(CatalogueVersion)
class CatalogueVersionAdmin(LedgerAdmin):
    """The rules that say which size a GPU resource is."""

    view_capability = "metering:window:read"
    hint = "The newest version is in force; a version is never changed."
    list_display = ("version", "digest", "created_at")
