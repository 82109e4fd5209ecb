"""Admin pages of metering windows."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.decorators import action, display

from metering.access import windows_visible_to
from metering.admin.calendar import calendar_context
from metering.admin.notes import NoteActionForm, NoteForm, note_of
from metering.domain.catalogue import UnsizedCause
from metering.domain.correction import RecheckReason
from metering.domain.decisions import HourResult
from metering.domain.policy import GapPolicy, MeteringPolicy
from metering.domain.window_state import WindowState
from metering.domain.words import percent_words, unit_hours_words
from metering.models import MeteringWindow
from metering.selectors.decisions import DecisionPreview, preview_decision
from metering.services.decisions import decide_windows, retry_window
from metering.services.rechecks import ask_recheck
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.errors import DomainError

STATE_COLORS = {
    WindowState.OPEN.value: "info",
    WindowState.COLLECTING.value: "info",
    WindowState.COLLECTED.value: "warning",
    WindowState.RECONCILED.value: "info",
    WindowState.SEALED.value: "success",
    WindowState.GAP.value: "danger",
    WindowState.QUARANTINED.value: "danger",
}

DECISION_LABELS: Final[Mapping[GapPolicy, str]] = {
    GapPolicy.ACCEPT: "Accept what was observed",
    GapPolicy.LAST_KNOWN: "Bill as last known",
    GapPolicy.HOLD: "Hold the hours",
    GapPolicy.WAIVE: "Waive the hours",
}
RESULT_LABELS: Final[Mapping[HourResult, str]] = {
    HourResult.DECIDED: "decided",
    HourResult.ALREADY_DECIDED: "decided alike before",
    HourResult.SETTLED: "sealed or about to be",
    HourResult.NOT_OVERDUE: "not yet a day old, tried again by themselves",
    HourResult.METERED: "metered, and nothing to be estimated: accept, hold or waive them",
    HourResult.END_UNOBSERVED: "cannot be accepted: nothing was observed after them",
    HourResult.CHANGED: "changed since they were shown, and left alone",
}


@admin.register(MeteringWindow)
class MeteringWindowAdmin(LedgerAdmin):
    """One hour of one cluster each."""

    view_capability = "metering:window:read"
    write_capability = "metering:window:write"
    hint = (
        "Hours are opened by the clock and sealed when they add up; a sealed hour never changes. "
        "Gaps and quarantined hours need a decision here, and so does an hour that is a day old "
        "and not metered. The buttons show what they would do before they do it."
    )
    action_form = NoteActionForm
    list_display = (
        "start_at",
        "cluster",
        "state_label",
        "coverage_percent",
        "unobserved",
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

    @admin.display(description="unobserved", ordering="unobserved_seconds")
    def unobserved(self, window: MeteringWindow) -> str:
        """Return how long nothing was observed, and what was free then."""
        if not window.unobserved_seconds:
            return ""
        hidden = window.hidden_unit_seconds_max
        bound = "no bound" if hidden is None else f"at most {sum(hidden.values())} unit-seconds"
        return f"{window.unobserved_seconds} s, {bound}"

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

    @admin.action(description="Accept what was observed", permissions=["write"])
    def accept_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Bill what was observed of the chosen hours."""
        return self._decide(request, rows, GapPolicy.ACCEPT)

    @admin.action(description="Bill as last known", permissions=["write"])
    def last_known_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Bill what was held until its last sample, and on if it was observed again."""
        return self._decide(request, rows, GapPolicy.LAST_KNOWN)

    @admin.action(description="Hold the hour", permissions=["write"])
    def hold_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Keep everything in the chosen hours off the bill, in exceptions."""
        return self._decide(request, rows, GapPolicy.HOLD)

    @admin.action(description="Waive the hour", permissions=["write"])
    def waive_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Bill nothing for the chosen hours."""
        return self._decide(request, rows, GapPolicy.WAIVE)

    def _decide(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow], decision: GapPolicy
    ) -> HttpResponse | None:
        """Show what a decision would do to the chosen hours; make it once that is confirmed."""
        actor, at = actor_of_request(request), timezone.now()
        if "confirm" in request.POST:
            try:
                decided = decide_windows(
                    window_ids=list(rows.values_list("pk", flat=True)),
                    decision=decision,
                    note=note_of(request),
                    shown_digest=request.POST.get("shown_digest", ""),
                    actor=actor,
                    at=at,
                )
            except DomainError as error:
                self.message_user(request, f"{error.message} {error.advice}", messages.ERROR)
            else:
                for result, count in sorted(Counter(hour.result for hour in decided).items()):
                    text = f"Hours {RESULT_LABELS[result]}: {count}."
                    self.message_user(request, text, messages.SUCCESS)
                return None
        preview = preview_decision(rows, decision=decision, at=at)
        context = {
            **self.page_context(request, title=DECISION_LABELS[decision]),
            "preview": preview,
            "causes": [(kind.replace("_", " "), count) for kind, count in preview.causes.items()],
            "figures": _figures(preview),
            "others": [
                (RESULT_LABELS[result], count)
                for result, count in sorted(preview.results.items())
                if result is not HourResult.DECIDED
            ],
            "fields": _fields_of(request, digest=preview.digest),
            "note": NoteForm(initial={"note": note_of(request)})["note"],
        }
        return TemplateResponse(request, "admin/metering/meteringwindow/decision.html", context)


def _figures(preview: DecisionPreview) -> list[tuple[str, str]]:
    """Return what accepting the hours bills of each size, and what it keeps in exceptions."""
    if not preview.decided:
        return []
    rows = [
        (f"Billed if accepted: {size}", f"{unit_hours_words(value)} unit-hours")
        for size, value in preview.billed_unit_seconds.items()
    ] or [("Billed if accepted", "nothing")]
    for cause, value in preview.held_unit_seconds.items():
        is_other_unit = cause == UnsizedCause.UNKNOWN_RESOURCE
        unit = "in hours of its own units, not in GPUs" if is_other_unit else "unit-hours"
        name = cause.replace("_", " ")
        rows.append((f"Kept in exceptions: {name}", f"{unit_hours_words(value)} {unit}"))
    if preview.unobserved:
        rows.append(("Hours without a scrape", str(preview.unobserved)))
    if preview.unknown:
        rows.append(("Hours of which nothing is known yet", str(preview.unknown)))
    return rows


def _fields_of(request: HttpRequest, *, digest: str) -> list[tuple[str, str]]:
    """Return what choosing the same button for the same rows again sends, with the digest."""
    return [
        *(
            (name, request.POST.get(name, ""))
            for name in ("action", "select_across", "index")
            if name in request.POST
        ),
        *(("_selected_action", key) for key in request.POST.getlist("_selected_action")),
        ("shown_digest", digest),
    ]
