"""Admin pages of enforcement: what each namespace should say, and says."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.http.response import HttpResponse
from unfold.decorators import display

from quotas.domain.resource_quota import compare_keys, tell_briefly
from quotas.models import EnforcementTarget
from tenants.admin.base import LedgerAdmin


@admin.register(EnforcementTarget)
class EnforcementTargetAdmin(LedgerAdmin):
    """How far limits have come in the clusters."""

    view_capability = "quotas:enforcement:read"
    hint = (
        "A quota is called applied only when the cluster's status was read back equal. In a "
        "conflict another manager owns the object: delete its change, and the next try applies."
    )
    change_form_before_template = "admin/quotas/enforcementtarget/comparison.html"
    list_display = (
        "namespace",
        "cluster",
        "project",
        "state_label",
        "desired_text",
        "live_text",
        "checked_at",
        "last_error",
    )
    list_filter = ("state", "cluster")
    list_select_related = ("cluster", "project")
    search_fields = ("namespace", "cluster__slug", "project__name", "last_error")

    @display(
        description="state",
        ordering="state",
        label={
            "pending": "warning",
            "applied": "success",
            "conflict": "danger",
            "failed": "danger",
        },
    )
    def state_label(self, target: EnforcementTarget) -> str:
        """Return the state, coloured by unfold."""
        return target.state

    @display(description="desired")
    def desired_text(self, target: EnforcementTarget) -> str:
        """Return what the namespace should say."""
        return tell_briefly(target.desired_hard)

    @display(description="live")
    def live_text(self, target: EnforcementTarget) -> str:
        """Return what the namespace said when it was last read."""
        return tell_briefly(target.live_hard)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of one target, with desired, live and used side by side."""
        target = self.get_object(request, object_id) if object_id else None
        keys = (
            ()
            if target is None
            else compare_keys(target.desired_hard, target.live_hard, target.live_used)
        )
        context = {"keys": keys, **(extra_context or {})}
        answer: HttpResponse = super().changeform_view(request, object_id, form_url, context)
        return answer
