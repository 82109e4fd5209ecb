"""What is owed of a key's use after credit and debit notes of money alone (ADR 0065).

A credit gives back money, and names no hours. When corrections take back use below what was billed
at the time of the credit, that use was given back already as far as the credit goes; use above it
costs what it costs. A debit is the same the other way round. What is owed depends on the notes and
on the use, and not on the order in which corrections came.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from billing.domain.money import Money, price_of


@dataclass(frozen=True)
class MoneyNote:
    """Money without quantity that a final credit or debit note has for a key.

    Attributes:
        billed_unit_seconds: What was billed of the key when the note became final.
        amount: Below zero for a credit; of a debit, less what credit notes gave back of it.
    """

    billed_unit_seconds: int
    amount: Decimal


def owed_of(
    unit_seconds: int, *, notes: Sequence[MoneyNote], unit_price: Decimal, currency: str
) -> Money:
    """Return what is owed for all use of a key: its price, as credit and debit notes changed it.

    Args:
        unit_seconds: All of the key.
        notes: Those of the key, in the order in which they became final.
        unit_price: Per unit-hour.
        currency: Of the price.
    """
    quantities = (*(note.billed_unit_seconds for note in notes), unit_seconds)
    owed = [
        price_of(quantity, unit_price=unit_price, currency=currency).minor_units
        for quantity in quantities
    ]
    for number, note in enumerate(notes):
        change, level = Money(note.amount, currency).minor_units, owed[number]
        owed = [_changed(one, by=change, level=level) for one in owed]
    return Money.of_minor_units(owed[-1], currency)


def _changed(owed: int, *, by: int, level: int) -> int:
    """Return what a note makes of what is owed.

    Args:
        owed: Without it, in minor units.
        by: What it changes; below zero for a credit.
        level: What was owed when it became final.
    """
    if by < 0:
        return owed + by if owed >= level else min(owed, level + by)
    return owed + by if owed <= level else max(owed, level + by)
