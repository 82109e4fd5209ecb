"""Admin pages of rechecks and corrections: what was learned of sealed hours, and its decisions."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import display

from metering.access import READ_USAGE, READ_WINDOW, WRITE_CORRECTION
from metering.domain.corrections.correction import CorrectionState, RecheckState
from metering.domain.figures import unit_hours_text
from metering.models import UsageCorrection, WindowRecheck
from metering.services.corrections.review import approve_correction, reject_correction
from tenants.admin.base import LedgerAdmin
from tenants.admin.notes import NoteActionForm, note_of
from tenants.templatetags.texts import figure, value_text

CORRECTION_COLORS = {
    CorrectionState.PROPOSED.value: "warning",
    CorrectionState.POSTED.value: "success",
    CorrectionState.REJECTED.value: "info",
}
RECHECK_COLORS = {
    RecheckState.DUE.value: "info",
    RecheckState.CHECKING.value: "info",
    RecheckState.DONE.value: "success",
    RecheckState.LAPSED.value: "danger",
    RecheckState.FAILED.value: "danger",
}

FOUND_WORDS = (
    ("posted_unit_seconds", gettext_noop("{} unit-seconds corrected")),
    ("proposed_unit_seconds", gettext_noop("{} unit-seconds proposed")),
    ("unproven_unit_seconds", gettext_noop("{} unit-seconds less, without proof")),
    ("unseen", gettext_noop("{} no longer seen")),
)
"""What a recheck may have found, as people say it."""


@admin.register(UsageCorrection)
class UsageCorrectionAdmin(LedgerAdmin):
    """What sealed usage is corrected by."""

    view_capability = READ_USAGE
    write_capability = WRITE_CORRECTION
    undecided = CorrectionState.PROPOSED.value
    approving = "approve_corrections"
    hint = (
        "A sealed record never changes; it is corrected by signed records that point here. A "
        "proposed correction needs a decision: open it, give a reason, and approve or "
        "reject it."
    )
    action_form = NoteActionForm
    change_form_before_template = "admin/metering/usagecorrection/records.html"
    exclude = ("lines", "evidence", "digest", "record_count", "unit_seconds", "window", "version")
    readonly_fields = ("unit_hours",)
    list_display = (
        "window_start",
        "project",
        "state_label",
        "cause",
        "unit_hours",
        "record_count",
        "reason",
        "requested_by",
        "decided_by",
    )
    list_filter = ("state", "cause", "organization", "cluster", "window_start")
    list_select_related = ("project", "project__organization")
    search_fields = ("reason", "requested_by", "project__slug")
    day_column = "window_start"
    ordering = ("-requested_at",)
    actions = ("approve_corrections", "reject_corrections")

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of a correction, with what it changes of each record."""
        found = self.get_object(request, object_id)
        context = _records_context(found) if found else {}
        return super().change_view(
            request, object_id, form_url, {**context, **(extra_context or {})}
        )

    @display(description="state", ordering="state", label=CORRECTION_COLORS)
    def state_label(self, row: UsageCorrection) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(row.state), value_text(row.state)

    @admin.display(description="unit-hours", ordering="unit_seconds")
    def unit_hours(self, row: UsageCorrection) -> str:
        """Return what is added, or taken away."""
        return figure(unit_hours_text(row.unit_seconds))

    @admin.action(description="Approve", permissions=["write"])
    def approve_corrections(self, request: HttpRequest, rows: QuerySet[UsageCorrection]) -> None:
        """Post the chosen corrections."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: approve_correction(
                correction_id=row.pk,
                note=note,
                is_four_eyes=settings.FOUR_EYES,
                actor=actor,
                at=at,
            ),
            done=gettext_noop("is posted"),
        )

    @admin.action(description="Reject", permissions=["write"])
    def reject_corrections(self, request: HttpRequest, rows: QuerySet[UsageCorrection]) -> None:
        """Turn the chosen corrections down for the reason given."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: reject_correction(
                correction_id=row.pk, note=note, actor=actor, at=at
            ),
            done=gettext_noop("is rejected"),
        )


def _records_context(correction: UsageCorrection) -> dict[str, Any]:
    """Return the template's values: a row for each record, and the queries behind them."""
    return {
        "records": [_record(line) for line in correction.lines],
        "evidence": [
            {
                gettext("Query"): one["query"],
                gettext("Answered at"): one["at"],
                gettext("SHA-256 of the answer"): one["sha256"],
                gettext("Samples"): one["samples"],
            }
            for one in correction.evidence
        ],
    }


def _record(line: Mapping[str, Any]) -> dict[str, str]:
    records = reverse("admin:metering_usagerecord_changelist")
    return {
        "pod": f"{line['namespace']}/{line['pod_name']}",
        "link": f"{records}?{urlencode({'q': line['pod_uid']})}",
        "owner": line["owner"] or gettext("unattributed"),
        "what": f"{line['units']} {line['size'].capitalize()}, {line['price_group']}",
        "before": figure(unit_hours_text(line["basis"])),
        "difference": figure(unit_hours_text(line["unit_seconds"])),
        "after": figure(unit_hours_text(line["basis"] + line["unit_seconds"])),
    }


@admin.register(WindowRecheck)
class WindowRecheckAdmin(LedgerAdmin):
    """When sealed hours are rechecked, and the results."""

    view_capability = READ_WINDOW
    hint = (
        "Sealed hours are checked again at set times, and when a binding, a catalogue or a "
        "decision changes their usage. Usage that a source no longer reports stays billed."
    )
    list_display = (
        "window_start",
        "cluster",
        "reason",
        "state_label",
        "not_before",
        "requested_by",
        "found_text",
        "last_error",
    )
    list_filter = ("state", "reason", "cluster", "window_start")
    list_select_related = ("cluster",)
    search_fields = ("note", "last_error", "requested_by")
    day_column = "window_start"

    @display(description="state", ordering="state", label=RECHECK_COLORS)
    def state_label(self, row: WindowRecheck) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(row.state), value_text(row.state)

    @admin.display(description="found")
    def found_text(self, row: WindowRecheck) -> str:
        """Return what it found, without what was nothing."""
        if row.state != RecheckState.DONE.value:
            return "-"
        parts = [
            gettext(words).format(row.outcome[key])
            for key, words in FOUND_WORDS
            if row.outcome.get(key)
        ]
        return ", ".join(parts) or gettext("nothing new")
