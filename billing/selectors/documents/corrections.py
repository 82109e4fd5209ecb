"""What credit notes left of a final document, by line; and what is asked of its lines."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final
from uuid import UUID

from django.db.models import QuerySet, Sum

from billing.domain.documents.invoicing import InvoiceKind
from billing.domain.documents.taxes import Corrected
from billing.domain.errors import CreditInvalidError, CreditTooLargeError
from billing.domain.money import Money
from billing.models import Invoice, InvoiceLine


def asked_of_left(
    invoice: Invoice, amounts: Mapping[UUID, Decimal]
) -> list[tuple[InvoiceLine, Money]]:
    """Return lines with what is asked of each, in the order they are printed; two queries.

    Raises:
        CreditInvalidError: A line is not of this document, or an amount is no amount above zero.
        CreditTooLargeError: More is asked than is left of a line.
    """
    rows = {line.pk: line for line in invoice.lines.all()}
    asked = asked_amounts(amounts, rows, currency=invoice.currency)
    left = left_of_lines(invoice, rows)
    for row, amount in asked:
        if amount.amount > left[row.pk]:
            raise CreditTooLargeError(
                "More is asked than is left of the line.",
                field="lines",
                facts={"line": str(row.pk), "left": str(left[row.pk])},
            )
    return asked


def asked_amounts(
    amounts: Mapping[UUID, Decimal], rows: Mapping[UUID, InvoiceLine], *, currency: str
) -> list[tuple[InvoiceLine, Money]]:
    """Return lines with what is asked of each, in the order they are printed."""
    if not amounts or not amounts.keys() <= rows.keys():
        raise CreditInvalidError("A line is not of this invoice.", field="lines")
    asked = [(rows[key], _amount(amount, currency=currency)) for key, amount in amounts.items()]
    return sorted(asked, key=lambda part: part[0].position)


def left_of_lines(invoice: Invoice, rows: Mapping[UUID, InvoiceLine]) -> dict[UUID, Decimal]:
    """Return what earlier credit notes left of each line."""
    credited = {
        key: total
        for *key_parts, total in InvoiceLine.objects.filter(invoice__in=credits_of(invoice))
        .order_by()
        .values_list(*LINE_KEY)
        .annotate(total=Sum("amount"))
        for key in [tuple(key_parts)]
    }
    return {
        key: row.amount + credited.get(tuple(getattr(row, name) for name in LINE_KEY), Decimal(0))
        for key, row in rows.items()
    }


def corrected(invoice: Invoice) -> Corrected:
    """Return what credit notes give back of a document, below zero."""
    sums = credits_of(invoice).aggregate(net=Sum("total"), tax=Sum("tax_total"))
    net, tax = (Money(sums[key] or Decimal(0), invoice.currency) for key in ("net", "tax"))
    return Corrected(net, tax)


def credits_of(invoice: Invoice) -> QuerySet[Invoice]:
    """Return the credit notes of a document, drafts too."""
    return Invoice.objects.filter(corrects=invoice, kind=InvoiceKind.CREDIT_NOTE.value)


def _amount(amount: Decimal, *, currency: str) -> Money:
    try:
        money = Money(amount, currency)
    except ValueError:
        money = Money.zero(currency)
    if money.minor_units <= 0:
        raise CreditInvalidError(
            "The amount is not above zero, or finer than the currency.", field="lines"
        )
    return money


LINE_KEY: Final = (
    "kind",
    "project_id",
    "size",
    "price_group",
    "unit_price",
    "service_period_id",
    "tier_schedule_id",
    "tier_band",
    "tier_span",
)
