"""Rows of bank statements: checked, and matched by the numbers of invoices in their text."""

import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Final

from billing.domain.ledger.errors import PaymentInvalidError
from billing.domain.money import Money

REFERENCES_MAX: Final = 50
"""Invoice numbers that are read from one text."""
_REFERENCE: Final = re.compile(r"(?<![A-Z0-9-])[A-Z0-9-]{1,12}-[0-9]{4}-[0-9]{6,12}(?![0-9])")
_ACCOUNT_LENGTH_MAX: Final = 34
_REFERENCE_LENGTH_MAX: Final = 140


RESERVED_ACCOUNTS: Final = frozenset({"CARRIED", "CREDITNOTE", "OPENING"})
"""Released balances, credit notes below zero and opening credit are payments of these accounts."""


@dataclass(frozen=True)
class BankRow:
    """Money received, by a bank's statement.

    Attributes:
        line: Of a CSV file, or number of the entry in a camt.053 file; 0 for none.
    """

    bank_account: str
    bank_reference: str
    amount: Decimal
    currency: str
    booked_on: date
    payer: str = ""
    remittance: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        """Spell the account in one way: an IBAN is printed with spaces, and sent without."""
        object.__setattr__(self, "bank_account", "".join(self.bank_account.split()).upper())

    @property
    def key(self) -> tuple[str, str]:
        """What makes it one payment, however often it is sent."""
        return (self.bank_account, self.bank_reference)

    @property
    def references(self) -> list[str]:
        """Numbers of invoices in the payer's text, each once, in order."""
        return list(dict.fromkeys(_REFERENCE.findall(self.remittance.upper())))[:REFERENCES_MAX]


@dataclass(frozen=True)
class RefusedRow:
    """A row that is not recorded, and why."""

    line: int
    code: str
    reason: str


@dataclass(frozen=True)
class BankFile:
    """What a bank's file has: rows to record, and those that cannot be."""

    rows: list[BankRow] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)


def require_bank_row(row: BankRow, *, today: date) -> None:
    """Refuse a payment that cannot be recorded.

    Raises:
        PaymentInvalidError: A reference, amount or date cannot be kept.
        CurrencyUnknownError: The currency is not an active one.
    """
    for name, text, most in (
        ("bank_account", row.bank_account, _ACCOUNT_LENGTH_MAX),
        ("bank_reference", row.bank_reference, _REFERENCE_LENGTH_MAX),
    ):
        if not 1 <= len(text) <= most or not text.isprintable():
            raise PaymentInvalidError(f"It has 1 to {most} characters.", field=name)
    if row.bank_account in RESERVED_ACCOUNTS:
        raise PaymentInvalidError("The account is reserved.", field="bank_account")
    require_payment_amount(row.amount, currency=row.currency)
    if row.booked_on > today:
        raise PaymentInvalidError("The date is in the future.", field="booked_on")


def require_payment_amount(amount: Decimal, *, currency: str) -> Decimal:
    """Return an amount above zero, in whole minor units.

    Raises:
        PaymentInvalidError: It is not.
        CurrencyUnknownError: The currency is not an active one.
    """
    zero = Money.zero(currency)
    try:
        money = Money(amount, currency)
    except ValueError:
        money = zero
    if money.minor_units <= 0 or amount >= Decimal(10) ** 16:
        raise PaymentInvalidError(
            "The amount is not above zero, too large, or finer than the currency.", field="amount"
        )
    return money.amount
