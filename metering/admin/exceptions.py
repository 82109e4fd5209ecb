"""Admin pages of metering exceptions: the queue of what a person has to look at."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponse
from unfold.decorators import action, display

from metering.admin.exception_groups import groups_context
from metering.admin.notes import NoteActionForm, note_of
from metering.admin.remedies import remedy_page
from metering.domain.held_words import held_words
from metering.domain.reconciliation import Side
from metering.models import ExceptionState, MeteringException
from metering.services.accepting import accept_side
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
        "metered again without it; resolve it by hand, with a reason, to leave it unbilled. Where "
        "two sources differ, accept the evidence of one."
    )
    action_form = NoteActionForm
    list_before_template = "admin/metering/meteringexception/groups.html"
    list_display = (
        "window_start",
        "cluster",
        "kind",
        "state_label",
        "namespace",
        "summary",
        "held",
    )
    list_filter = ("state", "kind", "cluster", "window_start")
    list_select_related = ("cluster",)
    search_fields = ("subject", "namespace", "summary")
    date_hierarchy = "window_start"
    ordering = ("state", "-window_start", "kind")
    actions = ("accept_kubernetes", "accept_prometheus", "resolve_exceptions")

    actions_row = ("remedy",)
    actions_detail = ("remedy",)

    @action(description="Settle it", url_path="remedy", permissions=["view"], icon="build")
    def remedy(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Show what settles one exception, and do it."""
        found = self.get_object(request, str(object_id))
        if found is None:
            raise Http404
        return remedy_page(self, request, found)

    @display(description="state", ordering="state", label=STATE_COLORS)
    def state_label(self, row: MeteringException) -> str:
        """Return the state, coloured."""
        return str(row.state)

    @admin.display(description="held", ordering="held_unit_seconds")
    def held(self, row: MeteringException) -> str:
        """Return what is not billed while it is open."""
        return held_words(row.held_unit_seconds, details=row.details)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the list; above it what is alike in one row, unless some of it is asked for."""
        groups = {"groups": None} if request.GET else groups_context()
        return super().changelist_view(request, {**groups, **(extra_context or {})})

    @admin.action(description="Accept Kubernetes' evidence", permissions=["write"])
    def accept_kubernetes(self, request: HttpRequest, rows: QuerySet[MeteringException]) -> None:
        """Bill what the Kubernetes API told about the chosen pods."""
        self._accept(request, rows, side=Side.KUBERNETES)

    @admin.action(description="Accept Prometheus' evidence", permissions=["write"])
    def accept_prometheus(self, request: HttpRequest, rows: QuerySet[MeteringException]) -> None:
        """Bill what Prometheus told about the chosen pods."""
        self._accept(request, rows, side=Side.PROMETHEUS)

    def _accept(
        self, request: HttpRequest, rows: QuerySet[MeteringException], *, side: Side
    ) -> None:
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: accept_side(
                exception_id=row.pk, side=side, note=note, actor=actor, at=at
            ),
            done="is billed as accepted",
        )

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
