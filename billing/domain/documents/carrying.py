"""Carried balances: what is too small to ask for, or below zero, goes to the next document.

Everything is carried or nothing: the amount due of a document is then zero. Issuer and recipient
have one balance for each currency, which is the sum of what their documents carried less what they
brought forward.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from billing.domain.documents.invoicing import InvoiceKind
from billing.domain.money import Money
from billing.domain.period import Month


@dataclass(frozen=True)
class CarryTerms:
    """When a site carries a balance instead of asking for it, or giving it back.

    Attributes:
        months: How long one is carried at most; 0 for never.
        below: The smallest amount that is asked for, by currency; none for any amount.
    """

    months: int = 0
    below: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True)
class CarriedBalance:
    """What earlier documents left: above zero it is owed by the customer, below zero to it.

    Attributes:
        since: The month that it is carried from, such as "2026-10"; "" for nothing.
    """

    amount: Decimal = Decimal(0)
    since: str = ""


@dataclass(frozen=True)
class CarriedAmounts:
    """How a document takes a balance over, and what it leaves to the next one.

    Attributes:
        due: What is asked for now; below zero it is credited to the customer.
        since: The month that `forward` is carried from; "" for nothing.
    """

    brought: Money
    forward: Money
    due: Money
    since: str

    def left(self) -> CarriedBalance:
        """Return the balance after the document."""
        return CarriedBalance(self.forward.amount, self.since)

    def text(self) -> dict[str, Any]:
        """Return what the document shows of it; nothing where nothing is carried."""
        if not (self.brought.amount or self.forward.amount):
            return {}
        return {
            "carried": {
                "brought_forward": f"{self.brought.amount:f}",
                "carried_forward": f"{self.forward.amount:f}",
                "since": self.since,
                "amount_due": f"{self.due.amount:f}",
            }
        }


def carry(
    gross: Money, balance: CarriedBalance, *, label: str, kind: str, terms: CarryTerms
) -> CarriedAmounts:
    """Return what a document of a month does with the balance before it.

    A credit note asks for nothing: what is left above zero with it is always carried.

    Args:
        gross: Its total with taxes.
        balance: What documents before it left.
        label: Its month, such as "2026-12".
        kind: Invoice or credit note.
        terms: The site's.
    """
    brought = Money(balance.amount, gross.currency)
    left = gross + brought
    since = balance.since or label
    age = _months_between(since, label) + 1
    smallest = terms.below.get(gross.currency, Decimal(0))
    is_small = left.amount < 0 or left.amount < smallest
    is_owed_by_credit_note = kind == InvoiceKind.CREDIT_NOTE.value and left.amount > 0
    if left.amount and ((is_small and age <= terms.months) or is_owed_by_credit_note):
        return CarriedAmounts(brought, left, Money.zero(gross.currency), since)
    return CarriedAmounts(brought, Money.zero(gross.currency), left, "")


def carry_correction(
    corrected: Mapping[str, Any], notes: Iterable[Mapping[str, Any]], gross: Money
) -> CarriedAmounts:
    """Return what a credit note that corrects a document does.

    What the document never asked for, because it was carried or settled by a balance, comes back to
    the balance. After one in full the balance is what it was before the document.

    Args:
        corrected: The document.
        notes: Its earlier credit notes.
        gross: The credit note's total with taxes, below zero or zero.
    """
    zero = Money.zero(gross.currency)
    owed = sum((due_of(note) for note in notes), start=due_of(corrected))
    due = Money(max(gross.amount, -max(owed.amount, zero.amount)), gross.currency)
    forward = gross + -due
    return CarriedAmounts(
        zero, forward, due, corrected["period"]["label"] if forward.amount else ""
    )


def gross_of(document: Mapping[str, Any]) -> Money:
    """Return the total of a document with its taxes."""
    return Money(
        Decimal(document.get("payable", document["total"]["amount"])), document["currency"]
    )


def due_of(document: Mapping[str, Any]) -> Money:
    """Return what a document asks for: its total with taxes, and what is carried."""
    carried = document.get("carried")
    if carried is None:
        return gross_of(document)
    return Money(Decimal(carried["amount_due"]), document["currency"])


def _months_between(first: str, last: str) -> int:
    begin, end = Month.parse(first), Month.parse(last)
    return (end.year - begin.year) * 12 + end.month - begin.month
