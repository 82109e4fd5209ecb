"""Admin pages of billing periods; a month is drafted from here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import action, display

from billing.adapters.terms import invoice_terms
from billing.admin.exports.month import export_month
from billing.admin.month_close import month_close_page
from billing.models import BillingPeriod
from billing.selectors.closing import clusters_of, readiness_of, reasons_against
from billing.services.closing import approve_period, reopen_period, review_period
from billing.services.invoicing import draft_invoice
from billing.services.periods import open_period
from billing.services.repricing import reprice_period
from tenants.admin.base import ServiceAdmin
from tenants.admin.notes import NoteActionForm, note_of
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem
from tenants.templatetags.texts import hours_text, value_text


@dataclass(frozen=True)
class Reason:
    """One reason why a month cannot be invoiced yet.

    Attributes:
        page: Name of the page where it is settled; "" where time alone settles it.
        url: Address of that page, filtered to this month.
    """

    message: str
    page: str = ""
    url: str = ""


STATE_LABELS: Final = {
    "open": "info",
    "review": "warning",
    "approved": "primary",
    "closed": "success",
}
UNSEALED: Final = "open,collecting,collected,reconciled,gap,quarantined"
_HOURS = {"cluster__in": "{clusters}", "start_at__gte": "{begin}", "start_at__lt": "{end}"}
_OF_ORGANIZATION = {"organization__id__exact": "{organization}"}
PAGES: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "windows_not_sealed": (
        gettext_noop("Windows that are not sealed"),
        "admin:metering_meteringwindow_changelist",
        {"state__in": UNSEALED, **_HOURS},
    ),
    "windows_not_accrued": (
        gettext_noop("Sealed windows"),
        "admin:metering_meteringwindow_changelist",
        {"state__in": "sealed", **_HOURS},
    ),
    "corrections_not_accrued": (
        gettext_noop("Corrections of usage"),
        "admin:metering_usagecorrection_changelist",
        {"state__exact": "posted", **_OF_ORGANIZATION},
    ),
    "accrual_exceptions_open": (
        gettext_noop("Usage without a price"),
        "admin:billing_accrualexception_changelist",
        {"resolved_at__isempty": "1", **_OF_ORGANIZATION},
    ),
    "usage_not_charged": (
        gettext_noop("Charges"),
        "admin:billing_charge_changelist",
        {"period__label": "{label}", **_OF_ORGANIZATION},
    ),
    "charges_in_other_currency": (
        gettext_noop("Charges"),
        "admin:billing_charge_changelist",
        {"period__label": "{label}", **_OF_ORGANIZATION},
    ),
}
"""By the code of a reason: the page's name, its view, and the filter that shows what is meant."""


def reasons_of(period: BillingPeriod, *, at: datetime) -> list[Reason]:
    """Return every reason why a month cannot be invoiced yet, with the page that settles it."""
    facts = {
        "begin": period.hours.lower.isoformat(),
        "end": period.hours.upper.isoformat(),
        "organization": str(period.organization_id),
        "label": period.label,
        "clusters": ",".join(str(cluster_id) for cluster_id in clusters_of(period)),
    }
    return [
        _reason(problem, facts=facts)
        for problem in reasons_against(period, readiness_of(period, at=at), at=at)
    ]


def _reason(problem: FieldProblem, *, facts: Mapping[str, str]) -> Reason:
    if problem.code not in PAGES:
        return Reason(problem.message)
    page, view, chosen = PAGES[problem.code]
    query = urlencode({name: value.format(**facts) for name, value in chosen.items()})
    return Reason(problem.message, page=gettext(page), url=f"{reverse(view)}?{query}")


@admin.register(BillingPeriod)
class BillingPeriodAdmin(ServiceAdmin):
    """Months of organizations."""

    view_capability = "billing:period:read"
    write_capability = "billing:invoice:write"
    hint = (
        "A month opens by itself. Once it is over, one person sends it to review, another one "
        "approves it, and its invoice is finalized. A month without use closes by itself."
    )
    add_fields = ("organization", "label")
    list_display = ("label", "organization", "hours_text", "state_label", "closed_at")
    list_filter = ("state", "label", "organization")
    list_select_related = ("organization",)
    search_fields = ("label", "organization__name", "organization__slug")
    autocomplete_fields = ("organization",)
    change_form_before_template = "admin/billing/billingperiod/readiness.html"
    action_form = NoteActionForm
    actions_list = ("close_month",)
    actions_detail = ("export_period",)
    actions = (
        "draft_invoices",
        "review_months",
        "approve_months",
        "reopen_months",
        "reprice_periods",
    )

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the form's fields, or a month's with its hours as text."""
        names = super().get_fields(request, obj)
        return ["hours_text" if name == "hours" else name for name in names if name != "hours_text"]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return what a form shows without letting it be changed."""
        names = super().get_readonly_fields(request, obj)
        return (*names, "hours_text") if obj is not None else names

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return a month's page; an open one lists what is missing before its invoice."""
        period = self.get_object(request, object_id)
        is_open = period is not None and period.closed_at is None
        reasons = reasons_of(period, at=timezone.now()) if is_open else []
        readiness = {"reasons": reasons, "is_ready": is_open and not reasons}
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, {**readiness, **(extra_context or {})}
        )
        return answer

    @action(description="Month close", url_path="close", permissions=["view"], icon="task_alt")
    def close_month(self, request: HttpRequest) -> HttpResponseBase:
        """Show the months of all organizations, do the steps that close them, and export one."""
        if "export" in request.GET:
            label = request.GET.get("month", "")
            return export_month(self, request, label, back=request.path)
        return month_close_page(self, request)

    @action(description="Export month", url_path="export", permissions=["view"], icon="download")
    def export_period(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Return the documents, charges and journal of one month as one file."""
        period = self.get_object(request, object_id)
        if period is None:
            raise Http404
        page = reverse("admin:billing_billingperiod_change", args=[period.pk])
        organization = period.organization.slug
        return export_month(self, request, period.label, organization=organization, back=page)

    @admin.display(description="hours (UTC)", ordering="hours")
    def hours_text(self, period: BillingPeriod) -> str:
        """Return the hours of the month in its organization's time zone."""
        return hours_text(period.hours.lower, period.hours.upper)

    @display(description="state", ordering="state", label=STATE_LABELS)
    def state_label(self, period: BillingPeriod) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(period.state), value_text(period.state)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> BillingPeriod:
        """Open a month."""
        return open_period(**fields, actor=actor, at=at)

    @admin.action(description="Draft invoice", permissions=["write"])
    def draft_invoices(self, request: HttpRequest, rows: QuerySet[BillingPeriod]) -> None:
        """Draft the chosen months."""
        terms = invoice_terms()
        self.for_each(
            request,
            rows,
            lambda row, actor, at: draft_invoice(period_id=row.pk, actor=actor, at=at, terms=terms),
            done=gettext_noop("is drafted"),
        )

    @admin.action(description="Reprice", permissions=["write"])
    def reprice_periods(self, request: HttpRequest, rows: QuerySet[BillingPeriod]) -> None:
        """Preview the chosen months at their published prices, for another person to approve."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: reprice_period(
                period_id=row.pk,
                reason=reason,
                is_four_eyes=settings.FOUR_EYES,
                actor=actor,
                at=at,
            ),
            done=gettext_noop("has a repricing, which another person approves under Repricings"),
        )

    @admin.action(description="Send to review", permissions=["write"])
    def review_months(self, request: HttpRequest, rows: QuerySet[BillingPeriod]) -> None:
        """Draft the chosen months and send them to review: they take no more charges."""
        terms, note = invoice_terms(), note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: review_period(
                period_id=row.pk, actor=actor, at=at, terms=terms, acknowledgement=note
            ),
            done=gettext_noop("is in review"),
        )

    @admin.action(description="Approve", permissions=["write"])
    def approve_months(self, request: HttpRequest, rows: QuerySet[BillingPeriod]) -> None:
        """Approve the chosen months, which another person sent to review."""
        terms = invoice_terms()
        self.for_each(
            request,
            rows,
            lambda row, actor, at: approve_period(
                period_id=row.pk, actor=actor, at=at, terms=terms
            ),
            done=gettext_noop("is approved"),
        )

    @admin.action(description="Open again", permissions=["write"])
    def reopen_months(self, request: HttpRequest, rows: QuerySet[BillingPeriod]) -> None:
        """Open the chosen months again, for the reason in the note."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: reopen_period(
                period_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is open again"),
        )
