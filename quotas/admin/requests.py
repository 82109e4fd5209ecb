"""Admin pages of quota requests: looked at, and decided by buttons."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from quotas.models import QuotaRequest
from quotas.services.requests import approve_request, reject_request
from tenants.admin.base import LedgerAdmin


@admin.register(QuotaRequest)
class QuotaRequestAdmin(LedgerAdmin):
    """What tenant leads ask for."""

    view_capability = "quotas:request:read"
    write_capability = "quotas:request:decide"
    hint = (
        "Choose requests and approve or reject them. Approving sets the project's limit in the "
        "same step; nobody decides their own request."
    )
    list_display = (
        "created_at",
        "organization",
        "project",
        "size",
        "units_before",
        "requested_units",
        "state_label",
        "requested_by",
        "decided_by",
    )
    list_filter = ("state", "size", "organization")
    list_select_related = ("organization", "project", "requested_by", "decided_by")
    search_fields = ("project__name", "project__slug", "requested_by__username", "justification")
    date_hierarchy = "created_at"
    actions = ("approve_requests", "reject_requests")

    @display(
        description="state",
        ordering="state",
        label={
            "submitted": "warning",
            "approved": "success",
            "rejected": "danger",
            "cancelled": "info",
        },
    )
    def state_label(self, request: QuotaRequest) -> str:
        """Return the state, coloured."""
        return str(request.state)

    @admin.action(description="Approve", permissions=["write"])
    def approve_requests(self, request: HttpRequest, rows: QuerySet[QuotaRequest]) -> None:
        """Grant the chosen requests."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: approve_request(request_id=row.pk, actor=actor, at=at),
            done="is approved",
        )

    @admin.action(description="Reject", permissions=["write"])
    def reject_requests(self, request: HttpRequest, rows: QuerySet[QuotaRequest]) -> None:
        """Turn the chosen requests down."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: reject_request(request_id=row.pk, actor=actor, at=at),
            done="is rejected",
        )
