"""Admin pages of admission: what counts against limits now, and what was refused."""

from django.contrib import admin
from unfold.decorators import display

from quotas.models import AdmissionRefusal, Reservation
from tenants.admin.base import LedgerAdmin


@admin.register(Reservation)
class ReservationAdmin(LedgerAdmin):
    """What pods take, from their admission until they are gone."""

    view_capability = "quotas:reservation:read"
    hint = (
        "Rows that are not released add up to the counters of every limit. What was found went "
        "around admission, or was there before it."
    )
    list_display = (
        "pod_name",
        "namespace",
        "cluster",
        "project",
        "username",
        "size",
        "units",
        "state_label",
        "origin_label",
        "admitted_at",
        "release_reason",
    )
    list_filter = ("state", "origin", "size", "is_burst", "cluster", "organization")
    list_select_related = ("cluster", "project")
    search_fields = ("pod_name", "namespace", "username", "pod_uid", "controller")

    @display(
        description="state",
        ordering="state",
        label={"reserved": "warning", "held": "success", "released": "info"},
    )
    def state_label(self, row: Reservation) -> str:
        """Return the state, coloured by unfold."""
        return row.state

    @display(
        description="origin", ordering="origin", label={"admission": "info", "found": "danger"}
    )
    def origin_label(self, row: Reservation) -> str:
        """Return how it came to be counted, coloured by unfold."""
        return row.origin


@admin.register(AdmissionRefusal)
class AdmissionRefusalAdmin(LedgerAdmin):
    """What was refused, one row for each workload, reason and size."""

    view_capability = "quotas:reservation:read"
    hint = "A workload that tries again and again is one row that counts."
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
    list_filter = ("code", "size", "cluster", "organization")
    list_select_related = ("cluster", "project")
    search_fields = ("workload", "namespace", "username", "message")
