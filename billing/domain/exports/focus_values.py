"""What FOCUS demands of one value: type, format, and allowed values."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from billing.domain.exports.focus import ColumnType, FocusColumn
from tenants.domain.currencies import MINOR_DIGITS

PLACEHOLDERS: Final = frozenset({"n/a", "na", "null", "none", "nil", "-", "undefined", "unknown"})
CURRENCY_COLUMNS: Final = frozenset({"BillingCurrency", "PricingCurrency", "PaymentCurrency"})
_DECIMAL: Final = re.compile(r"-?\d+(\.\d+)?([Ee]-?\d+)?")
_INTEGER: Final = re.compile(r"-?\d+")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UNIT: Final = re.compile(
    r"([1-9]\d* )?[A-Z][A-Za-z0-9]*([- ][A-Z][A-Za-z0-9]*)*"
    r"(/([1-9]\d* )?[A-Z][A-Za-z0-9]*([- ][A-Z][A-Za-z0-9]*)*)?"
)


def value_problem(column: FocusColumn, value: str | None) -> str:
    """Return what is wrong with a value, and the remedy; "" where nothing is."""
    if value is None:
        return "" if column.is_nullable else "It is missing. Give a value."
    if column.allowed and value not in column.allowed:
        return f"It is {value!r}. Use one of: {', '.join(column.allowed)}."
    if value.strip().lower() in PLACEHOLDERS:
        return f"It is {value!r}. Leave it empty where there is no value."
    return _TYPES[column.type](column, value)


def _string(column: FocusColumn, value: str) -> str:
    if column.name in CURRENCY_COLUMNS and value not in MINOR_DIGITS:
        return f"It is {value!r}. Use the three letters of ISO 4217, such as EUR."
    if column.is_unit and not _UNIT.fullmatch(value):
        return f"It is {value!r}. Write units as FOCUS does, such as GPU-Hours or GB/Hour."
    return ""


def _decimal(_: FocusColumn, value: str) -> str:
    if _DECIMAL.fullmatch(value):
        return ""
    return f"It is {value!r}. Write digits with a point, without signs of currency or thousands."


def _integer(_: FocusColumn, value: str) -> str:
    return "" if _INTEGER.fullmatch(value) else f"It is {value!r}. Write a whole number."


def _time(_: FocusColumn, value: str) -> str:
    if _TIME.fullmatch(value):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return ""
    return f"It is {value!r}. Write UTC as 2026-10-01T00:00:00Z."


def _json(column: FocusColumn, value: str) -> str:
    try:
        read = json.loads(value)
    except ValueError:
        return "It is no JSON. Write an object."
    if not isinstance(read, dict):
        return "It is no JSON object. Write keys and values."
    is_flat = not any(isinstance(one, dict | list) for one in read.values())
    if column.name in {"Tags", "AllocatedTags", "SkuPriceDetails"} and not is_flat:
        return "Its values are nested. Use one level of keys and values."
    return ""


_TYPES: Final[Mapping[ColumnType, Callable[[FocusColumn, str], str]]] = {
    ColumnType.STRING: _string,
    ColumnType.DECIMAL: _decimal,
    ColumnType.INTEGER: _integer,
    ColumnType.DATE_TIME: _time,
    ColumnType.JSON: _json,
}
