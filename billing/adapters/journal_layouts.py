"""Layouts of journal batches: generic CSV, and DATEV's booking batch.

DATEV: format EXTF 700, category 21, version 13, by the public description of the header and of the
booking batch (developer.datev.de, DATEV-Format). Columns are read by position. The fiscal year is
the calendar year.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from billing.adapters.documents import render_table
from billing.domain.documents.document import amount_text
from billing.domain.ledger.batches import BatchFacts, ExportedEntry, counter_postings
from billing.domain.money import Money
from billing.protocols import JournalLayout

CSV_COLUMNS: Final = (
    "batch",
    "entry",
    "posting_on",
    "document_on",
    "event",
    "reason",
    "organization",
    "account",
    "account_name",
    "debit",
    "credit",
    "currency",
)
DATEV_COLUMNS: Final = (
    "Umsatz (ohne Soll/Haben-Kz)",
    "Soll/Haben-Kennzeichen",
    "WKZ Umsatz",
    "Kurs",
    "Basis-Umsatz",
    "WKZ Basis-Umsatz",
    "Konto",
    "Gegenkonto (ohne BU-Schlüssel)",
    "BU-Schlüssel",
    "Belegdatum",
    "Belegfeld 1",
    "Belegfeld 2",
    "Skonto",
    "Buchungstext",
)
DATEV_COLUMNS_COUNT: Final = 125
_DOCUMENT_LENGTH_MAX: Final = 36
_TEXT_LENGTH_MAX: Final = 60


class GenericCsvLayout:
    """A line for each posting, with debit and credit in columns of their own."""

    name = "csv"

    def render(self, batch: BatchFacts, entries: Sequence[ExportedEntry]) -> str:
        """Return a header line and a line for each posting."""
        rows = [
            {
                "batch": str(batch.number),
                "entry": entry.id,
                "posting_on": entry.posting_on.isoformat(),
                "document_on": entry.document_on.isoformat(),
                "event": entry.event,
                "reason": entry.reason,
                "organization": entry.organization,
                "account": posting.account_number,
                "account_name": posting.account_name,
                "debit" if posting.amount > 0 else "credit": _amount(
                    abs(posting.amount), entry.currency
                ),
                "currency": entry.currency,
            }
            for entry in entries
            for posting in entry.postings
        ]
        numbers = {"batch", "debit", "credit"}
        return render_table(CSV_COLUMNS, rows, numbers=numbers).decode()


@dataclass(frozen=True)
class DatevLayout:
    """DATEV's booking batch, account against account.

    Attributes:
        consultant: Number of the tax consultant.
        client: Number of the consultant's client.
    """

    consultant: int
    client: int
    name: str = "datev"

    def render(self, batch: BatchFacts, entries: Sequence[ExportedEntry]) -> str:
        """Return the header, the titles of the columns, and a line for each pair of accounts."""
        titles = [*DATEV_COLUMNS, *[""] * (DATEV_COLUMNS_COUNT - len(DATEV_COLUMNS))]
        lines = [self._header(batch), titles, *(row for one in entries for row in _bookings(one))]
        return "".join(";".join(line) + "\r\n" for line in lines)

    def _header(self, batch: BatchFacts) -> list[str]:
        label, following = batch.month.label, batch.month.shift(1)
        last = date(following.year, following.month, 1) - timedelta(days=1)
        created = f"{batch.created_at:%Y%m%d%H%M%S}{batch.created_at.microsecond // 1000:03}"
        fields = {
            1: '"EXTF"',
            2: "700",
            3: "21",
            4: '"Buchungsstapel"',
            5: "13",
            6: created,
            8: '"GL"',
            11: str(self.consultant),
            12: str(self.client),
            13: f"{batch.month.year}0101",
            14: "4",
            15: label.replace("-", "") + "01",
            16: f"{last:%Y%m%d}",
            17: _quoted(f"GPU Ledger {batch.number}"),
            19: "1",
            20: "0",
            21: "0",
            27: '"03"',
        }
        return [fields.get(position, "") for position in range(1, 32)]


def layouts(*, consultant: int, client: int) -> Mapping[str, JournalLayout]:
    """Return every layout by its name."""
    made: list[JournalLayout] = [
        GenericCsvLayout(),
        DatevLayout(consultant=consultant, client=client),
    ]
    return {layout.name: layout for layout in made}


def _bookings(entry: ExportedEntry) -> list[list[str]]:
    account, others = counter_postings(entry)
    return [
        [
            _amount(abs(other.amount), entry.currency).replace(".", ","),
            '"S"' if other.amount < 0 else '"H"',
            _quoted(entry.currency),
            "",
            "",
            "",
            account.account_number,
            other.account_number,
            "",
            f"{entry.posting_on:%d%m}",
            _quoted(re.sub(r"[^A-Za-z0-9$&%*+/-]", "-", entry.reason)[:_DOCUMENT_LENGTH_MAX]),
            "",
            "",
            _quoted(f"{entry.organization} {entry.event}".strip()[:_TEXT_LENGTH_MAX]),
            *[""] * (DATEV_COLUMNS_COUNT - len(DATEV_COLUMNS)),
        ]
        for other in others
    ]


def _amount(amount: Decimal, currency: str) -> str:
    return amount_text(Money(amount, currency))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
