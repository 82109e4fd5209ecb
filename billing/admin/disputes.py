"""Admin pages of disputes: a list for finance, and the thread with buttons on the invoice's page.

Buttons post to services as the signed-in person; following a link changes nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_noop
from unfold.decorators import display

from billing.access import READ_INVOICE, WRITE_DISPUTE, WRITE_INVOICE, access_dispute
from billing.adapters.terms import invoice_terms
from billing.admin.amounts import money_text
from billing.admin.ledger.invoice_steps import InvoiceStep, InvoiceStepsAdmin
from billing.domain.documents.document import amount_text
from billing.domain.documents.invoicing import OWED_KINDS, InvoiceState
from billing.domain.errors import CreditInvalidError
from billing.domain.ledger.disputes import DisputeState
from billing.domain.money import Money
from billing.models import Dispute, Invoice
from billing.selectors.documents.corrections import left_of_lines
from billing.services.disputes import (
    accept_dispute,
    open_dispute,
    reject_dispute,
    withdraw_dispute,
    write_message,
)
from tenants.domain.actors import Actor
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import value_text, who_may_text

DIGITS_MAX: Final = 20
"""As many as an amount is stored with."""
COLORS: Final = {
    DisputeState.OPEN.value: "warning",
    DisputeState.WITHDRAWN.value: "info",
    DisputeState.REJECTED.value: "info",
    DisputeState.ACCEPTED.value: "success",
}


def _open(request: HttpRequest, row: Invoice, actor: Actor, at: datetime) -> Dispute:
    return open_dispute(
        document_id=row.pk,
        amounts=typed_amounts(request),
        reason=request.POST.get("reason", ""),
        actor=actor,
        at=at,
    )


def _reply(request: HttpRequest, row: Dispute, actor: Actor, at: datetime) -> object:
    return write_message(dispute_id=row.pk, text=_text(request), actor=actor, at=at)


def _withdraw(request: HttpRequest, row: Dispute, actor: Actor, at: datetime) -> Dispute:
    return withdraw_dispute(dispute_id=row.pk, reason=_text(request), actor=actor, at=at)


def _reject(request: HttpRequest, row: Dispute, actor: Actor, at: datetime) -> Dispute:
    return reject_dispute(dispute_id=row.pk, reason=_text(request), actor=actor, at=at)


def _accept(request: HttpRequest, row: Dispute, actor: Actor, at: datetime) -> Dispute:
    return accept_dispute(
        dispute_id=row.pk,
        amounts=typed_amounts(request),
        reason=_text(request),
        actor=actor,
        at=at,
        terms=invoice_terms(),
    )


def _text(request: HttpRequest) -> str:
    return request.POST.get("text", "")


@admin.register(Dispute)
class DisputeAdmin(InvoiceStepsAdmin):
    """What customers do not accept of final invoices."""

    view_capability = READ_INVOICE
    write_capability = WRITE_INVOICE
    first = InvoiceStep(WRITE_DISPUTE, _open, gettext_noop("It is disputed."))
    steps: ClassVar = {
        "reply": InvoiceStep(WRITE_DISPUTE, _reply, gettext_noop("The message is written.")),
        "withdraw": InvoiceStep(
            WRITE_DISPUTE, _withdraw, gettext_noop("The dispute is withdrawn.")
        ),
        "reject": InvoiceStep(WRITE_INVOICE, _reject, gettext_noop("The dispute is rejected.")),
        "accept": InvoiceStep(
            WRITE_INVOICE,
            _accept,
            gettext_noop(
                "The dispute is accepted and the credit note drafted; another person finalizes it."
            ),
        ),
    }
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
    day_column = "opened_at"
    list_filter = ("state", "organization")
    list_select_related = ("organization", "document__period")
    search_fields = ("reason", "organization__name", "organization__slug", "document__number")
    ordering = ("-opened_at", "pk")

    def access(self, actor: Actor, row_id: UUID, capability: str) -> Dispute:
        """Return a dispute over which the actor holds a capability."""
        return access_dispute(actor, row_id, capability)

    @display(description="state", ordering="state", label=COLORS)
    def state_label(self, row: Dispute) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(row.state), value_text(row.state)

    @admin.display(description="disputed", ordering="amount")
    def amount_text(self, row: Dispute) -> str:
        """Return the amount as printed."""
        return money_text(row.amount, row.currency)


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


def dispute_context(invoice: Invoice, actor: Actor, *, credited: str = "") -> dict[str, Any]:
    """Return what an invoice's page shows of its disputes, newest first; three queries.

    Args:
        invoice: The document.
        actor: The reader.
        credited: The id of the line that a credit note was begun for.
    """
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
        "disputers": who_may_text(
            WRITE_DISPUTE, reach={RoleScope.PLATFORM, RoleScope.ORGANIZATION}
        ),
        "deciders": who_may_text(WRITE_INVOICE, reach={RoleScope.PLATFORM}),
        "credited": credited,
        "credited_amount": _credited_amount(invoice, left, credited),
        "left_lines": [(row, money_text(left[key], invoice.currency)) for key, row in rows.items()],
    }


def _credited_amount(invoice: Invoice, left: Mapping[UUID, Decimal], credited: str) -> str:
    """Return what is left of the credited line, as it is typed; "" without one."""
    amounts = (amount for key, amount in left.items() if str(key) == credited and amount > 0)
    return next((amount_text(Money(amount, invoice.currency)) for amount in amounts), "")


def _shown(dispute: Dispute, invoice: Invoice) -> dict[str, Any]:
    return {
        "dispute": dispute,
        "is_open": dispute.state == DisputeState.OPEN.value,
        "amount": money_text(dispute.amount, dispute.currency),
        "lines": [
            {
                "line": part.line,
                "amount": money_text(part.amount, invoice.currency),
                "typed": amount_text(Money(part.amount, invoice.currency)),
            }
            for part in dispute.lines.all()
        ],
    }
