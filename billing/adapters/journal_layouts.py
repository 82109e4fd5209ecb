"""Layouts of journal batches: generic CSV, DATEV's booking batch, SAP and NetSuite.

DATEV: format EXTF 700, category 21, version 13, by the public description of the header and of the
booking batch (developer.datev.de, DATEV-Format). Columns are read by position. The fiscal year is
the calendar year.
SAP: a line for each posting, the columns named by SAP's fields (BUKRS company code, BLART document
type, HKONT account, WRSOL debit, WRHAB credit), as the upload of general journal entries maps them.
NetSuite: the CSV import of journal entries, which joins lines by their External ID (NetSuite help,
journal entry header and line-level fields).
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
SAP_COLUMNS: Final = (
    "BUKRS",
    "XBLNR",
    "BLART",
    "BLDAT",
    "BUDAT",
    "WAERS",
    "BKTXT",
    "HKONT",
    "SGTXT",
    "WRSOL",
    "WRHAB",
    "ZUONR",
)
NETSUITE_COLUMNS: Final = (
    "External ID",
    "Date",
    "Subsidiary",
    "Currency",
    "Memo",
    "Account",
    "Debit",
    "Credit",
    "Line Memo",
)
_DOCUMENT_LENGTH_MAX: Final = 36
_TEXT_LENGTH_MAX: Final = 60
_SAP_TEXT_LENGTH_MAX: Final = 25
_SAP_ITEM_LENGTH_MAX: Final = 50
_SAP_ASSIGNMENT_LENGTH_MAX: Final = 18
LAYOUT_NAMES: Final = ("csv", "datev", "netsuite", "sap")


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


@dataclass(frozen=True)
class SapLayout:
    """A line for each posting; the lines of an entry share its reference XBLNR.

    Attributes:
        company_code: BUKRS.
        document_type: BLART.
    """

    company_code: str
    document_type: str
    name: str = "sap"

    def render(self, batch: BatchFacts, entries: Sequence[ExportedEntry]) -> str:
        """Return a header line and a line for each posting; dates as YYYYMMDD."""
        rows = [
            {
                "BUKRS": self.company_code,
                "XBLNR": f"GL{batch.number}-{number}",
                "BLART": self.document_type,
                "BLDAT": f"{entry.document_on:%Y%m%d}",
                "BUDAT": f"{entry.posting_on:%Y%m%d}",
                "WAERS": entry.currency,
                "BKTXT": entry.reason[:_SAP_TEXT_LENGTH_MAX],
                "HKONT": posting.account_number,
                "SGTXT": f"{entry.organization} {entry.event}".strip()[:_SAP_ITEM_LENGTH_MAX],
                "WRSOL" if posting.amount > 0 else "WRHAB": _amount(
                    abs(posting.amount), entry.currency
                ),
                "ZUONR": entry.organization[:_SAP_ASSIGNMENT_LENGTH_MAX],
            }
            for number, entry in enumerate(entries, 1)
            for posting in entry.postings
        ]
        return render_table(SAP_COLUMNS, rows, numbers={"WRSOL", "WRHAB"}).decode()


@dataclass(frozen=True)
class NetSuiteLayout:
    """A line for each posting; the lines of an entry share its External ID.

    Attributes:
        subsidiary: Its name in NetSuite; "" where there is one only.
    """

    subsidiary: str
    name: str = "netsuite"

    def render(self, batch: BatchFacts, entries: Sequence[ExportedEntry]) -> str:
        """Return a header line and a line for each posting; dates as YYYY-MM-DD."""
        del batch
        rows = [
            {
                "External ID": f"gpu-ledger-{entry.id}",
                "Date": entry.posting_on.isoformat(),
                "Subsidiary": self.subsidiary,
                "Currency": entry.currency,
                "Memo": entry.reason,
                "Account": posting.account_number,
                "Debit" if posting.amount > 0 else "Credit": _amount(
                    abs(posting.amount), entry.currency
                ),
                "Line Memo": f"{entry.organization} {entry.event}".strip(),
            }
            for entry in entries
            for posting in entry.postings
        ]
        return render_table(NETSUITE_COLUMNS, rows, numbers={"Debit", "Credit"}).decode()


def layouts(options: Mapping[str, str]) -> Mapping[str, JournalLayout]:
    """Return every layout by its name.

    Args:
        options: The setting JOURNAL_LAYOUTS: what the general ledgers call this company.
    """
    made: list[JournalLayout] = [
        GenericCsvLayout(),
        DatevLayout(
            consultant=int(options["DATEV_CONSULTANT"]), client=int(options["DATEV_CLIENT"])
        ),
        NetSuiteLayout(subsidiary=options["NETSUITE_SUBSIDIARY"]),
        SapLayout(
            company_code=options["SAP_COMPANY_CODE"], document_type=options["SAP_DOCUMENT_TYPE"]
        ),
    ]
    return {layout.name: layout for layout in made}


def file_of(number: int, *, layout: str, content: str) -> tuple[str, bytes]:
    """Return the name and the bytes of a batch's file; DATEV's begins with a byte order mark."""
    if layout == "datev":
        return f"EXTF_batch-{number:06}.csv", content.encode("utf-8-sig")
    return f"batch-{number}.csv", content.encode()


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
    """Return a text of DATEV's, which no spreadsheet takes for a formula."""
    return '"' + text.lstrip("=+-@").replace('"', '""') + '"'
