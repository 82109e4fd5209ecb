"""The admin page of device usage: read-only, and plain about what is not known."""

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.decorators import action

from metering.admin.sharing import sharing_context
from metering.domain.words import percent_words
from metering.models import DeviceUsage
from tenants.access import clusters_visible_to
from tenants.admin.base import LedgerAdmin, actor_of_request


@admin.register(DeviceUsage)
class DeviceUsageAdmin(LedgerAdmin):
    """What each device did in each hour."""

    view_capability = "metering:capacity:read"
    hint = (
        "Nothing here is billed. A figure without data is empty, never 0; a shared device speaks of"
        " all who share it together."
    )
    list_display = (
        "begin_at",
        "cluster",
        "node",
        "device",
        "attribution",
        "pod_name",
        "project",
        "busy_percent",
        "sm_percent",
        "memory_peak",
        "power",
        "is_busy_doubtful",
    )
    list_filter = ("attribution", "sharing_mode", "size", "cluster", "window_start")
    list_select_related = ("cluster", "project")
    search_fields = ("node", "uuid", "pod_name", "namespace")
    date_hierarchy = "window_start"
    ordering = ("-window_start", "node", "uuid", "instance_id")
    actions_list = ("sharing",)

    @admin.display(description="device", ordering="uuid")
    def device(self, row: DeviceUsage) -> str:
        """Return the GPU, with its instance where there is one."""
        return f"{row.uuid} {row.instance_profile}".strip()

    @admin.display(description="busy", ordering="busy_ratio")
    def busy_percent(self, row: DeviceUsage) -> str:
        """Return the share of time in use."""
        return percent_words(row.busy_ratio)

    @admin.display(description="SM active", ordering="sm_active_ratio")
    def sm_percent(self, row: DeviceUsage) -> str:
        """Return the share of SMs with work."""
        return percent_words(row.sm_active_ratio)

    @admin.display(description="memory peak (MiB)", ordering="memory_used_peak_mebibytes")
    def memory_peak(self, row: DeviceUsage) -> str:
        """Return the largest amount in use, of how much there is."""
        if row.memory_used_peak_mebibytes is None:
            return ""
        total = row.memory_total_mebibytes
        of_total = "" if total is None else f" of {total}"
        return f"{row.memory_used_peak_mebibytes}{of_total}"

    @admin.display(description="power (W)", ordering="power_mean_milliwatts")
    def power(self, row: DeviceUsage) -> str:
        """Return the mean power of the physical GPU, in whole watts."""
        milliwatts = row.power_mean_milliwatts
        return "" if milliwatts is None else str(milliwatts // 1000)

    @action(
        description="Who shared devices", url_path="sharing", permissions=["view"], icon="group"
    )
    def sharing(self, request: HttpRequest) -> TemplateResponse:
        """Show a week of which projects were on one device with whom."""
        context = {
            **self.page_context(request, title="Device sharing"),
            **sharing_context(
                week=request.GET.get("week", ""),
                cluster=request.GET.get("cluster", ""),
                clusters=clusters_visible_to(actor_of_request(request)),
                at=timezone.now(),
            ),
        }
        return TemplateResponse(request, "admin/metering/deviceusage/sharing.html", context)
