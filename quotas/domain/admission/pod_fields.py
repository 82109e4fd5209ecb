"""Fields of a pod read with suspicion, and Kubernetes' quantities as whole units."""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

JSON = dict[str, Any]
TEXT_MAX: Final = 253
ENTRIES_MAX: Final = 2_000
"""Containers, variables, volumes: more of them do not fit into an object of the API server."""


class PodInvalidError(Exception):
    """Raised for a pod that no API server would create; the text says what is wrong."""


def mapping(value: object, name: str) -> JSON:
    """Return a JSON object; what is null or missing is empty.

    Raises:
        PodInvalidError: It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PodInvalidError(f"{name} is no object.")
    return value


def objects(value: object, name: str) -> Sequence[JSON]:
    """Return the objects of a JSON array; what is null or missing has none.

    Raises:
        PodInvalidError: It is something else, or too long.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        raise PodInvalidError(f"{name} is no list, or too long.")
    for entry in value:
        if not isinstance(entry, dict):
            raise PodInvalidError(f"{name} holds what is no object.")
    return value


def text(value: object, name: str, *, limit: int = TEXT_MAX) -> str:
    """Return a text; what is null or missing is "".

    Raises:
        PodInvalidError: It is something else, too long, or holds control characters.
    """
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or len(value) > limit or not value.isprintable():
        raise PodInvalidError(f"{name} is no text, or too long.")
    return value


def texts(value: object, name: str) -> dict[str, str]:
    """Return a JSON object of texts, such as labels.

    Raises:
        PodInvalidError: It is something else.
    """
    return {key: text(one, name) for key, one in mapping(value, name).items()}


UNITS_MAX: Final = 1_000_000
"""No real pod requests more, of one resource or in total."""
_CHARACTERS_MAX: Final = 32
_EXPONENT_MAX: Final = 18
_SHAPE: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_SUFFIXES: Final = {
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}


def whole_units(value: object) -> int | None:
    """Return the whole units of a quantity such as "2", "1e0", "2k" or 2; None for no such amount.

    Extended resources are whole, 0 or more: half a GPU, less than none and absurdly many are None.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    if isinstance(value, int):
        return value if 0 <= value <= UNITS_MAX else None
    return _read(value) if len(value) <= _CHARACTERS_MAX else None


@lru_cache(maxsize=1024)
def _read(text: str) -> int | None:
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    exponent = int(shape["exponent"] or 0)
    if abs(exponent) > _EXPONENT_MAX:
        return None
    factor = _SUFFIXES.get(shape["suffix"] or "", Decimal(10) ** exponent)
    units = Decimal(shape["number"]) * factor
    if not 0 <= units <= UNITS_MAX or units != units.to_integral_value():
        return None
    return int(units)
