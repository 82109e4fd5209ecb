"""Prometheus' text: label sets, numbers as Go prints them, and families with HELP and TYPE."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]
"""Label names and values in the order in which the exporter prints them."""
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_]")
_EXPONENT_FROM = 7
"""Go's shortest 'g' format turns to an exponent from this many digits before the point."""


@dataclass(frozen=True)
class Family:
    """A metric family; `kind` is "gauge" or "counter"."""

    name: str
    help: str
    kind: str = "gauge"


@dataclass(frozen=True)
class Sample:
    """One line of an exposition; `value` is printed unchanged."""

    labels: Labels
    value: str


def sanitize_name(raw: str) -> str:
    """Return a resource or label name as kube-state-metrics spells it."""
    return _FORBIDDEN.sub("_", raw)


def render_labels(labels: Iterable[tuple[str, str]]) -> str:
    """Return `name="value",...` with values escaped."""
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels)


def render_family(family: Family, samples: Iterable[Sample]) -> str:
    """Return a family's lines, or "" when it has no sample."""
    lines = [
        f"{family.name}{{{render_labels(sample.labels)}}} {sample.value}\n" for sample in samples
    ]
    if not lines:
        return ""
    head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    return head + "".join(lines)


def go_number(value: int) -> str:
    """Return a whole number as Go's `strconv.FormatFloat(value, 'g', -1, 64)` prints it."""
    digits = str(value)
    if len(digits) < _EXPONENT_FROM:
        return digits
    fraction = digits[1:].rstrip("0")
    point = "." if fraction else ""
    return f"{digits[0]}{point}{fraction}e+{len(digits) - 1:02d}"


def permille(value: int) -> str:
    """Return thousandths as a number with six decimals, as dcgm-exporter prints floats."""
    return f"{value // 1000}.{value % 1000:03d}000"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
