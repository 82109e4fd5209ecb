"""The usage annex of an invoice: what each person used of each of its lines.

It names persons, so that it is a document of its own: the invoice, its digest and its e-invoice
name none.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from billing.domain.documents.document import Document, amount_text, clean_text, unit_hours_text
from billing.domain.money import Money, price_of, split

SCHEMA: Final = "gpu-ledger/usage-annex/1"
_OF_INVOICE: Final = ("reference", "issued_at", "issuer", "customer", "period", "currency", "total")
_OF_PROJECT: Final = ("project", "project_name", "cost_center")
_OF_LINE: Final = ("size", "price_group", "service_month", "unit_price")


@dataclass(frozen=True)
class OwnerUse:
    """What a person used of a line.

    Attributes:
        position: Of the line.
        owner: As usage names it; "" where it names no one.
    """

    position: int
    owner: str
    unit_seconds: int


def annex_document(invoice: Mapping[str, Any], uses: Iterable[OwnerUse]) -> Document:
    """Return the annex of a final invoice; what its projects add up to are the invoice's subtotals.

    `rest`, of a project and of all, is of no person: discounts, minimum charges and credits.

    Args:
        invoice: Its document.
        uses: Of all its lines, once for each line and person.
    """
    by_line: defaultdict[int, list[OwnerUse]] = defaultdict(list)
    for use in uses:
        by_line[use.position].append(use)
    currency = invoice["currency"]
    projects = [
        _project(list(lines), by_line, currency=currency)
        for _, lines in groupby(invoice["lines"], key=lambda line: line["project"])
    ]
    return {
        "schema": SCHEMA,
        **({"language": invoice["language"]} if "language" in invoice else {}),
        **{name: invoice[name] for name in _OF_INVOICE},
        "projects": projects,
        "persons": _persons(projects, currency=currency),
        "rest": amount_text(_sum((project["rest"] for project in projects), currency)),
    }


def _project(
    lines: Sequence[Mapping[str, Any]],
    by_line: Mapping[int, Sequence[OwnerUse]],
    *,
    currency: str,
) -> dict[str, Any]:
    """Return a project with a row for each person and line."""
    rows = [
        row for line in lines for row in _rows(line, by_line.get(line["position"], ()), currency)
    ]
    total = _sum((line["amount"] for line in lines), currency)
    of_persons = _sum((row["amount"] for row in rows), currency)
    return {
        **{name: lines[0][name] for name in _OF_PROJECT},
        "rows": sorted(rows, key=lambda row: (not row["owner"], row["owner"].casefold())),
        "rest": amount_text(total + -of_persons),
        "amount": amount_text(total),
    }


def _persons(projects: Iterable[Mapping[str, Any]], *, currency: str) -> list[dict[str, str]]:
    """Return what each person's use of all projects comes to, the most first."""
    sums: defaultdict[str, Money] = defaultdict(lambda: Money.zero(currency))
    for row in (row for project in projects for row in project["rows"]):
        sums[row["owner"]] += Money(Decimal(row["amount"]), currency)
    most = sorted(sums.items(), key=lambda item: (-item[1].amount, item[0]))
    return [{"owner": owner, "amount": amount_text(amount)} for owner, amount in most]


def _sum(amounts: Iterable[str], currency: str) -> Money:
    parts = (Money(Decimal(amount), currency) for amount in amounts)
    return sum(parts, start=Money.zero(currency))


def _rows(line: Mapping[str, Any], uses: Sequence[OwnerUse], currency: str) -> list[dict[str, Any]]:
    return [
        {
            "owner": clean_text(use.owner),
            **{name: line[name] for name in _OF_LINE},
            "unit_seconds": use.unit_seconds,
            "unit_hours": unit_hours_text(use.unit_seconds),
            "amount": amount_text(amount),
        }
        for use, amount in zip(uses, _amounts(line, uses, currency), strict=True)
    ]


def _amounts(line: Mapping[str, Any], uses: Sequence[OwnerUse], currency: str) -> tuple[Money, ...]:
    """Return what each person's use of a line costs.

    The line's own amount is split by unit-seconds. Where late corrections left a person less than
    nothing it cannot be: then each use is rounded by itself, and the difference is of no person.
    """
    weights = [use.unit_seconds for use in uses]
    if weights and min(weights) >= 0 and sum(weights) > 0:
        return split(Money(Decimal(line["amount"]), currency), weights)
    price = Decimal(line["unit_price"])
    return tuple(price_of(weight, unit_price=price, currency=currency) for weight in weights)
