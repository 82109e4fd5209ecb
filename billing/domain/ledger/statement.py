"""The account of an organization: what it owed, what was added and paid, and that on paper."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from billing.domain.documents.document import (
    STANDARD_LANGUAGE,
    Document,
    Party,
    amount_text,
    clean_text,
    parties_text,
    utc_text,
)
from billing.domain.money import Money

SCHEMA: Final = "gpu-ledger/statement/1"
_REVERSED: Final = "Reversed: "
"""Before the number in the journal, where what was written off is owed again."""


@dataclass(frozen=True)
class StatementLine:
    """A document, above zero, or a payment, below; `balance` is what is owed after it."""

    dated_on: date
    event: str
    reference: str
    amount: Decimal
    balance: Decimal


@dataclass(frozen=True)
class AccountStatement:
    """What an organization owed, what was added and paid, and what it owes.

    Attributes:
        begin_on: The first day.
        end_on: The day after the last.
    """

    currency: str
    begin_on: date
    end_on: date
    opening: Decimal
    lines: tuple[StatementLine, ...]
    closing: Decimal


def statement_document(
    made: AccountStatement, *, issuer: Party, customer: Party, language: str, at: datetime
) -> Document:
    """Return a statement as plain JSON, with everything that is printed.

    Args:
        made: The account; its opening balance and debits less credits are the closing balance.
        issuer: Who bills.
        customer: Whose account it is.
        language: Of the customer.
        at: When.
    """
    amounts = [line.amount for line in made.lines]
    return {
        "schema": SCHEMA,
        **({"language": language} if language != STANDARD_LANGUAGE else {}),
        **parties_text(issuer=issuer, customer=customer),
        "made_at": utc_text(at),
        "currency": made.currency,
        "begin_on": made.begin_on.isoformat(),
        "last_on": (made.end_on - timedelta(days=1)).isoformat(),
        "opening": _text(made.opening, made.currency),
        "lines": [_line(line, made.currency) for line in made.lines],
        "debits": _text(_sum(amount for amount in amounts if amount > 0), made.currency),
        "credits": _text(_sum(-amount for amount in amounts if amount < 0), made.currency),
        "closing": _text(made.closing, made.currency),
    }


def _line(line: StatementLine, currency: str) -> dict[str, str]:
    is_reversal = line.reference.startswith(_REVERSED)
    return {
        "dated_on": line.dated_on.isoformat(),
        "event": f"{line.event}_reversal" if is_reversal else line.event,
        "reference": clean_text(line.reference.removeprefix(_REVERSED)),
        "amount": _text(line.amount, currency),
        "balance": _text(line.balance, currency),
    }


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, start=Decimal())


def _text(amount: Decimal, currency: str) -> str:
    return amount_text(Money(amount, currency))
