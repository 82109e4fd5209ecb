"""Admin pages of metering exceptions, with those of one cause in one row."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponse
from django.urls import URLPattern, URLResolver, path
from django.utils.translation import gettext_lazy, gettext_noop
from unfold.decorators import action, display

from metering.admin.binding import held_in_units
from metering.admin.incidents import decide_incident, incident_page, incidents_context
from metering.admin.remedies import remedy_page
from metering.domain.collection.reconciliation import Side
from metering.models import ExceptionState, MeteringException
from metering.selectors.corrections.exceptions import of_organization
from metering.services.corrections.exceptions import accept_side, resolve_exception
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.lists import NamesFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.selectors.directory import organization_names
from tenants.templatetags.texts import value_text

STATE_COLORS = {ExceptionState.OPEN.value: "danger", ExceptionState.RESOLVED.value: "success"}


class ExceptionsOfOrganization(NamesFilter):
    """Exceptions about namespaces that were bound to an organization in their hour."""

    title = gettext_lazy("organization")
    parameter_name = "organization"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        model_admin: object,  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        """Return the organizations by name."""
        return organization_names()

    def queryset(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        queryset: QuerySet[MeteringException],
    ) -> QuerySet[MeteringException]:
        """Return those of the chosen organization, or all."""
        slug = self.value()
        return of_organization(queryset, slug) if slug else queryset


@admin.register(MeteringException)
class MeteringExceptionAdmin(LedgerAdmin):
    """What could not be attributed, sized or trusted."""

    view_capability = "metering:exception:read"
    write_capability = "metering:exception:write"
    hint = (
        "Usage held by an open exception is not billed. An exception resolves itself when "
        "its window is metered again without it; resolve it by hand, with a reason, to leave "
        "it unbilled. Where two sources differ, accept the evidence of one."
    )
    action_form = NoteActionForm
    list_before_template = "admin/metering/meteringexception/incidents.html"
    list_per_page = 10  # Below the table of incidents.
    list_display = (
        "window_start",
        "cluster",
        "kind",
        "state_label",
        "namespace",
        "summary",
        "held",
    )
    list_filter = ("state", "kind", ExceptionsOfOrganization, "cluster", "window_start")
    list_select_related = ("cluster",)
    search_fields = ("subject", "namespace", "summary")
    day_column = "window_start"
    ordering = ("state", "-window_start", "kind")
    actions = ("accept_kubernetes", "accept_prometheus", "resolve_exceptions")

    actions_row = ("remedy",)
    actions_detail = ("remedy",)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Return the pages of incidents, before the pages of every table."""
        below, name = "incidents/<uuid:incident_id>/", "metering_meteringexception_incident"
        return [
            path(below, self.admin_site.admin_view(self.incident), name=name),
            path(
                f"{below}<str:decision>/",
                self.admin_site.admin_view(self.decide),
                name=f"{name}_decide",
            ),
            *super().get_urls(),
        ]

    def incident(self, request: HttpRequest, incident_id: UUID) -> HttpResponse:
        """Show what settles all exceptions of an incident, and do it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return incident_page(self, request, incident_id)

    def decide(self, request: HttpRequest, incident_id: UUID, decision: str) -> HttpResponse:
        """Show what a decision on the hours of an incident would do, and make it."""
        if not self.has_write_permission(request):
            raise PermissionDenied
        return decide_incident(self, request, incident_id, decision)

    @action(description="Settle it", url_path="remedy", permissions=["view"], icon="build")
    def remedy(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """Show what settles one exception, and do it."""
        found = self.get_object(request, str(object_id))
        if found is None:
            raise Http404
        return remedy_page(self, request, found)

    @display(description="state", ordering="state", label=STATE_COLORS)
    def state_label(self, row: MeteringException) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(row.state), value_text(row.state)

    @admin.display(description="held back", ordering="held_unit_seconds")
    def held(self, row: MeteringException) -> str:
        """Return what is not billed while it is open."""
        return held_in_units(row)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the list; above it the incidents, unless some of the list is asked for."""
        is_whole = not request.GET and self.has_view_permission(request)
        above = incidents_context(actor_of_request(request)) if is_whole else {"overview": None}
        return super().changelist_view(request, {**above, **(extra_context or {})})

    @admin.action(description="Accept Kubernetes' evidence", permissions=["write"])
    def accept_kubernetes(self, request: HttpRequest, rows: QuerySet[MeteringException]) -> None:
        """Bill what the Kubernetes API reported about the chosen pods."""
        self._accept(request, rows, side=Side.KUBERNETES)

    @admin.action(description="Accept Prometheus' evidence", permissions=["write"])
    def accept_prometheus(self, request: HttpRequest, rows: QuerySet[MeteringException]) -> None:
        """Bill what Prometheus reported about the chosen pods."""
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
            done=gettext_noop("is billed as accepted"),
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
            done=gettext_noop("is resolved"),
        )
