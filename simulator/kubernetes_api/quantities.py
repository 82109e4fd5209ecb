"""Kubernetes quantities: "8", "500m", "1Gi" as exact numbers, and back in their plain form.

Source: kubernetes/apimachinery, pkg/api/resource/quantity.go.
"""

import re
from fractions import Fraction
from typing import Final

_BINARY: Final = {
    suffix: Fraction(1024**power)
    for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
}
_DECIMAL: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_SHAPE: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?",
    re.ASCII,
)
_LENGTH_MAX: Final = 64


def parse_quantity(raw: object) -> Fraction:
    """Return a quantity's value.

    Raises:
        ValueError: It is none.
    """
    text = str(raw)
    match = _SHAPE.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None or isinstance(raw, bool):
        raise ValueError(
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    if suffix in _DECIMAL:
        return number * _DECIMAL[suffix]
    return number * Fraction(10) ** int(suffix[1:])


def format_quantity(value: Fraction) -> str:
    """Return a value in its plain form: whole, or in thousandths."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{-(-value.numerator * 1000 // value.denominator)}m"
