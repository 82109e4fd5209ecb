"""Answers as tables for people, or as JSON for programs."""

import json
import sys
from collections.abc import Iterable, Sequence

from gpu_ledger_client.models.money import Money
from gpu_ledger_client.types import Unset
from rich.console import Console
from rich.table import Table
from rich.text import Text

SECONDS_PER_HOUR = 3600


def show_rows(headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table; what begins with "#" in a heading is a number.

    Args:
        headings: Of the columns.
        rows: Their cells; None is "-".
        empty: What is printed when there is no row.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        is_number = heading.startswith("#")
        table.add_column(
            heading.removeprefix("#"), justify="right" if is_number else "left", overflow="fold"
        )
    count = 0
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
        count += 1
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(table if count else Text(empty))


def show_json(answer: object) -> None:
    """Print an answer, or a list of answers, as JSON."""
    text = json.dumps(_plain(answer), indent=2, ensure_ascii=False)
    sys.stdout.write(f"{text}\n")


def cell_text(cell: object) -> str:
    """Return a cell without control characters, which a terminal would obey."""
    text = "-" if cell is None else str(cell)
    return "".join(letter if letter.isprintable() else " " for letter in text)


def money_text(money: Money | Unset | None) -> str | None:
    """Return "12.30 EUR"; None without an amount."""
    return f"{money.amount} {money.currency}" if isinstance(money, Money) else None


def hours_text(unit_seconds: int | None) -> str | None:
    """Return unit-hours with two digits, cut off; None without a quantity."""
    if unit_seconds is None:
        return None
    hundredths = abs(unit_seconds) * 100 // SECONDS_PER_HOUR
    sign = "-" if unit_seconds < 0 else ""
    return f"{sign}{hundredths // 100:,}.{hundredths % 100:02}"


def _plain(answer: object) -> object:
    if isinstance(answer, list):
        return [_plain(one) for one in answer]
    to_dict = getattr(answer, "to_dict", None)
    return to_dict() if to_dict is not None else answer
