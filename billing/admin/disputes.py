"""Admin pages of disputes: a list for finance, and the thread with buttons on the invoice's page.

Buttons post to services as the signed-in person; following a link changes nothing.
"""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST
from unfold.decorators import display
from unfold.views import ChangeList

from billing.access import (
    READ_INVOICE,
    WRITE_DISPUTE,
    WRITE_INVOICE,
    access_dispute,
    access_invoice,
)
from billing.admin.terms import invoice_terms
from billing.domain.documents.document_text import money_text
from billing.domain.documents.invoicing import OWED_KINDS, InvoiceState
from billing.domain.errors import CreditInvalidError
from billing.domain.ledger.disputes import DisputeState
from billing.models import Dispute, Invoice
from billing.selectors.documents.corrections import left_of_lines
from billing.services.disputes import (
    accept_dispute,
    open_dispute,
    reject_dispute,
    withdraw_dispute,
    write_message,
)
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, ForbiddenError, NotFoundError
from tenants.domain.identity.granting import who_may
from tenants.domain.identity.roles import RoleScope

INVOICE_PAGE: Final = "admin:billing_invoice_change"
DIGITS_MAX: Final = 20
"""As many as an amount is stored with."""
COLORS: Final = {
    DisputeState.OPEN.value: "warning",
    DisputeState.WITHDRAWN.value: "info",
    DisputeState.REJECTED.value: "info",
    DisputeState.ACCEPTED.value: "success",
}
Call = Callable[[Any, Actor, datetime], object]


class DisputeChangeList(ChangeList):
    """A list whose rows lead to the page of their invoice, which has the thread."""

    def url_for_result(self, result: Dispute) -> str:
        """Return the invoice's page."""
        return f"{reverse(INVOICE_PAGE, args=[result.document_id])}#disputes"


@admin.register(Dispute)
class DisputeAdmin(LedgerAdmin):
    """What customers do not accept of final invoices."""

    view_capability = READ_INVOICE
    write_capability = WRITE_INVOICE
    hint = (
        "Customers open disputes over REST, finance on the invoice's page, which has the thread "
        "and the buttons. An accepted one drafts a credit note."
    )
    list_display = (
        "document",
        "organization",
        "state_label",
        "amount_text",
        "reason",
        "opened_by",
        "opened_at",
        "decided_by",
    )
    list_filter = ("state", "organization")
    list_select_related = ("organization", "document__period")
    search_fields = ("reason", "organization__name", "organization__slug", "document__number")
    ordering = ("-opened_at", "pk")

    @display(description="state", ordering="state", label=COLORS)
    def state_label(self, row: Dispute) -> str:
        """Return the state, coloured."""
        return str(row.state)

    @admin.display(description="disputed", ordering="amount")
    def amount_text(self, row: Dispute) -> str:
        """Return the amount as printed."""
        return money_text(row.amount, row.currency)

    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ChangeList]:  # noqa: ANN401, ARG002
        """Return the list that leads to invoices."""
        return DisputeChangeList

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Return the steps of a dispute, before the pages of every table."""
        steps = {
            "reply": (WRITE_DISPUTE, _reply, "The message is written."),
            "withdraw": (WRITE_DISPUTE, _withdraw, "The dispute is withdrawn."),
            "reject": (WRITE_INVOICE, _reject, "The dispute is rejected."),
            "accept": (
                WRITE_INVOICE,
                _accept,
                "The dispute is accepted and the credit note drafted; another person finalizes it.",
            ),
        }
        own = [
            path(
                f"<uuid:dispute_id>/{name}/",
                self.admin_site.admin_view(self._step),
                {"capability": capability, "ask": ask, "done": done},
                name=f"billing_dispute_{name}",
            )
            for name, (capability, ask, done) in steps.items()
        ]
        opened = path(
            "<uuid:invoice_id>/open/",
            self.admin_site.admin_view(self.open_dispute),
            name="billing_dispute_open",
        )
        return [opened, *own, *super().get_urls()]

    @method_decorator(require_POST)
    def open_dispute(self, request: HttpRequest, invoice_id: UUID) -> HttpResponse:
        """Dispute the invoice, whole or by the amounts that were typed beside its lines."""
        actor = actor_of_request(request)
        invoice = reach(lambda: access_invoice(actor, invoice_id, WRITE_DISPUTE))

        def call(row: Invoice, actor: Actor, at: datetime) -> Dispute:
            return open_dispute(
                document_id=row.pk,
                amounts=typed_amounts(request),
                reason=request.POST.get("reason", ""),
                actor=actor,
                at=at,
            )

        return self._perform(request, invoice, call, invoice_id=invoice_id, done="It is disputed.")

    @method_decorator(require_POST)
    def _step(
        self,
        request: HttpRequest,
        dispute_id: UUID,
        *,
        capability: str,
        ask: Callable[[HttpRequest], Call],
        done: str,
    ) -> HttpResponse:
        actor = actor_of_request(request)
        found = reach(lambda: access_dispute(actor, dispute_id, capability))
        return self._perform(request, found, ask(request), invoice_id=found.document_id, done=done)

    def _perform(
        self, request: HttpRequest, row: object, call: Call, *, invoice_id: UUID, done: str
    ) -> HttpResponse:
        """Call a service, show the result, and return to the invoice's page."""
        try:
            call(row, actor_of_request(request), timezone.now())
        except DomainError as error:
            self.report_refusal(request, error)
        else:
            self.message_user(request, done, messages.SUCCESS)
        return HttpResponseRedirect(f"{reverse(INVOICE_PAGE, args=[invoice_id])}#disputes")


def reach(access: Callable[[], Any]) -> Any:  # noqa: ANN401 - Any row.
    """Return a row, or answer as the admin does: 403 or 404."""
    try:
        return access()
    except ForbiddenError as error:
        raise PermissionDenied from error
    except NotFoundError as error:
        raise Http404 from error


def typed_amounts(request: HttpRequest) -> dict[UUID, Decimal]:
    """Return the amounts that were typed, by line; an empty field names no line.

    Raises:
        CreditInvalidError: One is no number, or its line has no id.
    """
    typed = {
        name.removeprefix("line-"): text.strip()
        for name, text in request.POST.items()
        if isinstance(text, str) and name.startswith("line-") and text.strip()
    }
    try:
        amounts = {UUID(line): Decimal(text) for line, text in typed.items()}
    except (ValueError, InvalidOperation) as error:
        raise CreditInvalidError("An amount is no number.", field="lines") from error
    if any(not amount.is_finite() or amount.adjusted() > DIGITS_MAX for amount in amounts.values()):
        raise CreditInvalidError("An amount is no number.", field="lines")
    return amounts


def dispute_context(invoice: Invoice, actor: Actor) -> dict[str, Any]:
    """Return what an invoice's page shows of its disputes, newest first; three queries."""
    disputes = invoice.disputes.prefetch_related("lines__line__project", "messages")
    shown = [_shown(dispute, invoice) for dispute in disputes.select_related("credit_note__period")]
    rows = {line.pk: line for line in invoice.lines.select_related("project").order_by("position")}
    left = left_of_lines(invoice, rows)
    is_owed = invoice.state == InvoiceState.FINAL.value and invoice.kind in OWED_KINDS
    return {
        "disputes": shown,
        "has_open_dispute": any(one["dispute"].state == DisputeState.OPEN for one in shown),
        "can_be_disputed": is_owed,
        "may_dispute": actor.may(WRITE_DISPUTE, organization_id=invoice.organization_id),
        "may_decide": actor.may(WRITE_INVOICE),
        "who_disputes": who_may(WRITE_DISPUTE, reach={RoleScope.PLATFORM, RoleScope.ORGANIZATION}),
        "who_decides": who_may(WRITE_INVOICE, reach={RoleScope.PLATFORM}),
        "left_lines": [(row, money_text(left[key], invoice.currency)) for key, row in rows.items()],
    }


def _shown(dispute: Dispute, invoice: Invoice) -> dict[str, Any]:
    return {
        "dispute": dispute,
        "is_open": dispute.state == DisputeState.OPEN.value,
        "amount": money_text(dispute.amount, dispute.currency),
        "lines": [
            {
                "line": part.line,
                "amount": money_text(part.amount, invoice.currency),
                "typed": f"{part.amount.normalize():f}",
            }
            for part in dispute.lines.all()
        ],
    }


def _reply(request: HttpRequest) -> Call:
    text = request.POST.get("text", "")
    return lambda row, actor, at: write_message(dispute_id=row.pk, text=text, actor=actor, at=at)


def _withdraw(request: HttpRequest) -> Call:
    reason = request.POST.get("text", "")
    return lambda row, actor, at: withdraw_dispute(
        dispute_id=row.pk, reason=reason, actor=actor, at=at
    )


def _reject(request: HttpRequest) -> Call:
    reason = request.POST.get("text", "")
    return lambda row, actor, at: reject_dispute(
        dispute_id=row.pk, reason=reason, actor=actor, at=at
    )


def _accept(request: HttpRequest) -> Call:
    return lambda row, actor, at: accept_dispute(
        dispute_id=row.pk,
        amounts=typed_amounts(request),
        reason=request.POST.get("text", ""),
        actor=actor,
        at=at,
        terms=invoice_terms(),
    )
