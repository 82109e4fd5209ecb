"""What is open of documents: derived from credit notes and allocations, in the page's statement."""

from collections.abc import Collection
from datetime import date
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import (
    Case,
    CharField,
    DecimalField,
    Expression,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Greatest

from billing.domain.documents.invoicing import OWED_KINDS, InvoiceKind, InvoiceState
from billing.domain.ledger.disputes import DisputeState
from billing.domain.ledger.status import PaymentStatus
from billing.domain.ledger.write_offs import WriteOffState
from billing.models import (
    Dispute,
    Invoice,
    OpeningBalance,
    Payment,
    PaymentAllocation,
    WriteOff,
)

NET: Final = "i.total"
TAX: Final = "i.tax_total"
CARRIED: Final = "(i.carried_forward - i.brought_forward)"
DUE: Final = f"({NET} + {TAX} - {CARRIED})"
"""Of a row `i` of invoices in SQL: net amount, tax, what it adds to a balance, and what is due."""
OF_NOTE: Final = DUE.replace("i.", "n.")
"""What is due of a row `n`."""
AMOUNT_DUE: Final = F("total") + F("tax_total") + F("brought_forward") - F("carried_forward")
_AMOUNT: Final = DecimalField(max_digits=20, decimal_places=4)
_ZERO: Final = Value(Decimal(0), output_field=_AMOUNT)


def with_settlement(rows: QuerySet[Invoice], *, on: date) -> QuerySet[Any]:
    """Return documents with `open_amount`, `disputed_amount`, `payment_status` and `due_on`.

    Args:
        rows: Any documents; a draft has the status "".
        on: The day on which they are overdue or not.
    """
    finals = Invoice.objects.filter(state=InvoiceState.FINAL.value)
    notes = finals.filter(kind=InvoiceKind.CREDIT_NOTE.value)
    disputes = Dispute.objects.filter(state=DisputeState.OPEN.value)
    write_offs = WriteOff.objects.filter(state=WriteOffState.POSTED.value)
    is_owed = Q(state=InvoiceState.FINAL.value, kind__in=OWED_KINDS)
    amounts = rows.annotate(
        due_on=F("due_date__due_on"),
        credited=_sum(notes, "corrects", AMOUNT_DUE),
        allocated=_sum(PaymentAllocation.objects.all(), "document", F("amount")),
        written_off=_sum(write_offs, "document", F("amount")),
        disputed_amount=_sum(disputes, "document", F("amount")),
    )
    return amounts.annotate(
        open_amount=Case(
            When(
                is_owed,
                then=Greatest(AMOUNT_DUE, _ZERO)
                + F("credited")
                - F("allocated")
                - F("written_off"),
            ),
            default=_ZERO,
        ),
    ).annotate(
        payment_status=Case(
            When(state=InvoiceState.DRAFT.value, then=Value("")),
            When(~is_owed, then=Value(PaymentStatus.CREDITED.value)),
            When(
                open_amount__lte=0,
                credited__lt=0,
                allocated=0,
                then=Value(PaymentStatus.CREDITED.value),
            ),
            When(
                open_amount__lte=0, written_off__gt=0, then=Value(PaymentStatus.WRITTEN_OFF.value)
            ),
            When(disputed_amount__gt=0, then=Value(PaymentStatus.DISPUTED.value)),
            When(
                ~Q(carried_forward=0),
                open_amount__lte=0,
                allocated=0,
                then=Value(PaymentStatus.CARRIED.value),
            ),
            When(open_amount__lte=0, then=Value(PaymentStatus.PAID.value)),
            When(due_on__lt=on, then=Value(PaymentStatus.OVERDUE.value)),
            When(allocated__gt=0, then=Value(PaymentStatus.PART_PAID.value)),
            default=Value(PaymentStatus.OPEN.value),
            output_field=CharField(),
        )
    )


def with_open_balance(rows: QuerySet[OpeningBalance], *, on: date) -> QuerySet[Any]:
    """Return opening balances with `open_amount` and `payment_status`; of credit, see its payment.

    Args:
        rows: Any of them.
        on: The day on which they are overdue or not.
    """
    amounts = rows.annotate(
        allocated=_sum(PaymentAllocation.objects.all(), "opening_balance", F("amount"))
    ).annotate(
        open_amount=Case(When(amount__gt=0, then=F("amount") - F("allocated")), default=_ZERO)
    )
    return amounts.annotate(
        payment_status=Case(
            When(amount__lt=0, then=Value(PaymentStatus.CREDITED.value)),
            When(open_amount__lte=0, then=Value(PaymentStatus.PAID.value)),
            When(due_on__lt=on, then=Value(PaymentStatus.OVERDUE.value)),
            When(allocated__gt=0, then=Value(PaymentStatus.PART_PAID.value)),
            default=Value(PaymentStatus.OPEN.value),
            output_field=CharField(),
        )
    )


def open_amount_of(item: Invoice | OpeningBalance) -> Decimal:
    """Return what is open of a document or an opening balance; lock its organization before."""
    if isinstance(item, Invoice):
        return open_amounts([item.pk])[item.pk]
    row = with_open_balance(OpeningBalance.objects.filter(pk=item.pk), on=date.min).get()
    open_amount: Decimal = row.open_amount
    return open_amount


def settled_document(document_id: UUID, *, on: date) -> Any:  # noqa: ANN401 - As annotated.
    """Return a document as `with_settlement` does."""
    return with_settlement(Invoice.objects.filter(pk=document_id), on=on).get()


def open_amounts(document_ids: Collection[UUID]) -> dict[UUID, Decimal]:
    """Return what is open of documents; lock their organizations before."""
    rows = with_settlement(Invoice.objects.filter(pk__in=document_ids), on=date.min)
    return {row.pk: row.open_amount for row in rows}


def with_free_amount(rows: QuerySet[Payment]) -> QuerySet[Any]:
    """Return payments with `free_amount`: what is neither allocated nor paid back."""
    return rows.annotate(
        free_amount=F("amount")
        + _sum(Payment.objects.all(), "origin", F("amount"))
        - _sum(PaymentAllocation.objects.all(), "payment", F("amount"))
    )


def find_documents(references: Collection[str]) -> dict[str, Invoice]:
    """Return the final invoices and debit notes with these numbers as printed; one query."""
    numbers = {reference.rpartition("-")[2] for reference in references}
    rows = Invoice.objects.filter(
        state=InvoiceState.FINAL.value,
        kind__in=OWED_KINDS,
        number__in=[int(number) for number in numbers if number.isdecimal()],
    ).select_related("period")
    return {
        row.reference: row
        for row in rows.defer("document", "content")
        if row.reference in references
    }


def find_opening_balances(reference: str, *, organization_id: UUID | None) -> list[OpeningBalance]:
    """Return what is owed under a number of the system before, at most two.

    Args:
        reference: The number.
        organization_id: Whose; None for anybody's.
    """
    rows = OpeningBalance.objects.filter(reference=reference, amount__gt=0)
    if organization_id is not None:
        rows = rows.filter(organization=organization_id)
    return list(rows[:2])


def _sum(rows: QuerySet[Any], link: str, amount: Expression | F) -> Coalesce:
    """Return the sum over rows that refer to the outer row, 0 for none."""
    added = rows.filter(**{link: OuterRef("pk")}).order_by().values(link)
    return Coalesce(Subquery(added.annotate(added=Sum(amount)).values("added")), _ZERO)
