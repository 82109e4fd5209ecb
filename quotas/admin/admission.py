"""Admin pages of admission: what counts against limits now, and what was refused."""

from collections.abc import Iterator
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from unfold.decorators import display

from quotas.models import AdmissionRefusal, ReleaseReason, Reservation, ReservationState
from tenants.admin.base import LedgerAdmin
from tenants.templatetags.texts import minute_text, value_text

LIVE: Final = "live"
ALL: Final = "all"
RELEASES: Final = {
    ReleaseReason.ENDED.value: gettext_noop("it ended"),
    ReleaseReason.EXPIRED.value: gettext_noop("it was never seen"),
    ReleaseReason.GONE.value: gettext_noop("it went before it ran"),
    ReleaseReason.HANDED_OVER.value: gettext_noop("its device claim counts"),
    ReleaseReason.UNBOUND.value: gettext_noop("its namespace has no project"),
    ReleaseReason.UNSIZED.value: gettext_noop("its size is not known"),
}


class StateFilter(admin.SimpleListFilter):
    """Which reservations are listed: those that count now, unless something else is chosen."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        model_admin: "admin.ModelAdmin[Reservation]",  # noqa: ARG002 - As above.
    ) -> list[tuple[str, str]]:
        """Return what can be chosen; the first holds where nothing is."""
        states = [(str(state.value), gettext(str(state.label))) for state in ReservationState]
        return [(LIVE, gettext("Counts now")), *states, (ALL, gettext("All"))]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Return the choices with the one that holds marked."""
        chosen = self.value() or LIVE
        for value, words in self.lookup_choices:
            yield {
                "selected": value == chosen,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": words,
            }

    def queryset(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        queryset: QuerySet[Reservation],
    ) -> QuerySet[Reservation]:
        """Return the chosen rows."""
        chosen = self.value() or LIVE
        if chosen == ALL:
            return queryset
        if chosen == LIVE:
            return queryset.exclude(state=ReservationState.RELEASED)
        return queryset.filter(state=chosen)


class BurstFilter(admin.BooleanFieldListFilter):
    """Whether pods that may be preempted are listed, others, or both."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Take the heading from what the column says."""
        super().__init__(*given, **named)
        self.title = gettext("burst")


@admin.register(Reservation)
class ReservationAdmin(LedgerAdmin):
    """Units of pods, from their admission to their end."""

    view_capability = "quotas:reservation:read"
    hint = (
        "Rows that are not released add up to the counters of every limit; released ones are "
        "listed only under Filters, state. A pod that was found running bypassed admission "
        "or is older than it."
    )
    day_title = "Counted since"
    list_display = (
        "place",
        "project",
        "username",
        "units_text",
        "state_label",
        "origin_label",
        "counted_since",
        "release_text",
    )
    fields = (
        "cluster",
        "namespace",
        "pod_name",
        "pod_uid",
        "controller",
        "organization",
        "project",
        "owner",
        "username",
        "resource",
        "units_text",
        "model_groups_text",
        "state",
        "origin_text",
        "counted_since",
        "expires_at",
        "held_at",
        "released_at",
        "release_text",
    )
    day_column = "admitted_at"
    list_filter = (
        StateFilter,
        "origin",
        "size",
        ("is_burst", BurstFilter),
        "cluster",
        "organization",
    )
    list_select_related = ("cluster", "project")
    search_fields = ("pod_name", "namespace", "username", "pod_uid", "controller")

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list without "Show all", which would lead to what is shown already."""
        found: ChangeList = super().get_changelist_instance(request)
        found.full_result_count = found.result_count
        return found

    @display(
        description="state",
        ordering="state",
        label={"reserved": "warning", "held": "success", "released": "info"},
    )
    def state_label(self, row: Reservation) -> tuple[str, str]:
        """Return the state, coloured by unfold."""
        return row.state, value_text(row.state)

    @display(
        description="how it came in",
        ordering="origin",
        label={"admission": "info", "found": "danger"},
    )
    def origin_label(self, row: Reservation) -> tuple[str, str]:
        """Return how it came to be counted, coloured by unfold."""
        return row.origin, self.origin_text(row)

    @display(description="how it came in")
    def origin_text(self, row: Reservation) -> str:
        """Return how it came to be counted."""
        return gettext("admitted") if row.origin == "admission" else gettext("found running")

    @display(description="pod", ordering="pod_name", header=True)
    def place(self, row: Reservation) -> tuple[str, str]:
        """Return the pod, and below it its namespace and its cluster."""
        return row.pod_name, gettext("{what} on {cluster}").format(
            what=row.namespace, cluster=row.cluster.slug
        )

    @display(description="counted since", ordering="admitted_at")
    def counted_since(self, row: Reservation) -> str:
        """Return when it was admitted; for a pod found running, when it was found."""
        return f"{minute_text(row.admitted_at)} UTC"

    @display(description="takes", ordering="units")
    def units_text(self, row: Reservation) -> str:
        """Return what it takes, such as "2 large, burst"."""
        size = row.size or gettext("of unknown size")
        units = f"{row.units} {size}"
        # A number and its size stay on one line.
        return (gettext("{size}, burst").format(size=units) if row.is_burst else units).replace(
            " ", "\u00a0"
        )

    @display(description="counts for GPU models")
    def model_groups_text(self, row: Reservation) -> str:
        """Return the models it counts for."""
        return ", ".join(row.model_groups) or gettext("all")

    @display(description="released because", ordering="release_reason")
    def release_text(self, row: Reservation) -> str:
        """Return why its units are free again; "-" while they are not."""
        reason = RELEASES.get(row.release_reason)
        return gettext(reason) if reason else "-"


@admin.register(AdmissionRefusal)
class AdmissionRefusalAdmin(LedgerAdmin):
    """What was refused, one row for each workload, reason and size."""

    view_capability = "quotas:reservation:read"
    hint = "A workload that retries is one row with a count."
    list_display = (
        "workload",
        "namespace",
        "cluster",
        "project",
        "username",
        "code",
        "size",
        "units",
        "count",
        "message",
        "last_at",
    )
    day_column = "last_at"
    list_filter = ("code", "size", "cluster", "organization")
    list_select_related = ("cluster", "project")
    search_fields = ("workload", "namespace", "username", "message")
