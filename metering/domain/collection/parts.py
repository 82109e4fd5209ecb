"""Parts of a window: pods divided by how their uid begins, each observed and posted by itself.

A pod's uid is random hexadecimal digits, so that parts of equal width are equally large; PromQL
cannot hash. Whatever begins otherwise is a part of its own, so that no pod is in two parts or in
none. The beginnings are constants: names that were stored would omit new pods.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product
from typing import Final

HEX: Final = "0123456789abcdef"
PARTS_MAX: Final = 256
"""Two digits: of a million pods, some 4,000 a part."""
_SHAPE: Final = re.compile(r"!?(\[[0-9a-f]+\]|[0-9a-f])*")


class PartState(StrEnum):
    """How far a part has come in one of the two steps: it is observed, and later posted."""

    DUE = "due"
    LEASED = "leased"
    DONE = "done"


class DivisionPhase(StrEnum):
    """What is done with the parts of a window: first all are observed, then each is posted."""

    OBSERVING = "observing"
    POSTING = "posting"


@dataclass(frozen=True)
class Part:
    """The pods whose uid begins in one way.

    Attributes:
        text: As it is stored: a pattern of its first digits, "" for all pods; with a leading "!"
            those that do not begin so.
    """

    text: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no pattern of digits, so that it may stand in a query.

        Raises:
            ValueError: It is another text.
        """
        if _SHAPE.fullmatch(self.text) is None:
            raise ValueError(f"{self.text!r} is no part of a window")

    @property
    def is_whole(self) -> bool:
        """Whether it holds all pods."""
        return self.text == ""

    @property
    def is_rest(self) -> bool:
        """Whether it holds the pods that do not begin as the pattern says."""
        return self.text.startswith("!")

    @property
    def beginning(self) -> str:
        """Return the pattern of the first digits; PromQL, PostgreSQL and Python read it alike."""
        return self.text.removeprefix("!")

    @property
    def first_digits(self) -> str:
        """Return the digits a uid in it may begin with; "" for one that begins otherwise."""
        if self.is_rest:
            return ""
        return "".join(digit for digit in HEX if self.is_whole or self._first.match(digit))

    def holds(self, uid: str) -> bool:
        """Whether a uid is in it."""
        return (self._pattern.match(uid) is not None) != self.is_rest

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.beginning)

    @cached_property
    def _first(self) -> re.Pattern[str]:
        found = re.match(r"\[[0-9a-f]+\]|[0-9a-f]", self.beginning)
        return re.compile(found[0] if found else "")


WHOLE: Final = Part()


def parts_of(count: int) -> tuple[Part, ...]:
    """Return the parts of a window: so many of equal width, and the rest.

    Args:
        count: How many; rounded up to a power of two, at most 256. One is the whole window.
    """
    bits = max(0, min(count, PARTS_MAX) - 1).bit_length()
    if bits == 0:
        return (WHOLE,)
    digits = (bits + 3) // 4
    widths = [min(4, bits - 4 * place) for place in range(digits)]
    beginnings = ("".join(groups) for groups in product(*map(_groups, widths)))
    return (*map(Part, beginnings), Part("!" + f"[{HEX}]" * digits))


def _groups(bits: int) -> Iterator[str]:
    """Yield classes that divide the digits into 2 ** bits groups."""
    width = len(HEX) >> bits
    for first in range(0, len(HEX), width):
        digits = HEX[first : first + width]
        yield digits if width == 1 else f"[{digits}]"
