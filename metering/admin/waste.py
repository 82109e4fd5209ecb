"""Admin pages of waste and health: findings, device events, credits and hours of each cluster."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import display

from metering.domain.devices.error_tables import EventSeverity
from metering.domain.figures import duration_text, percent_text, ratio_text, unit_hours_text
from metering.models import (
    ClusterHealth,
    CreditProposal,
    CreditState,
    DeviceEvent,
    WasteFinding,
    WasteState,
)
from metering.selectors.efficiency import WASTED_ORDER
from metering.services.devices.credits import decide_credit
from metering.services.devices.events import end_device_event
from metering.services.efficiency.waste import dismiss_finding
from tenants.admin.base import LedgerAdmin
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.templatetags.texts import figure, value_text

WASTE_COLORS = {
    WasteState.OPEN.value: "warning",
    WasteState.CLOSED.value: "success",
    WasteState.DISMISSED.value: "info",
}
CREDIT_COLORS = {
    CreditState.PROPOSED.value: "warning",
    CreditState.ACCEPTED.value: "success",
    CreditState.DISMISSED.value: "info",
    CreditState.WITHDRAWN.value: "default",
}
SEVERITY_COLORS = {
    EventSeverity.FAIL.value: "danger",
    EventSeverity.WARN.value: "warning",
    EventSeverity.APPLICATION.value: "info",
}


@admin.register(WasteFinding)
class WasteFindingAdmin(LedgerAdmin):
    """What was held and not used."""

    view_capability = "metering:waste:read"
    write_capability = "metering:waste:dismiss"
    hint = (
        "Found in sealed hours that have data. A finding closes when its cause ends; dismiss "
        "intended use with a reason. Wasted is unknown, not zero, where no memory figure "
        "shows whether a smaller size would do."
    )
    action_form = NoteActionForm
    exclude = ("wasted_unit_seconds",)
    readonly_fields = ("wasted_hours",)
    list_display = (
        "rule_label",
        "state_label",
        "organization",
        "project",
        "pod_name",
        "held",
        "suggested",
        "wasted_hours",
        "activity",
        "from_at",
    )
    day_column = "until_at"
    list_filter = ("state", "rule", "organization", "cluster", "size")
    list_select_related = ("organization", "project")
    search_fields = ("pod_name", "namespace", "owner", "pod_uid")
    ordering = (WASTED_ORDER.desc(), "-pk")
    actions = ("dismiss_findings",)

    @admin.display(description="rule", ordering="rule")
    def rule_label(self, finding: WasteFinding) -> str:
        """Return the rule as people say it."""
        return str(finding.get_rule_display())

    @display(description="state", ordering="state", label=WASTE_COLORS)
    def state_label(self, finding: WasteFinding) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(finding.state), value_text(finding.state)

    @admin.display(description="holds", ordering="price_group")
    def held(self, finding: WasteFinding) -> str:
        """Return what is held."""
        return _unbroken(finding.units, finding.price_group)

    @admin.display(description="would serve", ordering="suggested_price_group")
    def suggested(self, finding: WasteFinding) -> str:
        """Return what would have served."""
        if not finding.suggested_units:
            return gettext("give it back")
        if not finding.wasted_unit_seconds:
            is_known = finding.is_saving_known
            return gettext("nothing smaller") if is_known else gettext("unknown: no memory figure")
        return _unbroken(finding.suggested_units, finding.suggested_price_group)

    @admin.display(description="wasted hours", ordering=WASTED_ORDER)
    def wasted_hours(self, finding: WasteFinding) -> str:
        """Return what was wasted so far, of the size that is held."""
        wasted = finding.known_wasted_unit_seconds
        return gettext("unknown") if wasted is None else figure(unit_hours_text(wasted))

    @admin.display(description="use", ordering="activity_ratio")
    def activity(self, finding: WasteFinding) -> str:
        """Return how busy its devices were."""
        return figure(percent_text(finding.activity_ratio))

    @admin.action(description="Dismiss", permissions=["write"])
    def dismiss_findings(self, request: HttpRequest, rows: QuerySet[WasteFinding]) -> None:
        """Dismiss the chosen findings for the reason given."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: dismiss_finding(
                finding_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is dismissed"),
        )


@admin.register(DeviceEvent)
class DeviceEventAdmin(LedgerAdmin):
    """What went wrong on GPUs."""

    view_capability = "metering:device_event:read"
    write_capability = "metering:device_event:write"
    hint = (
        "A failure proposes credits until its pod or the event ends; end an event when the "
        "device is drained or repaired. Errors that a program caused itself are never "
        "credited."
    )
    action_form = NoteActionForm
    list_display = (
        "begin_at",
        "severity_label",
        "kind",
        "code",
        "node",
        "uuid",
        "instance_profile",
        "end_at",
        "note",
    )
    list_filter = ("severity", "kind", "cluster", ("end_at", MarkFilter))
    search_fields = ("uuid", "node", "code")
    day_column = "begin_at"
    ordering = ("-begin_at", "-pk")
    actions = ("end_events",)

    @display(description="severity", ordering="severity", label=SEVERITY_COLORS)
    def severity_label(self, event: DeviceEvent) -> str:
        """Return whose matter it is, coloured."""
        return str(event.severity)

    @admin.action(description="End: drained or repaired", permissions=["write"])
    def end_events(self, request: HttpRequest, rows: QuerySet[DeviceEvent]) -> None:
        """End the chosen events for the reason given."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: end_device_event(event_id=row.pk, note=note, actor=actor, at=at),
            done=gettext_noop("is over"),
        )


@admin.register(CreditProposal)
class CreditProposalAdmin(LedgerAdmin):
    """Usage that broken hardware spoiled."""

    view_capability = "metering:credit:read"
    write_capability = "metering:credit:decide"
    undecided = CreditState.PROPOSED.value
    hint = (
        "Each covers one pod's use of one hour after its device failed. Not certain means: "
        "only the node is known. Corrections of the hour reduce a pending proposal or "
        "withdraw it. What is accepted is a line of the next invoice."
    )
    action_form = NoteActionForm
    list_display = (
        "window_start",
        "state_label",
        "organization",
        "project",
        "pod_name",
        "price_group",
        "unit_hours",
        "is_certain",
        "event",
        "reason",
    )
    list_filter = ("state", "is_certain", "organization", "cluster")
    list_select_related = ("organization", "project", "event")
    search_fields = ("pod_name", "namespace", "owner", "event__uuid")
    day_column = "window_start"
    ordering = ("-window_start", "-pk")
    actions = ("accept_credits", "dismiss_credits")

    @display(description="state", ordering="state", label=CREDIT_COLORS)
    def state_label(self, proposal: CreditProposal) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(proposal.state), value_text(proposal.state)

    @admin.display(description="unit-hours", ordering="unit_seconds")
    def unit_hours(self, proposal: CreditProposal) -> str:
        """Return how much it is."""
        return figure(unit_hours_text(proposal.unit_seconds))

    @admin.action(description="Accept", permissions=["write"])
    def accept_credits(self, request: HttpRequest, rows: QuerySet[CreditProposal]) -> None:
        """Accept the chosen proposals for the reason given."""
        self._decide(request, rows, CreditState.ACCEPTED, done=gettext_noop("is accepted"))

    @admin.action(description="Dismiss", permissions=["write"])
    def dismiss_credits(self, request: HttpRequest, rows: QuerySet[CreditProposal]) -> None:
        """Dismiss the chosen proposals for the reason given."""
        self._decide(request, rows, CreditState.DISMISSED, done=gettext_noop("is dismissed"))

    def _decide(
        self,
        request: HttpRequest,
        rows: QuerySet[CreditProposal],
        state: CreditState,
        *,
        done: str,
    ) -> None:
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: decide_credit(
                proposal_id=row.pk, state=state, reason=reason, actor=actor, at=at
            ),
            done=done,
        )


@admin.register(ClusterHealth)
class ClusterHealthAdmin(LedgerAdmin):
    """How well each cluster served, by hour."""

    view_capability = "metering:health:read"
    hint = "Nodes, queue and device errors of each sealed hour; - is what no source knew."
    list_display = (
        "window_start",
        "cluster",
        "nodes",
        "availability",
        "queued_pods",
        "pending_pods",
        "typical_wait",
        "longest_wait",
        "memory_errors",
        "failures",
        "devices",
    )
    list_filter = ("cluster", "window_start")
    list_select_related = ("cluster",)
    day_column = "window_start"
    ordering = ("-window_start", "cluster")

    @admin.display(description="nodes ready")
    def availability(self, health: ClusterHealth) -> str:
        """Return which part of their time nodes were ready."""
        return figure(ratio_text(health.ready_seconds, health.expected_seconds))

    @admin.display(description="typical wait", ordering="wait_seconds_p50")
    def typical_wait(self, health: ClusterHealth) -> str:
        """Return how long the pod in the middle waited."""
        return duration_text(health.wait_seconds_p50)

    @admin.display(description="longest wait", ordering="wait_seconds_max")
    def longest_wait(self, health: ClusterHealth) -> str:
        """Return how long the last one waited."""
        return duration_text(health.wait_seconds_max)


def _unbroken(units: int, price_group: str) -> str:
    """Return what is held so that no line breaks inside it."""
    return f"{units}\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}{price_group}"
