"""What organizations owe, as a person would keep it on paper: no code and no table of the product.

Money is added to two lists, of documents and of customers' credit, each with its day; all figures
are sums over them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from uuid import UUID

ZERO = Decimal(0)
PAYMENT_DAYS = 30


@dataclass
class Bill:
    """An invoice or debit note that is final."""

    payer: str
    currency: str
    due_on: date
    changes: list[tuple[date, Decimal]] = field(default_factory=list)

    @property
    def open_amount(self) -> Decimal:
        """What is left to pay."""
        return self.open_on(date.max)

    def open_on(self, day: date) -> Decimal:
        """Return what was left to pay at the end of a day."""
        return sum((amount for on, amount in self.changes if on <= day), ZERO)


@dataclass
class Money:
    """A payment, or the credit of a note without an invoice."""

    payer: str | None
    currency: str
    amount: Decimal
    is_receipt: bool = True
    paid_back: Decimal = ZERO
    is_returned: bool = False
    is_reversed: bool = False


@dataclass
class Part:
    """Money that settles a bill."""

    money: UUID
    bill: UUID
    amount: Decimal


class Owed:
    """Bills, money, and which money settles which bill."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.bills: dict[UUID, Bill] = {}
        self.money: dict[UUID, Money] = {}
        self.parts: list[Part] = []
        self.credit: list[tuple[str, str, date, Decimal]] = []
        """Payer, currency, day and change of what they have left; below zero."""
        self.events: list[tuple[str, str, date, Decimal]] = []
        """Alike: what changes what is owed, which settling does not."""

    def add_bill(self, key: UUID, payer: str, currency: str, amount: Decimal, on: date) -> None:
        """Add an invoice or debit note."""
        due_on = on + timedelta(days=PAYMENT_DAYS)
        self.bills[key] = Bill(payer, currency, due_on, [(on, amount)])
        self.events.append((payer, currency, on, amount))

    def credit_bill(self, key: UUID, amount: Decimal, on: date, *, freed_on: date) -> None:
        """Take off a bill what a credit note gives back; what was paid above it is free again."""
        bill = self.bills[key]
        bill.changes.append((on, -amount))
        self.events.append((bill.payer, bill.currency, on, -amount))
        above = -bill.open_amount
        for part in [part for part in reversed(self.parts) if part.bill == key]:
            if above <= 0:
                return
            self.free_part(part, freed_on)
            if part.amount > above:
                self.settle(part.money, key, part.amount - above, freed_on)
            above -= part.amount

    def add_money(
        self,
        key: UUID,
        money: Money,
        on: date,
    ) -> None:
        """Add a payment."""
        self.money[key] = money
        self.own(money, money.amount, on)

    def own(self, money: Money, amount: Decimal, on: date) -> None:
        """Add money to the credit of its payer, if known."""
        if money.payer is not None:
            self.credit.append((money.payer, money.currency, on, -amount))
            self.events.append((money.payer, money.currency, on, -amount))

    def assign(self, key: UUID, payer: str | None, on: date) -> None:
        """Set the payer of money, or take it back."""
        money = self.money[key]
        self.own(money, -money.amount, on)
        money.payer = payer
        self.own(money, money.amount, on)

    def settle(self, money: UUID, bill: UUID, amount: Decimal, on: date) -> None:
        """Settle a bill with money."""
        self.parts.append(Part(money, bill, amount))
        self._move(self.parts[-1], amount, on)

    def free_part(self, part: Part, on: date) -> None:
        """Take back that money settles a bill."""
        self.parts.remove(part)
        self._move(part, -part.amount, on)

    def pay_back(self, key: UUID, amount: Decimal, on: date) -> None:
        """Give money back."""
        money = self.money[key]
        money.paid_back += amount
        money.is_returned = True
        self.own(money, -amount, on)

    def parts_of(self, money: UUID) -> list[Part]:
        """Return what money settles."""
        return [part for part in self.parts if part.money == money]

    def free_amount(self, key: UUID) -> Decimal:
        """Return what is left of money."""
        settled = sum((part.amount for part in self.parts_of(key)), ZERO)
        return self.money[key].amount - self.money[key].paid_back - settled

    def by_age(self, day: date) -> dict[tuple[str, str], list[Decimal]]:
        """Return the columns of open items at the end of a day by payer and currency."""
        rows: dict[tuple[str, str], list[Decimal]] = {}
        for payer, currency, column, amount in self._aged(day):
            row = rows.setdefault((payer, currency), [ZERO] * 7)
            row[column] += amount
            row[6] += amount
        return rows

    def balance(self, payer: str, currency: str, *, before: date) -> Decimal:
        """Return what a payer owed when a day began."""
        return sum((amount for on, amount in self.events_of(payer, currency) if on < before), ZERO)

    def events_of(self, payer: str, currency: str) -> list[tuple[date, Decimal]]:
        """Return what changed what a payer owes, by day."""
        found = [row[2:] for row in self.events if row[:2] == (payer, currency) and row[3]]
        return sorted(found)

    def _aged(self, day: date) -> Iterator[tuple[str, str, int, Decimal]]:
        for bill in self.bills.values():
            overdue = (day - bill.due_on).days
            column = 0 if overdue <= 0 else min((overdue + 29) // 30, 4)
            yield bill.payer, bill.currency, column, bill.open_on(day)
        for payer, currency, on, amount in self.credit:
            if on <= day:
                yield payer, currency, 5, amount

    def _move(self, part: Part, amount: Decimal, on: date) -> None:
        bill = self.bills[part.bill]
        bill.changes.append((on, -amount))
        self.credit.append((bill.payer, bill.currency, on, amount))
