"""Texts of samples: what `[[1790845000.123,"1"],...]` means, worked out once and shared.

Series scraped together have the same times, and pods that were there all the hour the same values
too. Times come out as whole milliseconds, in order and inside what was asked; values stay texts.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from operator import lt
from typing import Any, Final, NoReturn

from metering.adapters.prometheus.body import MEMO_MAX
from tenants.domain.errors import SourceUnavailableError

_SECONDS_MAX: Final = 9_999_999_999
_PLAIN_TIME: Final = re.compile(r"(\d{1,10})(?:\.(\d{1,3}))?", re.ASCII)


class Values(list[str]):
    """Values of one series, in the order of its times, and its different ones worked out once."""

    __slots__ = ("_distinct",)
    _distinct: frozenset[str]

    def distinct(self) -> frozenset[str]:
        """Return the different ones; nobody may change the values afterwards."""
        try:
            return self._distinct
        except AttributeError:
            self._distinct = frozenset(self)
            return self._distinct


def distinct(values: Sequence[str]) -> AbstractSet[str]:
    """Return the different values of a series."""
    return values.distinct() if isinstance(values, Values) else set(values)


class SampleReader:
    """Reads texts of samples inside one range, and remembers the times it has read.

    Args:
        first_seconds: Left edge; a sample on it is dropped.
        last_seconds: Right edge, included.
    """

    def __init__(self, first_seconds: int, last_seconds: int) -> None:
        """Nothing is remembered yet."""
        self._first, self._last = first_seconds * 1000, last_seconds * 1000
        self._times: dict[str, list[int] | None] = {}

    def read_text(self, text: str) -> tuple[Sequence[int], Sequence[str]] | None:
        """Return times and values of `[[1790845000.123,"1"],...]`; None where spelled otherwise.

        The text is split at its quotation marks, so no value holds one; what is left between
        values must be times and nothing else.

        Raises:
            SourceUnavailableError: `bad_sample` for times out of order or out of range.
        """
        pieces = text.split('"')
        times = self._known_times('"'.join(pieces[0::2]))
        if times is None or "\\" in text:
            return None
        values = Values(pieces[1::2])
        if len(times) < len(values):
            del values[0]
        return times, values

    def _known_times(self, frame: str) -> list[int] | None:
        """Return the times of a text without its values: `[[1790845000.123,"],[...,"]]`."""
        if frame not in self._times:
            if len(self._times) >= MEMO_MAX:
                self._times.clear()
            self._times[frame] = self._framed_times(frame)
        return self._times[frame]

    def _framed_times(self, frame: str) -> list[int] | None:
        if not frame.startswith("[[") or not frame.endswith(',"]]'):
            return None
        found = [_PLAIN_TIME.fullmatch(text) for text in frame[2:-4].split(',"],[')]
        if None in found:
            return None
        return self._inside(
            [int(one[1]) * 1000 + int((one[2] or "").ljust(3, "0")) for one in found if one]
        )

    def read_pairs(self, samples: Sequence[Any]) -> tuple[Sequence[int], Sequence[str]]:
        """Return times and values of parsed samples, however they were spelled.

        Raises:
            SourceUnavailableError: `bad_answer` when these are no samples, `bad_sample` for times
                out of order or out of range.
        """
        try:
            raw = [at for at, _ in samples]
            values = [value for _, value in samples]
            is_believable = all(0 <= at <= _SECONDS_MAX for at in raw)
        except (TypeError, ValueError):
            _refuse_samples()
        if set(map(type, values)) != {str}:
            _refuse_samples()
        if not is_believable:
            _refuse_times()
        # Milliseconds are built only now: the check above also keeps absurd exponents from them.
        times = self._inside([int(at * 1000) for at in raw])
        return times, values[len(values) - len(times) :]

    def _inside(self, times: list[int]) -> list[int]:
        """Return the times without the left edge."""
        is_inside = self._first <= times[0] and times[-1] <= self._last
        if not is_inside or not all(map(lt, times, times[1:])):
            _refuse_times()
        return times[1:] if times[0] == self._first else times


def _refuse_times() -> NoReturn:
    raise SourceUnavailableError("Samples are out of order or out of range.", reason="bad_sample")


def _refuse_samples() -> NoReturn:
    raise SourceUnavailableError("A series has no samples, or odd ones.", reason="bad_answer")
