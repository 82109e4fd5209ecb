"""Files of banks: statements as camt.053 (ISO 20022) and as CSV, read into rows and refusals.

An XML file with a document type or entity is refused before it is parsed, so that nothing expands.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Final, TypeVar
from xml.etree import ElementTree as ET

from billing.domain.ledger.bank_rows import BankFile, BankRow, RefusedRow
from billing.domain.ledger.errors import BankFileInvalidError

BYTES_MAX: Final = 5 * 1024 * 1024
ROWS_MAX: Final = 10_000
"""A statement of a month of a bank account; more is sent in parts."""
COLUMNS: Final = ("bank_account", "bank_reference", "amount", "currency", "booked_on")
OPTIONAL_COLUMNS: Final = ("payer", "remittance")
Row = TypeVar("Row")


class RowError(ValueError):
    """A row that cannot be read, with the reason."""


def read_csv(content: bytes) -> BankFile:
    """Return the rows of a CSV file with a header line, separated by commas or semicolons.

    Raises:
        BankFileInvalidError: It is too large, not UTF-8, or lacks a column.
    """
    text = _text(content)
    first = text.split("\n", 1)[0]
    reader = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=";" if ";" in first else ",", strict=True
    )
    try:
        missing = sorted(set(COLUMNS) - set(reader.fieldnames or ()))
        if missing:
            raise BankFileInvalidError(
                "The file lacks columns.", field="file", facts={"missing": ", ".join(missing)}
            )
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise BankFileInvalidError("The file is no CSV.", field="file") from error
    return _read(rows, _csv_row)


def read_camt053(content: bytes) -> BankFile:
    """Return the credits of a camt.053 statement; `line` is the number of the entry.

    Raises:
        BankFileInvalidError: It is too large, not UTF-8, has a document type, or no statement.
    """
    text = _text(content)
    if "<!doctype" in text.lower() or "<!entity" in text.lower():
        raise BankFileInvalidError("The file has a document type.", field="file")
    try:
        root = ET.fromstring(text)  # noqa: S314 - Without document type and entities.
    except (ET.ParseError, ValueError) as error:
        raise BankFileInvalidError("The file is no XML.", field="file") from error
    statements = root.findall("./{*}BkToCstmrStmt/{*}Stmt")
    if not statements:
        raise BankFileInvalidError("The file has no statement.", field="file")
    rows: list[tuple[int, CamtRow]] = []
    number = 0
    for statement in statements:
        for entry in statement.findall("./{*}Ntry"):
            number += 1
            if _at(entry, "CdtDbtInd") == "CRDT" or _at(entry, "RvslInd") in TRUE:
                details = entry.findall("./{*}NtryDtls/{*}TxDtls") or [entry]
                is_alone = len(details) == 1
                rows += [(number, (statement, entry, detail, is_alone)) for detail in details]
    return _read(rows, _camt_row)


CamtRow = tuple[ET.Element, ET.Element, ET.Element, bool]
"""Statement, entry, transaction, and whether it is the entry's only one."""
TRUE: Final = frozenset({"true", "1"})
NO_REFERENCE: Final = frozenset({"", "NONREF", "NOTPROVIDED"})
"""What banks write where they have none. NtryRef counts entries of one statement, no more."""
_AMOUNT: Final = re.compile(r"[+-]?[0-9]{1,16}(\.[0-9]{1,5})?")

READERS: Final[Mapping[str, Callable[[bytes], BankFile]]] = {
    "camt053": read_camt053,
    "csv": read_csv,
}


def _text(content: bytes) -> str:
    if len(content) > BYTES_MAX:
        raise BankFileInvalidError("The file is too large.", field="file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BankFileInvalidError("The file is not UTF-8.", field="file") from error
    if "\0" in text:
        raise BankFileInvalidError("The file has characters that are no text.", field="file")
    return text


def _read(rows: list[tuple[int, Row]], read: Callable[[Row, int], BankRow]) -> BankFile:
    if len(rows) > ROWS_MAX:
        raise BankFileInvalidError("The file has too many rows.", field="file")
    made = BankFile()
    for line, row in rows:
        try:
            made.rows.append(read(row, line))
        except RowError as error:
            made.refused.append(RefusedRow(line=line, code="bank_row_invalid", reason=str(error)))
    return made


def _csv_row(row: dict[str, str | None], line: int) -> BankRow:
    texts = {name: (row.get(name) or "").strip() for name in (*COLUMNS, *OPTIONAL_COLUMNS)}
    return BankRow(
        bank_account=texts["bank_account"],
        bank_reference=texts["bank_reference"],
        amount=_amount(texts["amount"]),
        currency=texts["currency"],
        booked_on=_date(texts["booked_on"]),
        payer=texts["payer"],
        remittance=texts["remittance"],
        line=line,
    )


def _camt_row(row: CamtRow, line: int) -> BankRow:
    statement, entry, detail, is_alone = row
    if _at(entry, "RvslInd") in TRUE:
        raise RowError("The entry is a reversal: reverse the payment itself.")
    if (_at(entry, "Sts/{*}Cd") or _at(entry, "Sts")) != "BOOK":
        raise RowError("The entry is not booked.")
    amount = _amount_of(entry, detail, is_alone=is_alone)
    reference = _at(detail, "Refs/{*}AcctSvcrRef")
    if not reference and is_alone:
        reference = _at(entry, "AcctSvcrRef")
    if reference.upper() in NO_REFERENCE:
        raise RowError("The bank's reference is missing.")
    return BankRow(
        bank_account=_at(statement, "Acct/{*}Id/{*}IBAN")
        or _at(statement, "Acct/{*}Id/{*}Othr/{*}Id"),
        bank_reference=reference,
        amount=_amount(amount.text or ""),
        currency=amount.get("Ccy", ""),
        booked_on=_date((_at(entry, "BookgDt/{*}Dt") or _at(entry, "BookgDt/{*}DtTm"))[:10]),
        payer=_at(detail, "RltdPties/{*}Dbtr/{*}Nm")
        or _at(detail, "RltdPties/{*}Dbtr/{*}Pty/{*}Nm"),
        remittance=" ".join(_all(detail, "RmtInf/{*}Ustrd")),
        line=line,
    )


def _amount_of(entry: ET.Element, detail: ET.Element, *, is_alone: bool) -> ET.Element:
    """Return the amount of a transaction; an entry with one transaction has it itself."""
    element = entry if is_alone else detail
    for path in ("./{*}Amt", "./{*}AmtDtls/{*}TxAmt/{*}Amt"):
        amount = element.find(path)
        if amount is not None:
            return amount
    raise RowError("The transaction has no amount of its own.")


def _at(element: ET.Element, path: str) -> str:
    return next(_all(element, path), "")


def _all(element: ET.Element, path: str) -> Iterator[str]:
    return ((found.text or "").strip() for found in element.findall(f"./{{*}}{path}"))


def _amount(text: str) -> Decimal:
    if _AMOUNT.fullmatch(text) is None:
        raise RowError(f'Not an amount with a point: "{text[:40]}".')
    return Decimal(text)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise RowError(f'Not a date such as 2026-10-31: "{text[:40]}".') from error
