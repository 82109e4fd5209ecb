"""Admin pages of payments, with the import of banks' files, and of what is open."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget

from billing.access import READ_INVOICE, WRITE_PAYMENT
from billing.adapters.bank_files import BYTES_MAX, READERS
from billing.admin.amounts import money_text
from billing.admin.ledger.open_items import ageing_page, statement_page
from billing.models import Payment
from billing.selectors.ledger.settlement import (
    find_documents,
    find_opening_balances,
    with_free_amount,
)
from billing.services.ledger.payments import PaymentReport, import_payments
from billing.services.ledger.settling import (
    allocate_payment,
    release_payment,
    reverse_payment,
    unassign_payment,
)
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.admin.refusals import refusal_sentence
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, NotFoundError
from tenants.templatetags.texts import value_text

KIND_COLORS = {
    "receipt": "success",
    "refund": "info",
    "reversal": "danger",
    "credit_note": "primary",
    "opening_balance": "primary",
    "carried": "primary",
}


class BankFileForm(forms.Form):
    """A bank's file and its format."""

    format = forms.ChoiceField(
        label=gettext_lazy("Format"),
        choices=[("camt053", "camt.053"), ("csv", "CSV")],
        widget=UnfoldAdminSelectWidget(),
    )
    file = forms.FileField(label=gettext_lazy("File"), widget=UnfoldAdminFileFieldWidget())


@admin.register(Payment)
class PaymentAdmin(LedgerAdmin):
    """Money received, paid back, and left to allocate."""

    view_capability = READ_INVOICE
    write_capability = WRITE_PAYMENT
    hint = (
        "Import a bank's file; payments that name their invoice settle it. To settle another, "
        "choose the payment and Allocate with the number of invoice or opening balance as reason."
    )
    action_form = NoteActionForm
    actions = ("allocate_payments", "release_payments", "unassign_payments", "reverse_payments")
    actions_list = ("import_file", "ageing", "statement")
    list_display = (
        "bank_reference",
        "booked_on",
        "kind_label",
        "organization",
        "amount_text",
        "free_text",
        "payer",
    )
    day_column = "booked_on"
    list_filter = (
        "kind",
        ("organization", MarkFilter),
        "organization",
        "currency",
    )
    list_select_related = ("organization",)
    search_fields = ("bank_reference", "payer", "remittance", "organization__slug")
    ordering = ("-booked_on", "pk")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return payments with what is left of them."""
        return with_free_amount(super().get_queryset(request))

    @display(description="kind", ordering="kind", label=KIND_COLORS)
    def kind_label(self, payment: Payment) -> tuple[str, str]:
        """Return the kind, coloured."""
        return str(payment.kind), value_text(payment.kind)

    @admin.display(description="amount", ordering="amount")
    def amount_text(self, payment: Payment) -> str:
        """Return the amount as printed."""
        return money_text(payment.amount, payment.currency)

    @admin.display(description="free")
    def free_text(self, payment: Any) -> str:  # noqa: ANN401 - A row of `with_free_amount`.
        """Return what is neither allocated nor paid back."""
        return money_text(payment.free_amount, payment.currency)

    @action(
        description="Import a bank's file",
        url_path="import",
        permissions=["write"],
        icon="upload_file",
    )
    def import_file(self, request: HttpRequest) -> HttpResponse:
        """Record the payments of a file, and show which rows were refused."""
        form = BankFileForm(request.POST or None, request.FILES or None)
        report: PaymentReport | None = None
        if request.method == "POST" and form.is_valid():
            try:
                report = import_payments(
                    bank_file=READERS[form.cleaned_data["format"]](
                        form.cleaned_data["file"].read(BYTES_MAX + 1)
                    ),
                    actor=actor_of_request(request),
                    at=timezone.now(),
                )
            except DomainError as error:
                form.add_error("file", refusal_sentence(error))
        context = {
            **self.page_context(request, title=gettext("Import a bank's file")),
            "form": form,
            "report": report,
        }
        return TemplateResponse(request, "admin/billing/payment/import.html", context)

    @action(description="Open items", url_path="ageing", permissions=["view"], icon="schedule")
    def ageing(self, request: HttpRequest) -> HttpResponse:
        """Show what organizations owe, by days overdue."""
        return ageing_page(self, request)

    @action(description="Statement", url_path="statement", permissions=["view"], icon="list_alt")
    def statement(self, request: HttpRequest) -> HttpResponse:
        """Show the account of an organization."""
        return statement_page(self, request)

    @admin.action(description="Allocate", permissions=["write"])
    def allocate_payments(self, request: HttpRequest, rows: QuerySet[Payment]) -> None:
        """Settle the invoice or opening balance whose number was typed."""
        reference = note_of(request).strip()
        self.for_each(
            request,
            rows,
            lambda row, actor, at: allocate_payment(
                payment_id=row.pk, **_open_item(reference, payment=row), actor=actor, at=at
            ),
            done=gettext_noop("is allocated"),
        )

    @admin.action(description="Release", permissions=["write"])
    def release_payments(self, request: HttpRequest, rows: QuerySet[Payment]) -> None:
        """Take all allocations of the chosen payments back."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: release_payment(
                payment_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is free again"),
        )

    @admin.action(description="Take payer back", permissions=["write"])
    def unassign_payments(self, request: HttpRequest, rows: QuerySet[Payment]) -> None:
        """Take the payer of the chosen payments back, which nothing is allocated of."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: unassign_payment(
                payment_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("has no payer"),
        )

    @admin.action(description="Reverse", permissions=["write"])
    def reverse_payments(self, request: HttpRequest, rows: QuerySet[Payment]) -> None:
        """Reverse the chosen payments, which the bank took back today."""
        reason = note_of(request)

        def reverse(row: Payment, actor: Actor, at: datetime) -> Payment:
            return reverse_payment(
                payment_id=row.pk, reason=reason, booked_on=at.date(), actor=actor, at=at
            )

        self.for_each(request, rows, reverse, done=gettext_noop("is reversed"))


def _open_item(reference: str, *, payment: Payment) -> dict[str, Any]:
    """Return the key of what the number names: an invoice, or else an opening balance.

    Raises:
        NotFoundError: It names neither, or opening balances of several organizations.
    """
    document = find_documents([reference.upper()]).get(reference.upper())
    if document is not None:
        return {"document_id": document.pk}
    balances = find_opening_balances(reference, organization_id=payment.organization_id)
    if len(balances) != 1:
        raise NotFoundError(
            f'There is no final invoice or one opening balance "{reference}".', field="document"
        )
    return {"opening_balance_id": balances[0].pk}
