"""What organizations owe, as a person would keep it on paper: no code and no table of the product.

Money is added to two lists, of documents and of customers' credit, each with its day; all figures
are sums over them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from uuid import UUID

ZERO = Decimal(0)
PAYMENT_DAYS = 30


@dataclass
class Bill:
    """An invoice or debit note that is final, or an opening balance above zero.

    Attributes:
        month: Whose month it bills; empty of an opening balance.
        left: By line, what credit notes left of it, net of tax; drafts count.
        is_corrected: Whether a credit or debit note of it was drafted.
        is_replaced: Whether another invoice stands in its place.
    """

    payer: str
    currency: str
    due_on: date
    changes: list[tuple[date, Decimal]] = field(default_factory=list)
    month: str = ""
    left: dict[UUID, Decimal] = field(default_factory=dict)
    is_invoice: bool = False
    is_corrected: bool = False
    is_replaced: bool = False

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
class WriteOff:
    """An amount that is given up: proposed, rejected, posted or reversed."""

    bill: UUID
    amount: Decimal
    proposer: str
    state: str = "proposed"


@dataclass
class Dispute:
    """What a customer does not accept: some lines, or all of a bill."""

    bill: UUID
    amount: Decimal
    lines: dict[UUID, Decimal]
    is_open: bool = True

    def covers(self, accepted: dict[UUID, Decimal]) -> bool:
        """Return whether no more is accepted than is disputed, of a line and in all."""
        of_other_lines = ZERO if self.lines else self.amount
        return sum(accepted.values()) <= self.amount and all(
            amount <= self.lines.get(line, of_other_lines) for line, amount in accepted.items()
        )


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
        self.write_offs: dict[UUID, WriteOff] = {}
        self.disputes: dict[UUID, Dispute] = {}
        self.drafts: dict[UUID, UUID] = {}
        """Credit notes in the making, and of which bill they are."""
        self.credit: list[tuple[str, str, date, Decimal]] = []
        """Payer, currency, day and change of what they have left; below zero."""
        self.events: list[tuple[str, str, date, Decimal]] = []
        """Alike: what changes what is owed, which settling does not."""

    def add_bill(self, key: UUID, bill: Bill, amount: Decimal, on: date) -> None:
        """Add what is owed from a day on."""
        self.bills[key] = bill
        self.change(key, amount, on)

    def change(self, key: UUID, amount: Decimal, on: date) -> None:
        """Add to what is open of a bill and to what its payer owes."""
        bill = self.bills[key]
        bill.changes.append((on, amount))
        self.events.append((bill.payer, bill.currency, on, amount))

    def credit_bill(self, key: UUID, amount: Decimal, on: date, *, freed_on: date) -> None:
        """Take off a bill what a credit note gives back; what was paid above it is free again."""
        self.change(key, -amount, on)
        above = -self.bills[key].open_amount
        for part in [part for part in reversed(self.parts) if part.bill == key]:
            if above <= 0:
                return
            self.free_part(part, freed_on)
            if part.amount > above:
                self.settle(part.money, key, part.amount - above, freed_on)
            above -= part.amount

    def documents(self) -> dict[UUID, Bill]:
        """Return the bills that are documents, which have lines."""
        return {key: bill for key, bill in self.bills.items() if bill.month}

    def is_correctable(self, key: UUID) -> bool:
        """Return whether a document takes credit and debit notes."""
        bill = self.bills[key]
        drafted = [self.bills[other] for other in self.drafts.values()]
        is_drafted = (bill.payer, bill.month) in [(row.payer, row.month) for row in drafted]
        return not (bill.is_replaced or is_drafted or self.written_off(key))

    def fits(self, key: UUID, amounts: dict[UUID, Decimal]) -> bool:
        """Return whether lines, and all of a document together, have as much left."""
        left = self.bills[key].left
        return 0 < sum(amounts.values()) <= sum(left.values()) and all(
            0 < amount <= left[line] for line, amount in amounts.items()
        )

    def take(self, key: UUID, amounts: dict[UUID, Decimal]) -> None:
        """Write down that a credit note gives back these amounts of lines."""
        bill = self.bills[key]
        bill.is_corrected = True
        for line, amount in amounts.items():
            bill.left[line] -= amount

    def all_left(self, key: UUID, *, most: Decimal) -> dict[UUID, Decimal]:
        """Return lines above zero, in order, with what is left of the document or of `most`."""
        found: dict[UUID, Decimal] = {}
        rest = min(most, sum(self.bills[key].left.values(), ZERO))
        for line, amount in self.bills[key].left.items():
            if (part := min(amount, rest)) > 0:
                found[line] = part
                rest -= part
        return found

    def written_off(self, key: UUID) -> Decimal:
        """Return what is given up of a bill."""
        rows = [row for row in self.write_offs.values() if row.bill == key]
        return sum((row.amount for row in rows if row.state == "posted"), ZERO)

    def disputed(self, key: UUID) -> Decimal:
        """Return what is disputed of a bill at present."""
        rows = [row for row in self.disputes.values() if row.bill == key]
        return sum((row.amount for row in rows if row.is_open), ZERO)

    def is_writable_off(self, key: UUID, amount: Decimal) -> bool:
        """Return whether so much is open, and no credit note is in the making."""
        return key not in self.drafts.values() and 0 < amount <= self.bills[key].open_amount

    def post_write_off(self, key: UUID, on: date, *, is_reversed: bool = False) -> None:
        """Give an amount up, or take that back."""
        row = self.write_offs[key]
        row.state = "reversed" if is_reversed else "posted"
        self.change(row.bill, row.amount if is_reversed else -row.amount, on)

    def add_money(self, key: UUID, money: Money, on: date) -> None:
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
