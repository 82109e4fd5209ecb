"""Admin pages of metering exceptions: the queue of what a person has to look at."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from metering.admin.notes import NoteActionForm, note_of
from metering.domain.words import unit_hours_words
from metering.models import ExceptionState, MeteringException
from metering.services.exceptions import resolve_exception
from tenants.admin.base import LedgerAdmin

STATE_COLORS = {ExceptionState.OPEN.value: "danger", ExceptionState.RESOLVED.value: "success"}


@admin.register(MeteringException)
class MeteringExceptionAdmin(LedgerAdmin):
    """What could not be attributed, sized or trusted."""

    view_capability = "metering:exception:read"
    write_capability = "metering:exception:write"
    hint = (
        "Nothing is billed for what is held here. An exception resolves itself when its window is "
        "metered again without it; resolve it by hand, with a reason, to leave it unbilled."
    )
    action_form = NoteActionForm
    list_display = (
        "window_start",
        "cluster",
        "kind",
        "state_label",
        "namespace",
        "summary",
        "remedy",
        "held_unit_hours",
    )
    list_filter = ("state", "kind", "cluster", "window_start")
    list_select_related = ("cluster",)
    search_fields = ("subject", "namespace", "summary")
    date_hierarchy = "window_start"
    ordering = ("state", "-window_start", "kind")
    actions = ("resolve_exceptions",)

    @display(description="state", ordering="state", label=STATE_COLORS)
    def state_label(self, row: MeteringException) -> str:
        """Return the state, coloured."""
        return str(row.state)

    @admin.display(description="held unit-hours", ordering="held_unit_seconds")
    def held_unit_hours(self, row: MeteringException) -> str:
        """Return what is not billed while it is open."""
        return unit_hours_words(row.held_unit_seconds)

    @admin.action(description="Resolve", permissions=["write"])
    def resolve_exceptions(self, request: HttpRequest, rows: QuerySet[MeteringException]) -> None:
        """Resolve the chosen exceptions for the reason given."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: resolve_exception(
                exception_id=row.pk, note=note, actor=actor, at=at
            ),
            done="is resolved",
        )
