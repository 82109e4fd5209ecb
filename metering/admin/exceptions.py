"""Admin pages of metering exceptions, with those of one cause in one row."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponse
from django.urls import reverse
from unfold.decorators import action, display

from metering.admin.remedies import remedy_page
from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.collection.reconciliation import Side
from metering.domain.corrections.exceptions import (
    NOTHING_HELD,
    SIDED_KINDS,
    ExceptionKind,
    held_part_text,
    held_pods_text,
    held_text,
    remedy_of,
    unsized_sentence,
)
from metering.models import ExceptionState, MeteringException
from metering.models.exception import KIND_CHOICES
from metering.selectors.corrections.exceptions import (
    GROUPS_MAX,
    AlikeExceptions,
    of_organization,
    open_exception_groups,
)
from metering.services.corrections.exceptions import accept_side, resolve_exception
from tenants.admin.base import LedgerAdmin
from tenants.admin.notes import NoteActionForm, note_of
from tenants.selectors.directory import organization_names

LIST = "admin:metering_meteringexception_changelist"
REMEDY = "admin:metering_meteringexception_remedy"
_KIND_WORDS = dict(KIND_CHOICES)
_SETTLED_BY_BUTTON = SIDED_KINDS | {ExceptionKind.UNBOUND_NAMESPACE}


def groups_context() -> dict[str, Any]:
    """Return the template's values: one row for each cause, most urgent first."""
    found = open_exception_groups(limit=GROUPS_MAX + 1)
    return {
        "groups": [_row(group) for group in found[:GROUPS_MAX]],
        "groups_max": GROUPS_MAX,
        "are_groups_cut": len(found) > GROUPS_MAX,
    }


def _row(group: AlikeExceptions) -> dict[str, Any]:
    return {
        "group": group,
        "exceptions": f"{group.exceptions:,}",
        "reason": _KIND_WORDS[group.kind],
        "sentence": _sentence(group),
        "about": _about(group),
        "held": _held(group),
        "remedy": remedy_of(group.kind, cause=group.cause),
        "rows_link": f"{reverse(LIST)}?{urlencode(_filters(group))}",
        "settle_link": reverse(REMEDY, args=[group.oldest_id]),
        "settle_words": "Settle it" if _has_button(group) else "Look at the oldest",
    }


def _sentence(group: AlikeExceptions) -> str:
    """Return why a device has no size; "" where the kind says it all."""
    known = {cause.value: cause for cause in UnsizedCause}
    return unsized_sentence(known[group.cause]) if group.cause in known else ""


def _about(group: AlikeExceptions) -> list[str]:
    """Return the namespace, device and node it is about."""
    named = {"namespace": group.namespace, "device": group.resource, "node": group.node}
    parts = [f"{name} {value}" for name, value in named.items() if value]
    return parts or ["the whole hour"]


def _held(group: AlikeExceptions) -> list[str]:
    if not group.is_counted_in_units:
        return [held_pods_text(sum(part.pod_seconds for part in group.held))]
    return [
        held_part_text(size=part.size, unit_seconds=part.unit_seconds) for part in group.held
    ] or [NOTHING_HELD]


def _has_button(group: AlikeExceptions) -> bool:
    return group.kind in _SETTLED_BY_BUTTON or group.cause == UnsizedCause.UNMAPPED


def _filters(group: AlikeExceptions) -> dict[str, str]:
    """Return the list's filters that leave the rows of one group."""
    filters = {
        "state__exact": "open",
        "kind__exact": group.kind.value,
        "cluster__id__exact": str(group.cluster_id),
        "namespace__exact": group.namespace,
        "details__resource": group.resource,
        "details__cause": group.cause,
        "q": group.node,
    }
    return {name: value for name, value in filters.items() if value}


STATE_COLORS = {ExceptionState.OPEN.value: "danger", ExceptionState.RESOLVED.value: "success"}


class ExceptionsOfOrganization(admin.SimpleListFilter):
    """Exceptions about namespaces that were bound to an organization in their hour."""

    title = parameter_name = "organization"

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
    list_filter = ("state", "kind", ExceptionsOfOrganization, "cluster", "window_start")
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
        return held_text(row.held_unit_seconds, details=row.details)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the list; above it what is alike in one row, unless some of it is asked for."""
        groups = {"groups": None} if request.GET else groups_context()
        return super().changelist_view(request, {**groups, **(extra_context or {})})

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
