"""Admin pages of metering windows, as a list and as a calendar of hours."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Final

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import action, display

from metering.access import windows_visible_to
from metering.admin.decision_pages import decision_page
from metering.domain.collection.calendar import (
    HOURS_PER_DAY,
    CalendarCell,
    Day,
    HourFact,
    Tone,
    month_of,
    next_month,
    previous_month,
)
from metering.domain.collection.windows import GapPolicy, MeteringPolicy, WindowState
from metering.domain.corrections.correction import RecheckReason
from metering.domain.figures import percent_text
from metering.models import MeteringWindow
from metering.selectors.collection.hour_decisions import decisions_for
from metering.selectors.collection.windows import calendar_clusters, parts_progress, window_calendar
from metering.services.collection.hour_decisions import retry_window
from metering.services.corrections.rechecks import ask_recheck
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.notes import NoteActionForm, note_of
from tenants.templatetags.texts import figure, value_text

TONES: Final = (
    (Tone.WHOLE, gettext_noop("sealed, seen throughout")),
    (Tone.PART, gettext_noop("sealed, seen in part")),
    (Tone.WAIVED, gettext_noop("waived")),
    (Tone.WAITING, gettext_noop("on its way")),
    (Tone.GAP, gettext_noop("waits for a decision")),
    (Tone.NONE, gettext_noop("not metered")),
    ("new", gettext_noop("an open incident begins")),
)


CLUSTERS_SHOWN: Final = 2
"""A month of a cluster is some 70 KiB of page; the others are one click away."""


def calendar_context(
    windows: QuerySet[MeteringWindow], *, month: str, cluster: str, at: datetime
) -> dict[str, Any]:
    """Return the template's values for one month.

    Args:
        windows: Those the caller may see.
        month: As "2026-10"; anything else is the month of `at`.
        cluster: The slug of the cluster to show; "" or anything else for the first ones.
        at: Now.
    """
    first = month_of(month, today=at.date())
    following = next_month(first)
    known = calendar_clusters(windows, begin=first, end=following)
    shown = [one for one in known if one.slug == cluster] or known[:CLUSTERS_SHOWN]
    days = window_calendar(windows, shown, begin=first, end=following)
    return {
        "first": first,
        "following": following,
        "previous": previous_month(first),
        "chosen": cluster,
        "hours": range(HOURS_PER_DAY),
        "tones": [(tone, gettext(text)) for tone, text in TONES],
        "clusters": [{"cluster": one, "days": _days(days[one.id])} for one in shown],
        "others": [one for one in known if one not in shown],
    }


def _days(days: Iterable[Day]) -> list[dict[str, Any]]:
    return [{"date": day.date, "cells": [_cell(cell) for cell in day.cells]} for day in days]


def _cell(cell: CalendarCell) -> dict[str, Any]:
    tone, fact = f"tone tone-{cell.tone.value}", cell.fact
    if fact is None:
        return {"tone": tone}
    is_part = fact.coverage is not None and fact.coverage < 1
    return {
        "tone": f"{tone} tone-new" if fact.begun_incidents else tone,
        "link": f"../{fact.window_id}/change/",
        "text": f"{int(fact.coverage * 100)}" if is_part and fact.coverage is not None else "",
        "title": _title(fact, is_plain=cell.tone is Tone.WHOLE),
    }


def _title(fact: HourFact, *, is_plain: bool) -> str:
    """Return what a cell says; little where nothing is to be said, to keep the page small."""
    if is_plain and not fact.open_exceptions:
        return gettext("{hour}:00 sealed").format(hour=f"{fact.start_at:%H}")
    parts = [
        f"{fact.start_at:%H}:00 UTC: {value_text(fact.state.value)}",
        gettext("seen {share}").format(share=figure(percent_text(fact.coverage)))
        if fact.coverage is not None
        else gettext("nothing seen"),
        gettext("by both sources")
        if len(fact.sources) > 1
        else "".join(gettext("by {source}").format(source=one) for one in fact.sources),
        gettext("records: {count}").format(count=fact.records)
        if fact.state is WindowState.SEALED
        else "",
        gettext("open exceptions: {count}").format(count=fact.open_exceptions)
        if fact.open_exceptions
        else "",
        gettext("incidents that begin: {count}").format(count=fact.begun_incidents)
        if fact.begun_incidents
        else "",
    ]
    return ", ".join(part for part in parts if part)


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
        "Gaps and quarantined hours need a decision here, and so does an hour that is a day old "
        "and not metered. Open the hour, or choose several and a button below: a page then shows "
        "what the decision would do, before anything is done."
    )
    action_form = NoteActionForm
    readonly_fields = ("parts",)
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
    day_column = "start_at"
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
    actions_detail = ("decide_accept", "decide_last_known", "decide_hold", "decide_waive")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "cluster",
                    "start_at",
                    "state",
                    "parts",
                    "gap_policy",
                    "last_error",
                    "coverage",
                    "unobserved_seconds",
                    "longest_hole_seconds",
                    "hidden_unit_seconds_max",
                    "record_count",
                    "collected_at",
                    "sealed_at",
                )
            },
        ),
        (
            "Evidence",
            {
                "fields": (
                    "as_of",
                    "sources",
                    "expected_ticks",
                    "observed_ticks",
                    "watch_coverage",
                    "scrape_targets",
                    "reconciliation",
                    "evidence",
                    "catalogue_version",
                    "record_digest",
                )
            },
        ),
        (
            "Work and stored figures",
            {
                "classes": ("collapse",),
                "fields": (
                    "attempt",
                    "failures",
                    "not_before",
                    "fence",
                    "lease_owner",
                    "lease_until",
                    "is_watched",
                    "accepts_low_coverage",
                    "shown",
                    "decided_on",
                ),
            },
        ),
    )

    class Media:
        css: ClassVar[dict[str, tuple[str, ...]]] = {"all": ("metering/window.css",)}

    def has_decide_permission(
        self,
        request: HttpRequest,
        object_id: str,  # noqa: ARG002 - Unfold's signature.
    ) -> bool:
        """Whether the signed-in person may decide on hours."""
        return self.has_write_permission(request)

    def get_actions_detail(
        self,
        request: HttpRequest,
        object_id: Any,  # noqa: ANN401 - Unfold's signature.
    ) -> list[Any]:
        """Return the buttons of an hour: the decisions that apply to it now."""
        window = self.get_object(request, str(object_id))
        if window is None:
            return []
        decisions = decisions_for(window, at=timezone.now())
        names = tuple(f"_decide_{decision.value}" for decision in decisions)
        buttons = super().get_actions_detail(request, object_id)
        return [button for button in buttons if button.action_name.endswith(names)]

    @action(description="Accept what was observed", url_path="accept", permissions=["decide"])
    def decide_accept(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Decide to bill what was observed of one hour."""
        return self._decide_one(request, object_id, GapPolicy.ACCEPT)

    @action(description="Bill as last known", url_path="last-known", permissions=["decide"])
    def decide_last_known(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Decide to bill one hour by what was held before its holes."""
        return self._decide_one(request, object_id, GapPolicy.LAST_KNOWN)

    @action(description="Hold the hour", url_path="hold", permissions=["decide"])
    def decide_hold(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Decide to keep one hour off the bill, in exceptions."""
        return self._decide_one(request, object_id, GapPolicy.HOLD)

    @action(description="Waive the hour", url_path="waive", permissions=["decide"])
    def decide_waive(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Decide to bill nothing for one hour."""
        return self._decide_one(request, object_id, GapPolicy.WAIVE)

    def _decide_one(
        self, request: HttpRequest, object_id: int, decision: GapPolicy
    ) -> HttpResponse:
        page = decision_page(
            self, request, self.get_queryset(request).filter(pk=object_id), decision=decision
        )
        if page is not None:
            return page
        return HttpResponseRedirect(
            reverse("admin:metering_meteringwindow_change", args=[object_id])
        )

    @action(
        description="Calendar", url_path="calendar", permissions=["view"], icon="calendar_month"
    )
    def calendar(self, request: HttpRequest) -> TemplateResponse:
        """Show a month's hours of every cluster as colours."""
        context = {
            **self.page_context(request, title=gettext("Calendar")),
            **calendar_context(
                windows_visible_to(actor_of_request(request)),
                month=request.GET.get("month", ""),
                cluster=request.GET.get("cluster", ""),
                at=timezone.now(),
            ),
        }
        return TemplateResponse(request, "admin/metering/meteringwindow/calendar.html", context)

    @display(description="state", ordering="state", label=STATE_COLORS)
    def state_label(self, window: MeteringWindow) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(window.state), value_text(window.state)

    @admin.display(description="coverage", ordering="coverage")
    def coverage_percent(self, window: MeteringWindow) -> str:
        """Return which part of the expected scrapes was seen."""
        return figure(percent_text(window.coverage))

    @admin.display(description="parts")
    def parts(self, window: MeteringWindow) -> str:
        """Return how far an hour that is metered in parts has come."""
        progress = parts_progress(window.pk)
        if progress is None:
            return ""
        step = gettext("posted") if progress.is_settled else gettext("observed")
        return gettext("{done} of {all} {step}").format(
            done=progress.done, all=progress.all, step=step
        )

    @admin.display(description="unobserved", ordering="unobserved_seconds")
    def unobserved(self, window: MeteringWindow) -> str:
        """Return how long nothing was observed, and what was free then."""
        if not window.unobserved_seconds:
            return ""
        hidden = window.hidden_unit_seconds_max
        bound = gettext("no bound")
        if hidden is not None:
            most = gettext("at most {count} unit-seconds")
            bound = most.format(count=sum(hidden.values()))
        return f"{window.unobserved_seconds} s, {bound}"

    @admin.action(description="Meter again", permissions=["write"])
    def retry_windows(self, request: HttpRequest, rows: QuerySet[MeteringWindow]) -> None:
        """Make the chosen windows due now."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: retry_window(window_id=row.pk, note=note, actor=actor, at=at),
            done=gettext_noop("is metered again soon"),
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
            done=gettext_noop("is rechecked soon"),
        )

    @admin.action(description="Accept what was observed", permissions=["write"])
    def accept_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Bill what was observed of the chosen hours."""
        return decision_page(self, request, rows, decision=GapPolicy.ACCEPT)

    @admin.action(description="Bill as last known", permissions=["write"])
    def last_known_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Bill what was held until its last sample, and on if it was observed again."""
        return decision_page(self, request, rows, decision=GapPolicy.LAST_KNOWN)

    @admin.action(description="Hold the hour", permissions=["write"])
    def hold_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Keep everything in the chosen hours off the bill, in exceptions."""
        return decision_page(self, request, rows, decision=GapPolicy.HOLD)

    @admin.action(description="Waive the hour", permissions=["write"])
    def waive_windows(
        self, request: HttpRequest, rows: QuerySet[MeteringWindow]
    ) -> HttpResponse | None:
        """Bill nothing for the chosen hours."""
        return decision_page(self, request, rows, decision=GapPolicy.WAIVE)
