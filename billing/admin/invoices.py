"""Admin pages of invoices: the document itself, and the steps from draft to final.

Buttons post to services as the signed-in person; following a link changes nothing.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_POST, require_safe
from unfold.decorators import display

from billing.access import READ_INVOICE, WRITE_INVOICE, access_invoice
from billing.adapters.terms import invoice_terms
from billing.admin.amounts import money_text, number_text
from billing.admin.disputes import dispute_context, typed_amounts
from billing.admin.invoice_files import FILES, file_context, file_response
from billing.admin.invoice_lines import line_day_page, line_page, linked_lines
from billing.admin.invoice_search import NumberedAdmin
from billing.admin.ledger.invoice_steps import reach
from billing.admin.ledger.write_offs import write_off_context
from billing.domain.documents.document import amount_text
from billing.domain.documents.document_text import invoice_text
from billing.domain.documents.invoicing import OWED_KINDS, InvoiceKind, InvoiceState
from billing.domain.money import Money
from billing.models import Invoice, PeriodState
from billing.selectors.documents.invoices import others_of_run
from billing.selectors.ledger.carried import releasable_balance
from billing.selectors.ledger.settlement import settled_document
from billing.services.crediting import draft_credit, draft_debit, void_invoice
from billing.services.finalizing import finalize_invoice, four_eyes_problem
from billing.services.invoicing import discard_draft, draft_invoice
from billing.services.ledger.carried import release_balance
from tenants.admin.base import actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.domain.refusals import PreconditionRequiredError
from tenants.templatetags.texts import english, figure, value_text

LIST = "admin:billing_invoice_changelist"
PAGE = "admin:billing_invoice_change"
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


@admin.register(Invoice)
class InvoiceAdmin(NumberedAdmin):
    """What organizations owe."""

    view_capability = READ_INVOICE
    write_capability = WRITE_INVOICE
    hint = "Drafts are made from billing periods. A final invoice is frozen by the database."
    change_form_outer_before_template = "admin/billing/invoice/document.html"
    list_display = (
        "reference",
        "organization",
        "period_label",
        "state_label",
        "total_text",
        "issued",
    )
    day_column = "finalized_at"
    list_filter = ("state", "period__label", "organization", "currency")
    list_select_related = ("organization", "period")
    search_fields = ("number", "organization__name", "organization__slug", "period__label")
    fields = (
        "organization",
        "period",
        "issuer",
        "recipient",
        "purchase_order",
        "state",
        "content_sha256",
        "drafted_by",
        "drafted_at",
        "finalized_by",
        "finalized_at",
        "version",
    )

    @admin.display(description="period", ordering="period__label")
    def period_label(self, invoice: Invoice) -> str:
        """Return the month."""
        return invoice.period.label

    @admin.display(description="total", ordering="total")
    def total_text(self, invoice: Invoice) -> str:
        """Return the total as printed."""
        return f"{number_text(invoice.document['total']['amount'])} {invoice.currency}"

    @display(description="state", ordering="state", label={"draft": "warning", "final": "success"})
    def state_label(self, invoice: Invoice) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(invoice.state), value_text(invoice.state)

    @admin.display(description="finalized", ordering="finalized_at")
    def issued(self, invoice: Invoice) -> datetime | None:
        """Return when it became final."""
        return invoice.finalized_at

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Return the pages of one invoice, before those of every table."""
        views: dict[str, Callable[..., HttpResponse]] = {
            "finalize": self.finalize,
            "redraft": self.redraft,
            "credit": self.credit,
            "debit": self.debit,
            "void": self.void,
            "release": self.release,
            "discard": self.discard,
        }
        own = [
            path(
                f"<uuid:invoice_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"billing_invoice_{name}",
            )
            for name, view in views.items()
        ]
        files = [
            path(
                f"<uuid:invoice_id>/{name}/",
                self.admin_site.admin_view(self.show_file),
                {"name": name},
                name=f"billing_invoice_{name}",
            )
            for name in FILES
        ]
        lines = [
            path(
                "lines/<uuid:line_id>/",
                self.admin_site.admin_view(self.show_line),
                name="billing_invoice_line",
            ),
            path(
                "lines/<uuid:line_id>/<str:day>/",
                self.admin_site.admin_view(self.show_line_day),
                name="billing_invoice_line_day",
            ),
        ]
        return [*own, *files, *lines, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the invoice's page, with its document."""
        invoice = self.get_object(request, object_id)
        words = invoice_text(invoice.document) if invoice else None
        credited = request.GET.get("credit", "")
        actor = actor_of_request(request)
        context = {
            "invoice": invoice,
            "document": invoice.document if invoice else None,
            "words": words,
            "lines": linked_lines(invoice, words.lines) if invoice and words else [],
            "is_draft": invoice is not None and invoice.state == InvoiceState.DRAFT.value,
            "finalize_problem": english(
                (invoice and four_eyes_problem(invoice, actor=actor, terms=invoice_terms())) or ""
            ),
            "may_write": self.has_write_permission(request),
            **(file_context(invoice) if invoice else {}),
            **(_corrections(invoice) if invoice else {}),
            **(dispute_context(invoice, actor, credited=credited) if invoice else {}),
            **(_settlement(invoice, actor) if invoice else {}),
            "title": gettext("Invoice {number}").format(number=value_text(str(invoice))),
            **(extra_context or {}),
        }
        answer: HttpResponse = super().change_view(request, object_id, form_url, context)
        return answer

    @method_decorator(require_safe)
    def show_line(self, request: HttpRequest, line_id: UUID) -> HttpResponse:
        """Show how a line was computed, with its days."""
        self._require_view(request)
        return line_page(self, request, line_id)

    @method_decorator(require_safe)
    def show_line_day(self, request: HttpRequest, line_id: UUID, day: str) -> HttpResponse:
        """Show one day of a line, with its charges and pods."""
        self._require_view(request)
        return line_day_page(self, request, line_id, day)

    @method_decorator(require_safe)
    @method_decorator(xframe_options_sameorigin)
    def show_file(self, request: HttpRequest, invoice_id: UUID, name: str) -> HttpResponse:
        """Return a file of the document; the PDF is displayed in its page."""
        invoice = self._invoice(request, invoice_id, READ_INVOICE)
        try:
            return file_response(invoice, name, actor=actor_of_request(request), at=timezone.now())
        except DomainError as error:
            self.report_refusal(request, error)
            return HttpResponseRedirect(reverse(PAGE, args=[invoice_id]))

    @method_decorator(require_POST)
    def finalize(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Finalize the displayed version of the draft."""
        return self._perform(
            request,
            invoice_id,
            lambda row, actor, at: finalize_invoice(
                invoice_id=row.pk,
                actor=actor,
                at=at,
                terms=invoice_terms(),
                expected_version=_version(request),
            ),
            done=gettext_noop("The invoice is final."),
        )

    @method_decorator(require_POST)
    def redraft(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Make the draft again from the charges as they are now."""
        return self._perform(
            request,
            invoice_id,
            lambda row, actor, at: draft_invoice(
                period_id=row.period_id, actor=actor, at=at, terms=invoice_terms()
            ),
            done=gettext_noop("The draft was made again."),
        )

    @method_decorator(require_POST)
    def discard(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Discard the displayed version of the draft."""
        return self._perform(
            request,
            invoice_id,
            lambda row, actor, at: discard_draft(
                invoice_id=row.pk, actor=actor, at=at, expected_version=_version(request)
            ),
            done=gettext_noop("The draft was discarded."),
            then=lambda _: reverse(LIST),
        )

    @method_decorator(require_POST)
    def credit(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Draft a credit note of the amounts beside the lines, and show it."""
        return self._perform(
            request,
            invoice_id,
            lambda row, actor, at: draft_credit(
                invoice_id=row.pk,
                amounts=typed_amounts(request),
                reason=request.POST.get("reason", ""),
                actor=actor,
                at=at,
                terms=invoice_terms(),
            ),
            done=gettext_noop("The credit note is drafted; another person finalizes it."),
            then=lambda note: reverse(PAGE, args=[note.pk]),
        )

    @method_decorator(require_POST)
    def debit(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Draft a debit note of the amounts beside the lines, and show it."""
        return self._perform(
            request,
            invoice_id,
            lambda row, actor, at: draft_debit(
                invoice_id=row.pk,
                amounts=typed_amounts(request),
                reason=request.POST.get("reason", ""),
                actor=actor,
                at=at,
                terms=invoice_terms(),
            ),
            done=gettext_noop("The debit note is drafted; another person finalizes it."),
            then=lambda note: reverse(PAGE, args=[note.pk]),
        )

    @method_decorator(require_POST)
    def void(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Draft the credit note in full, which is shown, and the invoice that replaces it."""
        return self._perform(
            request,
            invoice_id,
            lambda row, actor, at: void_invoice(
                invoice_id=row.pk,
                reason=request.POST.get("reason", ""),
                actor=actor,
                at=at,
                terms=invoice_terms(),
            ),
            done=gettext_noop(
                "Credit note and replacement are drafted; another person finalizes both."
            ),
            then=lambda drafts: reverse(PAGE, args=[drafts[0].pk]),
        )

    @method_decorator(require_POST)
    def release(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Release the balance owed to the customer that documents of the invoice's kind carried."""
        return self._perform(
            request,
            invoice_id,
            lambda row, actor, at: release_balance(
                invoice_id=row.pk, reason=request.POST.get("reason", ""), actor=actor, at=at
            ),
            done=gettext_noop(
                "The balance is released: it settles other invoices, or is paid back."
            ),
        )

    def _perform(
        self,
        request: HttpRequest,
        invoice_id: UUID,
        call: Callable[[Invoice, Actor, datetime], object],
        *,
        done: str,
        then: Callable[[Any], str] | None = None,
    ) -> HttpResponse:
        """Call a service, show the result, and go to its page, or else return to this one."""
        invoice = self._invoice(request, invoice_id, WRITE_INVOICE)
        page = reverse(PAGE, args=[invoice_id])
        try:
            made = call(invoice, actor_of_request(request), timezone.now())
        except DomainError as error:
            self.report_refusal(request, error)
            return HttpResponseRedirect(page)
        self.message_user(request, gettext(done), messages.SUCCESS)
        return HttpResponseRedirect(then(made) if then else page)

    def _require_view(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _invoice(self, request: HttpRequest, invoice_id: UUID, capability: str) -> Invoice:
        """Return the invoice, or answer as the admin does: 403 or 404."""
        self._require_view(request)
        actor = actor_of_request(request)
        invoice: Invoice = reach(lambda: access_invoice(actor, invoice_id, capability))
        return invoice


def _settlement(invoice: Invoice, actor: Actor) -> dict[str, Any]:
    """Return what a page shows of how far a final invoice or debit note is settled."""
    if invoice.state != InvoiceState.FINAL.value or invoice.kind not in OWED_KINDS:
        return {}
    row = settled_document(invoice.pk, on=timezone.now().date())
    shown = {
        "status": value_text(row.payment_status),
        "open": money_text(row.open_amount, row.currency),
        "is_open": row.open_amount > 0,
        "due": row.due_on,
        "disputed": money_text(row.disputed_amount, row.currency) if row.disputed_amount else "",
        "written_off": money_text(row.written_off, row.currency) if row.written_off else "",
    }
    return {"settlement": shown, **write_off_context(row, actor)}


def _corrections(invoice: Invoice) -> dict[str, Any]:
    """Return what a page shows of corrections: those of the invoice, and its own run's."""
    is_final = invoice.state == InvoiceState.FINAL.value
    return {
        "is_first_run": invoice.run == 1,
        "is_in_review": invoice.run == 1 and invoice.period.state != PeriodState.OPEN,
        "can_be_credited": is_final and invoice.kind in OWED_KINDS,
        "is_invoice": invoice.kind == InvoiceKind.INVOICE.value,
        "released": _released(invoice) if is_final else None,
        "corrections": list(invoice.corrections.select_related("period").order_by("run")),
        "others_of_run": list(others_of_run(invoice)),
    }


def _released(invoice: Invoice) -> dict[str, str] | None:
    """Return what is owed to the customer from documents that carried it; None for nothing."""
    balance = releasable_balance(invoice)
    if balance is None:
        return None
    owed = Money(-balance.amount, invoice.currency)
    return {"owed": figure(amount_text(owed)), "since": balance.since}


def _version(request: HttpRequest) -> int:
    """Return the version the page showed, so that nothing newer is acted on unseen.

    Raises:
        PreconditionRequiredError: The page did not send one.
    """
    shown = _VERSION.fullmatch(request.POST.get("version", ""))
    if shown is None:
        raise PreconditionRequiredError("The form does not say which version it showed.")
    return int(shown[0])
