"""Admin pages of write-offs: a list, and their buttons on the invoice's page."""

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_noop
from unfold.decorators import display

from billing.access import READ_JOURNAL, WRITE_PAYMENT, access_write_off_to_decide
from billing.admin.amounts import money_text
from billing.admin.ledger.invoice_steps import InvoiceStep, InvoiceStepsAdmin
from billing.domain.documents.document import amount_text
from billing.domain.ledger.errors import WriteOffTooLargeError
from billing.domain.ledger.write_offs import WriteOffState
from billing.domain.money import Money
from billing.models import Invoice, WriteOff
from billing.services.ledger.write_offs import (
    confirm_write_off,
    propose_write_off,
    reject_write_off,
    reverse_write_off,
)
from tenants.domain.actors import Actor
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import value_text, who_may_text

DIGITS_MAX: Final = 20
"""As many as an amount is stored with."""
COLORS: Final = {
    WriteOffState.PROPOSED.value: "warning",
    WriteOffState.REJECTED.value: "info",
    WriteOffState.POSTED.value: "danger",
    WriteOffState.REVERSED.value: "info",
}


def _propose(request: HttpRequest, row: Invoice, actor: Actor, at: datetime) -> WriteOff:
    return propose_write_off(
        document_id=row.pk,
        amount=_amount(request),
        reason=_text(request),
        is_four_eyes=settings.FOUR_EYES,
        actor=actor,
        at=at,
    )


def _confirm(request: HttpRequest, row: WriteOff, actor: Actor, at: datetime) -> WriteOff:
    return confirm_write_off(
        write_off_id=row.pk,
        note=_text(request),
        is_four_eyes=settings.FOUR_EYES,
        actor=actor,
        at=at,
    )


def _reject(request: HttpRequest, row: WriteOff, actor: Actor, at: datetime) -> WriteOff:
    return reject_write_off(write_off_id=row.pk, note=_text(request), actor=actor, at=at)


def _reverse(request: HttpRequest, row: WriteOff, actor: Actor, at: datetime) -> WriteOff:
    return reverse_write_off(write_off_id=row.pk, reason=_text(request), actor=actor, at=at)


@admin.register(WriteOff)
class WriteOffAdmin(InvoiceStepsAdmin):
    """What of final invoices will not be paid."""

    view_capability = READ_JOURNAL
    write_capability = WRITE_PAYMENT
    first = InvoiceStep(
        WRITE_PAYMENT,
        _propose,
        gettext_noop("The write-off is proposed; another person confirms it."),
    )
    steps: ClassVar = {
        "confirm": InvoiceStep(WRITE_PAYMENT, _confirm, gettext_noop("The write-off is posted.")),
        "reject": InvoiceStep(WRITE_PAYMENT, _reject, gettext_noop("The write-off is rejected.")),
        "reverse": InvoiceStep(WRITE_PAYMENT, _reverse, gettext_noop("The write-off is reversed.")),
    }
    hint = (
        "A write-off is proposed on the invoice's page, and confirmed or rejected there by "
        "another person."
    )
    list_display = (
        "document",
        "organization",
        "state_label",
        "amount_text",
        "reason",
        "requested_by",
        "decided_by",
    )
    day_column = "requested_at"
    list_filter = ("state", "organization")
    list_select_related = ("organization", "document__period")
    search_fields = ("reason", "organization__name", "organization__slug", "document__number")
    ordering = ("-requested_at", "pk")

    def access(self, actor: Actor, row_id: UUID, capability: str) -> WriteOff:  # noqa: ARG002 - One for all.
        """Return a write-off that the actor may decide."""
        return access_write_off_to_decide(actor, row_id)

    @display(description="state", ordering="state", label=COLORS)
    def state_label(self, row: WriteOff) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(row.state), value_text(row.state)

    @admin.display(description="amount", ordering="amount")
    def amount_text(self, row: WriteOff) -> str:
        """Return the amount as printed."""
        return money_text(row.amount, row.currency)


def write_off_context(invoice: Any, actor: Actor) -> dict[str, Any]:  # noqa: ANN401 - Annotated.
    """Return what an invoice's page shows of its write-offs, newest first; one query.

    Args:
        invoice: A document with `open_amount`.
        actor: The signed-in person.
    """
    shown = [
        {
            "row": row,
            "amount": money_text(row.amount, row.currency),
            "is_proposed": row.state == WriteOffState.PROPOSED.value,
            "is_posted": row.state == WriteOffState.POSTED.value,
            "is_own": settings.FOUR_EYES and row.requested_by_id == actor.id,
        }
        for row in invoice.write_offs.all()
    ]
    return {
        "write_offs": shown,
        "can_be_written_off": invoice.open_amount > 0
        and not any(one["is_proposed"] for one in shown),
        "may_write_off": actor.may(WRITE_PAYMENT),
        "writers_off": who_may_text(WRITE_PAYMENT, reach={RoleScope.PLATFORM}),
        "open_typed": amount_text(Money(invoice.open_amount, invoice.currency)),
    }


def _amount(request: HttpRequest) -> Decimal | None:
    """Return what was typed; None for all that is open.

    Raises:
        WriteOffTooLargeError: It is no number.
    """
    typed = request.POST.get("amount", "").strip()
    if not typed:
        return None
    try:
        amount = Decimal(typed)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount.adjusted() > DIGITS_MAX:
        raise WriteOffTooLargeError("The amount is no number.", field="amount")
    return amount


def _text(request: HttpRequest) -> str:
    return request.POST.get("text", "").strip()
