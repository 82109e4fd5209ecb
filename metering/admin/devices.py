"""Admin pages of device usage, of shared and of unbilled devices."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import action

from metering.domain.catalogue.units import GPUSize, SharingMode
from metering.domain.devices import unbilled
from metering.domain.devices.attribution import EVIDENCE_WORDS, NOTES, CoTenancyEvidence
from metering.domain.devices.figures import Attribution
from metering.domain.figures import percent_text
from metering.models import DeviceUsage
from metering.selectors.devices.sharing import CoTenancyInterval, device_sharing, reach_of
from metering.selectors.devices.unbilled import (
    UnbilledDevice,
    UnbilledReport,
    unbilled_devices,
)
from tenants.access import clusters_visible_to
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.refusals import refusal_sentence
from tenants.domain.archives import MonthArchivedError
from tenants.models import Cluster
from tenants.templatetags.texts import figure, minute_text, value_text

ROWS_MAX: Final = 200
WEEK: Final = timedelta(days=7)
EVIDENCE_NAMES: Final = {
    CoTenancyEvidence.SAME_DEVICE: gettext_noop("Same device"),
    CoTenancyEvidence.SAME_NODE: gettext_noop("Same node"),
    CoTenancyEvidence.SAME_GPU_INSTANCES: gettext_noop("Instances of one GPU"),
}
HEADERS: Final = (
    gettext_noop("Who"),
    gettext_noop("With"),
    gettext_noop("What is known"),
    gettext_noop("From"),
    gettext_noop("To"),
    gettext_noop("Cluster"),
    gettext_noop("Node"),
    gettext_noop("On"),
    gettext_noop("How"),
)


CAUSE_NAMES: Final = {
    unbilled.UnbilledCause.POD_NAMED: gettext_noop("Pod named"),
    unbilled.UnbilledCause.BUSY: gettext_noop("Busy without a pod"),
    unbilled.UnbilledCause.ALLOCATED: gettext_noop("Allocated"),
}
UNBILLED_HEADERS: Final = (
    gettext_noop("Hour (UTC)"),
    gettext_noop("Cluster"),
    gettext_noop("Node"),
    gettext_noop("What is known"),
    gettext_noop("Held by"),
    gettext_noop("Seconds"),
    gettext_noop("Busy"),
    gettext_noop("Pod or claim"),
    gettext_noop("Resource"),
    gettext_noop("Device"),
)


def sharing_context(
    *, week: str, cluster: str = "", clusters: QuerySet[Cluster], at: datetime
) -> dict[str, Any]:
    """Return the template's values for a week of shared devices, for people of the platform.

    Args:
        week: Its first day, as "2026-10-05"; anything else is the week that ends now.
        cluster: Slug of the only one shown; "" or an unknown one for all.
        clusters: Those that can be chosen.
        at: Now.
    """
    context, chosen = _week_context(week=week, cluster=cluster, clusters=clusters, at=at)
    found = device_sharing(
        begin_at=context["begin"],
        end_at=context["end"],
        reach=reach_of(None),
        limit=ROWS_MAX + 1,
        cluster_id=None if chosen is None else chosen.pk,
    )
    return {
        **context,
        "lead": gettext("Which projects were on one GPU with whom, and when."),
        "card": gettext("Shared time"),
        "empty": gettext(
            "No two projects were known to be close to each other in {place} in this time."
        ).format(place=context["place"]),
        "words": [
            (gettext(EVIDENCE_NAMES[kind]), gettext(words))
            for kind, words in EVIDENCE_WORDS.items()
        ],
        "notes": [gettext(note) for note in NOTES],
        "headers": [gettext(header) for header in HEADERS],
        "rows": [_row(one) for one in found[:ROWS_MAX]],
        "is_cut": len(found) > ROWS_MAX,
    }


def unbilled_context(
    *, week: str, cluster: str = "", clusters: QuerySet[Cluster], at: datetime
) -> dict[str, Any]:
    """Return the template's values for a week of unbilled devices; see `sharing_context`."""
    context, chosen = _week_context(week=week, cluster=cluster, clusters=clusters, at=at)
    archived = ""
    try:
        found = unbilled_devices(
            begin_at=context["begin"],
            end_at=context["end"],
            limit=ROWS_MAX + 1,
            cluster_id=None if chosen is None else chosen.pk,
        )
    except MonthArchivedError as refusal:
        found, archived = UnbilledReport((), {}), refusal_sentence(refusal)
    unknown = [f"{slug}: {hours}" for slug, hours in found.unknown_hours.items()]
    text = gettext("Sealed hours without device figures: {hours}.")
    notes = [text.format(hours=", ".join(unknown))] if unknown else []
    return {
        **context,
        "lead": gettext("Which devices and allocations of sealed hours no usage record covers."),
        "card": gettext("In use, and on no bill"),
        "empty": archived
        or gettext("Every device known to be in use in {place} is on a bill.").format(
            place=context["place"]
        ),
        "words": [
            (gettext(CAUSE_NAMES[kind]), gettext(words))
            for kind, words in unbilled.CAUSE_WORDS.items()
        ],
        "notes": [*notes, *(gettext(note) for note in unbilled.NOTES)],
        "headers": [gettext(header) for header in UNBILLED_HEADERS],
        "rows": [_unbilled_row(one) for one in found.rows[:ROWS_MAX]],
        "is_cut": len(found.rows) > ROWS_MAX,
    }


def _week_context(
    *, week: str, cluster: str, clusters: QuerySet[Cluster], at: datetime
) -> tuple[dict[str, Any], Cluster | None]:
    """Return what every report of a week has, and the cluster that was chosen."""
    begin = _begin_of(week, at=at)
    choices = {one.slug: one for one in clusters.order_by("slug")}
    chosen = choices.get(cluster)
    context = {
        "clusters": [(one.slug, one.name) for one in choices.values()],
        "cluster": "" if chosen is None else chosen.slug,
        "place": gettext("any cluster") if chosen is None else chosen.name,
        "begin": begin,
        "end": min(begin + WEEK, at),
        "previous": begin - WEEK,
        "following": begin + WEEK if begin + WEEK < at else None,
        "rows_max": ROWS_MAX,
    }
    return context, chosen


def _begin_of(week: str, *, at: datetime) -> datetime:
    latest = datetime.combine(at.date() - WEEK + timedelta(days=1), time(), UTC)
    try:
        begin = datetime.combine(date.fromisoformat(week), time(), UTC)
    except ValueError:
        return latest
    return begin if begin.year > 1 and begin < at else latest


def _row(one: CoTenancyInterval) -> list[str]:
    return [
        f"{one.organization}/{one.project}",
        f"{one.other_organization}/{one.other_project}",
        gettext(EVIDENCE_NAMES[one.evidence]),
        minute_text(one.begin_at),
        minute_text(one.end_at),
        one.cluster,
        one.node,
        one.place,
        one.sharing_mode,
    ]


def _unbilled_row(one: UnbilledDevice) -> list[str]:
    pod = f"{one.namespace}/{one.pod_name}" if one.pod_name else ""
    return [
        minute_text(one.window_start),
        one.cluster,
        one.node,
        gettext(CAUSE_NAMES[one.cause]),
        value_text(one.exception) or gettext("nothing"),
        str(one.seconds),
        figure(percent_text(one.busy_ratio)),
        pod,
        one.resource,
        f"{one.uuid} {one.instance_id}".strip(),
    ]


@admin.register(DeviceUsage)
class DeviceUsageAdmin(LedgerAdmin):
    """What each device did in each hour."""

    view_capability = "metering:capacity:read"
    hint = (
        "Nothing here is billed. A figure without data is empty, never 0; the figures of a "
        "shared device cover all its users together."
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
        "is_busy_uncertain",
    )
    list_filter = ("attribution", "sharing_mode", "size", "cluster", "window_start")
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {
        "attribution": Attribution,
        "sharing_mode": SharingMode,
        "size": GPUSize,
    }
    list_select_related = ("cluster", "project")
    search_fields = ("node", "uuid", "pod_name", "namespace")
    day_column = "window_start"
    ordering = ("-window_start", "node", "uuid", "instance_id")
    actions_list = ("sharing", "unbilled")

    @admin.display(description="device", ordering="uuid")
    def device(self, row: DeviceUsage) -> str:
        """Return the GPU, with its instance where there is one."""
        return f"{row.uuid} {row.instance_profile}".strip()

    @admin.display(description="busy", ordering="busy_ratio")
    def busy_percent(self, row: DeviceUsage) -> str:
        """Return the share of time in use."""
        return figure(percent_text(row.busy_ratio))

    @admin.display(description="SM active", ordering="sm_active_ratio")
    def sm_percent(self, row: DeviceUsage) -> str:
        """Return the share of SMs with work."""
        return figure(percent_text(row.sm_active_ratio))

    @admin.display(description="memory peak (MiB)", ordering="memory_used_peak_mebibytes")
    def memory_peak(self, row: DeviceUsage) -> str:
        """Return the largest amount in use, of how much there is."""
        if row.memory_used_peak_mebibytes is None:
            return ""
        total = row.memory_total_mebibytes
        of_total = "" if total is None else gettext(" of {total}").format(total=total)
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
            **self.page_context(request, title=gettext("Device sharing")),
            **sharing_context(
                week=request.GET.get("week", ""),
                cluster=request.GET.get("cluster", ""),
                clusters=clusters_visible_to(actor_of_request(request)),
                at=timezone.now(),
            ),
        }
        return TemplateResponse(request, "admin/metering/deviceusage/week.html", context)

    @action(
        description="Unbilled devices",
        url_path="unbilled",
        permissions=["view"],
        icon="money_off",
    )
    def unbilled(self, request: HttpRequest) -> TemplateResponse:
        """Show a week of devices in use without a usage record."""
        context = {
            **self.page_context(request, title=gettext("Unbilled devices")),
            **unbilled_context(
                week=request.GET.get("week", ""),
                cluster=request.GET.get("cluster", ""),
                clusters=clusters_visible_to(actor_of_request(request)),
                at=timezone.now(),
            ),
        }
        return TemplateResponse(request, "admin/metering/deviceusage/week.html", context)
