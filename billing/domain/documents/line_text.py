"""How a line of a document was computed, as text for a page: figures, and a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from billing.domain.documents.document_text import hours_text, number_text
from billing.domain.documents.invoicing import InvoiceKind, LineKind


@dataclass(frozen=True)
class LineSteps:
    """The arithmetic of a line; `steps` are label and figure, the last of them is the amount."""

    rule: str
    steps: tuple[tuple[str, str], ...]


_OWN_RULE: Final = (
    "The unit-seconds of all days are added first, multiplied by the price once, and rounded once, "
    "half up."
)
_WHOLE_RULE: Final = (
    "Use of one month that is billed in parts is rounded together: the line is the cost of all of "
    "it until now, less what documents had billed of it before."
)
_NOTE_RULE: Final = (
    "The note changes the amount of a line of another document; it has no quantity of its own."
)
_RULES: Final[Mapping[str, str]] = {
    LineKind.TIER.value: (
        "The discount of the band is computed on the list amount of all use that counts, shared "
        "out to the projects, and rounded once; what was billed of it before is taken off."
    ),
    LineKind.MINIMUM.value: (
        "What the lines of the month lack to the minimum is shared out to the projects by their "
        "amounts; what was billed of it before is taken off."
    ),
    LineKind.CREDIT.value: (
        "Accepted credits for broken hardware give back the unit-hours it spoiled, at the price "
        "they were charged at; what was given back before is taken off."
    ),
}
_LABELS: Final[Mapping[str, Mapping[str, str]]] = {
    LineKind.TIER.value: {
        "schedule": "Tier schedule",
        "kind": "Kind",
        "basis": "Counts",
        "scope": "Together for",
        "span_begins": "Counted from",
        "band": "Band",
        "above": "Begins above",
        "discount_percent": "Discount in percent",
        "total_in_scope": "Total that counts",
        "in_band": "Of it in this band",
        "list_amount_in_band": "List amount in this band",
        "whole_amount": "Discount of this project until now",
        "billed_amount": "Given before",
    },
    LineKind.MINIMUM.value: {
        "minimum": "Minimum of the month",
        "net_of_month": "All other lines of the month",
        "whole_amount": "Share of this project in what is missing",
        "billed_amount": "Billed before",
    },
    LineKind.CREDIT.value: {
        "unit_hours": "Unit-hours spoiled",
        "whole_amount": "Credit until now",
        "billed_amount": "Given before",
    },
}
_WHOLE_LABELS: Final[Mapping[str, str]] = {
    "whole_unit_hours": "Unit-hours of the whole month",
    "whole_amount": "Cost of the whole month",
    "billed_unit_hours": "Unit-hours billed before",
    "billed_amount": "Cost of these",
    "notes_amount": "Changed by credit and debit notes",
    "notes_left_amount": "Of it not used up",
}
_OWN_LABELS: Final = ("Amount of the line", "Price of a unit-hour", "Unit-hours")
LINE_TEXTS: Final = (
    _OWN_RULE,
    _WHOLE_RULE,
    _NOTE_RULE,
    *_RULES.values(),
    *(label for labels in (*_LABELS.values(), _WHOLE_LABELS) for label in labels.values()),
    *_OWN_LABELS,
)
"""All that a page translates."""
_BARE: Final = ("schedule", "kind", "basis", "scope", "span_begins", "band")


def line_steps(line: Mapping[str, Any], *, document: Mapping[str, Any]) -> LineSteps:
    """Return how a line was computed.

    Args:
        line: As the document prints it.
        document: The whole document.
    """
    currency = document["currency"]
    of_line, of_unit_hour, quantity = _OWN_LABELS
    amount = (of_line, _money(line["amount"], currency))
    if document.get("kind", InvoiceKind.INVOICE.value) != InvoiceKind.INVOICE.value:
        return LineSteps(_NOTE_RULE, (amount,))
    kind = line.get("kind", LineKind.USAGE.value)
    if kind in _LABELS:
        figures = line[kind]
        steps = [
            (label, figures[name] if name in _BARE else number_text(figures[name]))
            for name, label in _LABELS[kind].items()
            if name in figures
        ]
        return LineSteps(_RULES[kind], (*steps, amount))
    price = (of_unit_hour, _money(line["unit_price"], currency))
    hours = (quantity, hours_text(line["unit_seconds"]))
    if "billed_amount" not in line:
        return LineSteps(_OWN_RULE, (hours, price, amount))
    return LineSteps(_WHOLE_RULE, (hours, price, *_whole_steps(line, currency), amount))


def _whole_steps(line: Mapping[str, Any], currency: str) -> list[tuple[str, str]]:
    return [
        (label, _money(line[name], currency) if "amount" in name else number_text(line[name]))
        for name, label in _WHOLE_LABELS.items()
        if name in line
    ]


def _money(text: str, currency: str) -> str:
    return f"{number_text(text)} {currency}"
