"""Variables whose parts are `name=value`."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from tenants.domain.archives import MONTHS_KEPT_MAX, ArchivedTable
from tenants.domain.currencies import MINOR_DIGITS


def pairs_of(variable: str, value: object) -> object:
    """Return the pairs of a variable's text; what is no text is left as it is.

    Raises:
        ValueError: A part is not what the variable is made of.
    """
    if not isinstance(value, str):
        return value
    if variable in _JSON_TOO and value.lstrip().startswith("{"):
        return json.loads(value)
    return dict(_PARTS[variable](part) for part in value.split(",") if part.strip())


def clients_of(part: str) -> tuple[str, tuple[str, ...]]:
    """Return a cluster and the names of `cluster=name|name`."""
    cluster, _, names_text = part.strip().partition("=")
    names = tuple(name.strip() for name in names_text.split("|") if name.strip())
    if not cluster or not names:
        raise ValueError(f"{part.strip()} is not cluster=name or cluster=name|name.")
    return cluster.strip(), names


def amount_of(part: str) -> tuple[str, str]:
    """Return a currency and an amount of `EUR=5`, above zero and no finer than the currency."""
    currency, _, amount = (text.strip() for text in part.partition("="))
    digits = MINOR_DIGITS.get(currency, -1)
    if not re.fullmatch(rf"[0-9]{{1,12}}(\.[0-9]{{1,{max(digits, 1)}}})?", amount) or digits < 0:
        raise ValueError(f"{part.strip()} is not an amount of a currency, such as EUR=5.")
    return currency, amount


def months_of(part: str) -> tuple[str, int]:
    """Return a table whose months are archived and a number of months, of `usage=24`."""
    table, _, months = (text.strip() for text in part.partition("="))
    if table not in set(ArchivedTable) or not re.fullmatch(r"[0-9]{1,4}", months):
        months = "0"
    if not 1 <= int(months) <= MONTHS_KEPT_MAX:
        known = ", ".join(sorted(ArchivedTable))
        raise ValueError(
            f"{part.strip()} is not TABLE=MONTHS, such as usage=24, 1 to {MONTHS_KEPT_MAX} months;"
            f" tables are {known}."
        )
    return table, int(months)


_PARTS: Final[Mapping[str, Callable[[str], tuple[str, object]]]] = {
    "ADMISSION_CLIENT_NAMES": clients_of,
    "ARCHIVE_AFTER_MONTHS": months_of,
    "CARRY_BELOW": amount_of,
}
_JSON_TOO: Final = ("ADMISSION_CLIENT_NAMES",)
