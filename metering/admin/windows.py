"""Admin pages of metering windows."""

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.decorators import action, display

from metering.access import windows_visible_to
from metering.admin.calendar import calendar_context
from metering.admin.notes import NoteActionForm, note_of
from metering.domain.correction import RecheckReason
from metering.domain.policy import GapPolicy, MeteringPolicy
from metering.domain.window_state import WindowState
from metering.domain.words import percent_words
from metering.models import MeteringWindow
from metering.services.decisions import release_gap, retry_window
from metering.services.rechecks import ask_recheck
from tenants.admin.base import LedgerAdmin, actor_of_request

STATE_COLORS = {
    WindowState.OPEN.value: "info",
    WindowState.COLLECTING.value: "info",
    WindowState.COLLECTED.value: "warning",
    WindowState.RECONCILED.value: "info",
    WindowState.SEALED.value: "success",
    WindowState.GAP.value: "danger",
    WindowState.QUARANTINED.value: "danger",
}


@admin.register(MeteringWindow)
class MeteringWindowAdmin(LedgerAdmin):
    """One hour of one cluster each."""

    view_capability = "metering:window:read"
    write_capability = "metering:window:write"
    hint = (
        "Hours are opened by the clock and sealed when they add up; a sealed hour never changes. "
        "Gaps and quarantined hours wait for a decision here."
    )
    action_form = NoteActionForm
    list_display = (
        "start_at",
        "cluster",
        "state_label",
        "coverage_percent",
        "record_count",
        "failures",
        "sealed_at",
        "last_error",
    )
    list_filter = ("state", "cluster", "start_at")
    list_select_related = ("cluster",)
    search_fields = ("cluster__slug", "last_error")
    date_hierarchy = "start_at"
    ordering = ("-start_at", "cluster")
    actions = (
        "retry_windows",
        "recheck_windows",
        "accept_windows",
        "last_known_windows",
        "hold_windows",
        "waive_windows",
    )
    actions_list = ("calendar",)

    @action(
        description="Calendar", url_path="calendar", permissions=["view"], icon="calendar_month"
    )
    def calendar(self, request: HttpRequest) -> TemplateResponse:
        """Show a month's hours of every cluster as colours."""
        context = {
            **self.page_context(request, title="Calendar"),
            **calendar_context(
                windows_visible_to(actor_of_request(request)),
                month=request.GET.get("month", ""),
                at=timezone.now(),
            ),
        }
        return TemplateResponse(request, "admin/metering/meteringwindow/calendar.html", context)

    @display(description="state", ordering="state", label=STATE_COLORS)
    def state_label(self, window: MeteringWindow) -> str:
        """Return the state, coloured."""
        return str(window.state)

    @admin.display(description="coverage", ordering="coverage")
    def coverage_percent(self, window: MeteringWindow) -> str:
        """Return which part of the expected scrapes was seen."""
        return percent_words(window.coverage)

    @admin.action(description="Meter again", permissions=["write"])
    def retry_windows(self, request: HttpRequest, rows: QuerySet[MeteringWindow]) -> None:
        """Make the chosen windows due now."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: retry_window(window_id=row.pk, note=note, actor=actor, at=at),
            done="is metered again soon",
        )

    @admin.action(description="Look again (sealed)", permissions=["write"])
    def recheck_windows(self, request: HttpRequest, rows: QuerySet[MeteringWindow]) -> None:
        """Look at the chosen sealed windows again now."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: ask_recheck(
                window_id=row.pk,
                reason=RecheckReason.PERSON,
                note=note,
                policy=MeteringPolicy(recheck_retention_seconds=settings.RECHECK_RETENTION_SECONDS),
                actor=actor,
                at=at,
            ),
            done="is looked at again soon",
        )

    @admin.action(description="Accept what was seen", permissions=["write"])
    def accept_windows(self, request: HttpRequest, rows: QuerySet[MeteringWindow]) -> None:
        """Bill what was seen of the chosen gaps."""
        self._decide(request, rows, GapPolicy.ACCEPT, done="is metered from what was seen")

    @admin.action(description="Bill as last known", permissions=["write"])
    def last_known_windows(self, request: HttpRequest, rows: QuerySet[MeteringWindow]) -> None:
        """Bill what was held before the hole until the first evidence after it."""
        self._decide(request, rows, GapPolicy.LAST_KNOWN, done="is metered as last known")

    @admin.action(description="Hold the hour", permissions=["write"])
    def hold_windows(self, request: HttpRequest, rows: QuerySet[MeteringWindow]) -> None:
        """Keep everything in the chosen gaps off the bill, in exceptions."""
        self._decide(request, rows, GapPolicy.HOLD, done="is held")

    @admin.action(description="Waive the hour", permissions=["write"])
    def waive_windows(self, request: HttpRequest, rows: QuerySet[MeteringWindow]) -> None:
        """Bill nothing for the chosen gaps."""
        self._decide(request, rows, GapPolicy.WAIVE, done="is waived")

    def _decide(
        self,
        request: HttpRequest,
        rows: QuerySet[MeteringWindow],
        decision: GapPolicy,
        *,
        done: str,
    ) -> None:
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: release_gap(
                window_id=row.pk,
                decision=decision,
                note=note,
                actor=actor,
                at=at,
            ),
            done=done,
        )
