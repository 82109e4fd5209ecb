"""An invoice's document as its page says it: numbers grouped for the eye, quantities by size.

Only the page reads these words. PDF, CSV and REST keep the document's own exact numbers.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from billing.domain.money import SECONDS_PER_HOUR, decimal_of, round_half_up

HOUR_DECIMALS_SHOWN: Final = 4
"""As on the PDF beside it; price times hours can be checked by hand."""
_SIZE_ORDER: Final = ("small", "medium", "large")


@dataclass(frozen=True)
class LineWords:
    """One line as it is read."""

    project: str
    description: str
    unit_hours: str
    unit_price: str
    amount: str


@dataclass(frozen=True)
class SizeWords:
    """What one size comes to; unit-hours of two sizes are two things and are never added."""

    size: str
    unit_hours: str
    amount: str


@dataclass(frozen=True)
class InvoiceWords:
    """The lines, what each size comes to, and the total to pay."""

    lines: tuple[LineWords, ...]
    sizes: tuple[SizeWords, ...]
    total: str


def invoice_words(document: Mapping[str, Any]) -> InvoiceWords:
    """Return a document of `billing.domain.document` as the page says it."""
    return InvoiceWords(
        lines=tuple(_line(line) for line in document["lines"]),
        sizes=_sizes(document["lines"]),
        total=number_words(document["total"]["amount"]),
    )


def number_words(text: str) -> str:
    """Return an exact number with its own digits and its thousands apart, such as "1,234.50"."""
    return f"{Decimal(text):,f}"


def hours_words(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours with four digits, half up; such as "1,234.5000"."""
    scaled = round_half_up(unit_seconds * 10**HOUR_DECIMALS_SHOWN, SECONDS_PER_HOUR)
    return f"{decimal_of(scaled, digits=HOUR_DECIMALS_SHOWN):,f}"


def _line(line: Mapping[str, Any]) -> LineWords:
    return LineWords(
        project=line["project_name"],
        description=line["description"],
        unit_hours=hours_words(line["unit_seconds"]),
        unit_price=number_words(line["unit_price"]),
        amount=number_words(line["amount"]),
    )


def _sizes(lines: list[Mapping[str, Any]]) -> tuple[SizeWords, ...]:
    """Return what each size on the invoice comes to, from small to large."""
    unit_seconds: defaultdict[str, int] = defaultdict(int)
    amounts: defaultdict[str, Decimal] = defaultdict(Decimal)
    for line in lines:
        unit_seconds[line["size"]] += line["unit_seconds"]
        amounts[line["size"]] += Decimal(line["amount"])
    return tuple(
        SizeWords(
            size=size.capitalize(),
            unit_hours=hours_words(unit_seconds[size]),
            amount=f"{amounts[size]:,f}",
        )
        for size in sorted(unit_seconds, key=_SIZE_ORDER.index)
    )
