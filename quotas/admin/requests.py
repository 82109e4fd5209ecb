"""Admin pages of quota requests: looked at, talked about, and decided by buttons."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from unfold.decorators import display

from quotas.admin.request_page import request_page
from quotas.models import QuotaRequest
from quotas.services.request_comments import comment_request
from quotas.services.requests import approve_request, reject_request
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.errors import DomainError

DECISIONS: Final[Mapping[str, Callable[..., object]]] = {
    "approve": lambda text, **who: approve_request(note=text, **who),
    "reject": lambda text, **who: reject_request(note=text, **who),
    "comment": lambda text, **who: comment_request(text=text, **who),
}


@admin.register(QuotaRequest)
class QuotaRequestAdmin(LedgerAdmin):
    """What tenant leads ask for."""

    view_capability = "quotas:request:read"
    write_capability = "quotas:request:decide"
    hint = (
        "Open a request to see what it would mean, or choose several and decide them here. A "
        "request wants a total, never the difference; nobody decides their own."
    )
    change_form_outer_before_template = "admin/quotas/quotarequest/decide.html"
    list_display = (
        "created_at",
        "organization",
        "project",
        "user",
        "size",
        "units_before",
        "requested_units",
        "state_label",
        "requested_by",
        "decided_by",
    )
    list_filter = ("state", "size", "organization")
    list_select_related = ("organization", "project", "user", "requested_by", "decided_by")
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
            "expired": "info",
        },
    )
    def state_label(self, request: QuotaRequest) -> str:
        """Return the state, coloured."""
        return str(request.state)

    def get_urls(self) -> list[URLPattern]:
        """Return the pages and the buttons of a request."""
        button = path(
            "<uuid:pk>/<str:verb>/",
            self.admin_site.admin_view(require_POST(self.decide_view)),
            name="quotas_quotarequest_decide",
        )
        made: list[URLPattern] = super().get_urls()
        return [*made[:-1], button, made[-1]]

    def decide_view(self, request: HttpRequest, pk: object, verb: str) -> HttpResponse:
        """Do what a button says as the signed-in person, and show the request again."""
        decide = DECISIONS.get(verb)
        if decide is None or not self.has_view_permission(request):
            raise Http404
        try:
            decide(
                request.POST.get("text", ""),
                request_id=pk,
                actor=actor_of_request(request),
                at=timezone.now(),
            )
        except DomainError as error:
            self.report_refusal(request, error)
        else:
            self.message_user(request, "Done.", messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:quotas_quotarequest_change", args=[pk]))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of a request, with everything that is needed to decide it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        shown = self.get_object(request, object_id)
        actor, at = actor_of_request(request), timezone.now()
        context = {} if shown is None else request_page(shown, actor=actor, at=at)
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, {**context, **(extra_context or {})}
        )
        return answer

    def get_fieldsets(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: QuotaRequest | None = None,  # noqa: ARG002 - As above.
    ) -> list[Any]:
        """Return none: the page tells every column in its place, in words."""
        return []

    @admin.action(description="Approve", permissions=["write"])
    def approve_requests(self, request: HttpRequest, rows: QuerySet[QuotaRequest]) -> None:
        """Approve the step whose turn it is of the chosen requests."""
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
