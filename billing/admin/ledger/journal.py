"""Admin pages of the journal: its entries, and the steps of the general ledger's months."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from unfold.decorators import action

from billing.access import READ_JOURNAL, WRITE_JOURNAL, access_journal_batch
from billing.adapters.journal_layouts import LAYOUT_NAMES, file_of, layouts
from billing.admin.amounts import money_text
from billing.models import JournalEntry
from billing.selectors.ledger.accounting import ledger_months
from billing.services.ledger.batches import export_batch
from billing.services.ledger.journal import accrue_unbilled, close_accounting_month
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.refusals import refusal_sentence
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, NotFoundError
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import who_may_text

TEMPLATE: Final = "admin/billing/journalentry/months.html"


@dataclass(frozen=True)
class LedgerStepResult:
    """What a step did, or why it was refused."""

    text: str
    is_refused: bool = False


@admin.register(JournalEntry)
class JournalEntryAdmin(LedgerAdmin):
    """Events of the general ledger."""

    view_capability = READ_JOURNAL
    write_capability = WRITE_JOURNAL
    hint = "An entry is posted with the document or payment it is about; another one corrects it."
    actions_list = ("ledger_months",)
    list_display = (
        "reason",
        "event",
        "organization",
        "document_on",
        "posting_on",
        "postings_text",
    )
    day_column = "posting_on"
    list_filter = ("event", "organization", "currency", "posting_on")
    list_select_related = ("organization",)
    search_fields = ("reason", "organization__slug")
    ordering = ("-posting_on", "pk")

    def get_queryset(self, request: HttpRequest) -> QuerySet[JournalEntry]:
        """Return entries with their postings."""
        rows: QuerySet[JournalEntry] = super().get_queryset(request)
        return rows.prefetch_related("postings__account")

    @admin.display(description="postings")
    def postings_text(self, entry: JournalEntry) -> str:
        """Return account and amount of each posting; debit above zero."""
        return "; ".join(
            f"{posting.account.name} {money_text(posting.amount, entry.currency)}"
            for posting in entry.postings.all()
        )

    @action(
        description="Accounting months",
        url_path="months",
        permissions=["view"],
        icon="event_available",
    )
    def ledger_months(self, request: HttpRequest) -> HttpResponse:
        """Show the months of the general ledger, and do their steps: accrue, export, close."""
        if batch_id := request.GET.get("batch"):
            return _batch_file(request, batch_id)
        may_write = self.has_write_permission(request)
        result, closing = None, ""
        if request.method == "POST" and may_write:
            label, step = request.POST.get("month", ""), request.POST.get("step", "")
            if step == "close" and request.POST.get("typed", "").strip() != label:
                closing = label
            else:
                result = _perform(step, label, request.POST.get("layout", ""), request=request)
        months = ledger_months()
        context = {
            **self.page_context(request, title=gettext("Accounting months")),
            "months": months,
            "running": f"{timezone.now():%Y-%m}",
            "layouts": LAYOUT_NAMES,
            "result": result,
            "closing": closing,
            "is_mistyped": bool(closing) and "typed" in request.POST,
            "unexported": sum(month.unexported for month in months if month.label <= closing),
            "may_write": may_write,
            "who_may": who_may_text(WRITE_JOURNAL, reach={RoleScope.PLATFORM}),
        }
        return TemplateResponse(request, TEMPLATE, context)


def _perform(step: str, label: str, layout: str, *, request: HttpRequest) -> LedgerStepResult:
    actor = actor_of_request(request)
    try:
        return LedgerStepResult(_done(step, label, layout, actor=actor))
    except DomainError as error:
        return LedgerStepResult(refusal_sentence(error), is_refused=True)


def _done(step: str, label: str, layout: str, *, actor: Actor) -> str:
    at = timezone.now()
    if step == "accrue":
        posted = accrue_unbilled(label=label, actor=actor, at=at)
        return gettext("{month}: {posted} accrual entries, reversals included.").format(
            month=label, posted=posted
        )
    if step == "close":
        close_accounting_month(label=label, actor=actor, at=at)
        return gettext("{month} is closed.").format(month=label)
    known = layouts(settings.JOURNAL_LAYOUTS)
    if layout not in known:
        raise NotFoundError("There is no such layout.", field="layout")
    batch = export_batch(month=label, layout=known[layout], actor=actor, at=at)
    return ngettext(
        "Batch {number} has {count} entry of {month}.",
        "Batch {number} has {count} entries of {month}.",
        batch.entries,
    ).format(number=batch.number, count=batch.entries, month=label)


def _batch_file(request: HttpRequest, batch_id: str) -> HttpResponse:
    try:
        batch = access_journal_batch(actor_of_request(request), UUID(batch_id))
    except (ValueError, DomainError):
        return HttpResponse(status=404)
    name, content = file_of(batch.number, layout=batch.layout, content=batch.content)
    return HttpResponse(
        content,
        content_type="text/csv; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, no-store",
        },
    )
