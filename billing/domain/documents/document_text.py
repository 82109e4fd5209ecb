"""A document as text for a page: its lines, what each size comes to, and its sums."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from billing.domain.documents.document import amount_text, as_printed
from billing.domain.money import SECONDS_PER_HOUR, Money, decimal_of, round_half_up

HOUR_DECIMALS_SHOWN: Final = 4
"""As on the PDF beside it; price times hours can be checked by hand."""
_SIZE_ORDER: Final = ("small", "medium", "large")


@dataclass(frozen=True)
class LineText:
    """One line as displayed."""

    project: str
    description: str
    unit_hours: str
    unit_price: str
    amount: str


@dataclass(frozen=True)
class SizeText:
    """What one size comes to; unit-hours of two sizes are two things and are never added."""

    size: str
    unit_hours: str
    amount: str


@dataclass(frozen=True)
class TaxText:
    """A tax as displayed, such as "S 19 %"."""

    label: str
    taxable_amount: str
    amount: str
    exemption_text: str


@dataclass(frozen=True)
class CarriedText:
    """The balance that a document brings forward, what it leaves, and what is due with it."""

    brought_forward: str
    carried_forward: str
    since: str
    amount_due: str


@dataclass(frozen=True)
class InvoiceText:
    """The lines, what each size comes to, the net total, taxes, and what is to pay with them."""

    lines: tuple[LineText, ...]
    sizes: tuple[SizeText, ...]
    total: str
    taxes: tuple[TaxText, ...]
    payable: str
    discount: str = ""
    """Sum of the tier lines; "" without any."""
    minimum: str = ""
    """Sum of the minimum lines; "" without any."""
    credit: str = ""
    """Sum of the credit lines; "" without any."""
    carried: CarriedText | None = None


def invoice_text(document: Mapping[str, Any]) -> InvoiceText:
    """Return a document of `billing.domain.documents.document` as the page shows it."""
    lines = as_printed(document)["lines"]
    return InvoiceText(
        lines=tuple(_line_text(line) for line in lines),
        sizes=_sizes(lines),
        total=number_text(document["total"]["amount"]),
        taxes=tuple(
            TaxText(
                label=f"{tax['category']} {tax['rate']} % {tax['country']}",
                taxable_amount=number_text(tax["taxable_amount"]),
                amount=number_text(tax["amount"]),
                exemption_text=tax["exemption_text"],
            )
            for tax in document.get("taxes", ())
        ),
        payable=number_text(document.get("payable", document["total"]["amount"])),
        discount=_sum_of("tier", lines),
        minimum=_sum_of("minimum", lines),
        credit=_sum_of("credit", lines),
        carried=_carried(document.get("carried")),
    )


def money_text(amount: Decimal, currency: str) -> str:
    """Return an amount as displayed, such as "1,234.50 EUR"."""
    return f"{number_text(amount_text(Money(amount, currency)))} {currency}"


def number_text(text: str) -> str:
    """Return an exact number with its own digits and its thousands apart, such as "1,234.50"."""
    return f"{Decimal(text):,f}"


def count_text(count: int, one: str, many: str) -> str:
    """Return a count before its noun, and verb, such as "1 hour is" or "1,200 hours are"."""
    return f"{count:,} {one if count == 1 else many}"


def hours_text(unit_seconds: int) -> str:
    """Return unit-seconds as unit-hours with four digits, half up; such as "1,234.5000"."""
    scaled = round_half_up(unit_seconds * 10**HOUR_DECIMALS_SHOWN, SECONDS_PER_HOUR)
    return f"{decimal_of(scaled, digits=HOUR_DECIMALS_SHOWN):,f}"


def _line_text(line: Mapping[str, Any]) -> LineText:
    is_usage = line.get("kind", "usage") == "usage"
    return LineText(
        project=line["project_name"],
        description=line["description"],
        unit_hours=hours_text(line["unit_seconds"]) if is_usage else "",
        unit_price=number_text(line["unit_price"]) if is_usage else "",
        amount=number_text(line["amount"]),
    )


def _carried(carried: Mapping[str, str] | None) -> CarriedText | None:
    if carried is None:
        return None
    return CarriedText(
        brought_forward=number_text(carried["brought_forward"]),
        # It is taken off, so that the column adds up to the amount due.
        carried_forward=number_text(str(0 - Decimal(carried["carried_forward"]))),
        since=carried["since"],
        amount_due=number_text(carried["amount_due"]),
    )


def _sum_of(kind: str, lines: list[Mapping[str, Any]]) -> str:
    amounts = [Decimal(line["amount"]) for line in lines if kind in line]
    return f"{sum(amounts):,f}" if amounts else ""


def _sizes(lines: list[Mapping[str, Any]]) -> tuple[SizeText, ...]:
    """Return what each size on the invoice comes to, from small to large."""
    unit_seconds: defaultdict[str, int] = defaultdict(int)
    amounts: defaultdict[str, Decimal] = defaultdict(Decimal)
    for line in lines:
        if line.get("kind", "usage") != "usage":
            continue
        unit_seconds[line["size"]] += line["unit_seconds"]
        amounts[line["size"]] += Decimal(line["amount"])
    return tuple(
        SizeText(
            size=size.capitalize(),
            unit_hours=hours_text(unit_seconds[size]),
            amount=f"{amounts[size]:,f}",
        )
        for size in sorted(unit_seconds, key=_SIZE_ORDER.index)
    )
