"""Reads Prometheus' text for tests; knows no more of it than the exporters print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: (\d+))?")
_PAIR = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)')


@dataclass(frozen=True)
class Line:
    name: str
    labels: tuple[tuple[str, str], ...]
    value: str
    second: int | None = None

    def __getitem__(self, label: str) -> str:
        """Return a label's value, "" without it."""
        return dict(self.labels).get(label, "")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.labels)


def read_lines(text: str) -> Iterator[Line]:
    """Yield every sample; a line that is neither a sample nor a comment fails."""
    for raw in text.splitlines():
        if raw.startswith("#"):
            continue
        match = _LINE.fullmatch(raw)
        assert match is not None, raw
        pairs = _PAIR.findall(match[2] or "")
        assert ",".join(f'{key}="{value}"' for key, value in pairs) == (match[2] or ""), raw
        yield Line(match[1], tuple(pairs), match[3], int(match[4]) if match[4] else None)


def named(text: str, name: str, **labels: str) -> list[Line]:
    """Return a family's samples whose labels fit."""
    return [
        line
        for line in read_lines(text)
        if line.name == name and all(line[key] == value for key, value in labels.items())
    ]
