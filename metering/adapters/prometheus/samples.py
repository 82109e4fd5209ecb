"""Rows of a response as series of samples: whole milliseconds, in order, inside the window.

It validates the shape of a response completely; the readers of pods, nodes and devices interpret
the values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from operator import lt
from typing import Any, Final, NamedTuple, NoReturn

from metering.adapters.prometheus.body import MEMO_MAX, Cut, QueryResponse, VectorRow
from metering.adapters.prometheus.names import Names
from metering.domain.catalogue.units import UNKNOWN_UNITS_MAX
from tenants.domain.errors import SourceUnavailableError

_SECONDS_MAX: Final = 9_999_999_999
_PLAIN_TIME: Final = re.compile(r"(\d{1,10})(?:\.(\d{1,3}))?", re.ASCII)


class Values(list[str]):
    """Values of one series, in the order of its times, and its different ones worked out once."""

    __slots__ = ("_distinct",)
    _distinct: frozenset[str]

    def distinct(self) -> frozenset[str]:
        """Return the different ones; callers must not change the values afterwards."""
        try:
            return self._distinct
        except AttributeError:
            self._distinct = frozenset(self)
            return self._distinct


def distinct(values: Sequence[str]) -> AbstractSet[str]:
    """Return the different values of a series."""
    return values.distinct() if isinstance(values, Values) else set(values)


class SampleReader:
    """Reads texts of samples inside one range, and caches the times it has read.

    Args:
        first_seconds: Left edge; a sample on it is dropped.
        last_seconds: Right edge, included.
    """

    def __init__(self, first_seconds: int, last_seconds: int) -> None:
        """Start with empty caches."""
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


EARLIEST_SECONDS: Final = 946_684_800
"""The year 2000: no pod of ours was bound before."""
SKEW_SECONDS_MAX: Final = 300
"""How far a cluster's clock may run ahead of the query's time."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAIR: Final = 2
TIMES_MAX: Final = 4096
"""Scrapes of several hours and targets."""
_PLAIN_SECONDS: Final = re.compile(r"\d{1,10}", re.ASCII)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
"""NUL and half a surrogate pair: JSON can spell them, no database keeps them."""
_REPLACEMENT: Final = "\ufffd"
SHOWN_CHARACTERS: Final = 32


@dataclass(frozen=True, slots=True)
class Range:
    """What a range selector covers, Unix seconds.

    Attributes:
        first_seconds: Left edge, not included: Prometheus 2 includes it, Prometheus 3 does not.
        asked_seconds: Time of the query, included by both.
    """

    first_seconds: int
    asked_seconds: int

    @property
    def seconds(self) -> int:
        """Return the length to query."""
        return self.asked_seconds - self.first_seconds


class Series(NamedTuple):
    """One series of a matrix: our metric name, labels, times in Unix milliseconds and values."""

    metric: str
    labels: Mapping[str, str]
    times: Sequence[int]
    values: Sequence[str]


class Fact(NamedTuple):
    """One row of a vector: our metric name, labels and the last value."""

    metric: str
    labels: Mapping[str, str]
    value: str


def read_matrix(answer: QueryResponse, names: Names, within: Range) -> list[Series]:
    """Return the series of a raw range all at once; see `stream_matrix`."""
    return list(stream_matrix(answer, names, within))


def stream_matrix(answer: QueryResponse, names: Names, within: Range) -> Iterator[Series]:
    """Yield the series of a raw range as they arrive, without the sample on its left edge.

    Different series may share one times object; callers must not change it. Use no series before
    the last one was read.

    Raises:
        SourceUnavailableError: `wrong_result_type`, `bad_answer`, `bad_sample` for times out of
            order or out of range, or what `Answer` refuses.
    """
    for labels, times, values in stream_samples(answer, within):
        metric = checked_metric(labels, names)
        if times:
            yield Series(metric, labels, times, values)


def stream_samples(
    answer: QueryResponse, within: Range
) -> Iterator[tuple[Mapping[str, str], Sequence[int], Sequence[str]]]:
    """Yield labels, times and values of a matrix' rows, of whatever metric; see `stream_matrix`."""
    reader = SampleReader(within.first_seconds, within.asked_seconds)
    for row in answer.series(reader.read_text):
        if isinstance(row, Cut):
            raw, (times, values) = row.labels, row.samples
        else:
            raw, samples = _parts(row, "values")
            times, values = reader.read_pairs(samples)
        yield _storable(raw, answer), times, values
    _check_type(answer, "matrix")


def read_vector(answer: QueryResponse, names: Names) -> Iterator[Fact]:
    """Yield the rows of an instant vector of metrics as they arrive; see `read_rows`."""
    for labels, value in read_rows(answer):
        yield Fact(checked_metric(labels, names), labels, value)


def read_rows(answer: QueryResponse) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yield labels and value of an instant vector's rows; conclude nothing before the last one.

    Raises:
        SourceUnavailableError: `wrong_result_type`, `bad_answer`, or what `Answer` refuses.
    """
    for row in answer.rows():
        if isinstance(row, VectorRow):
            yield _storable(row.metric, answer), row.value[1]
            continue
        raw, sample = _parts(row, "value")
        if len(sample) != _PAIR or not isinstance(sample[1], str):
            _refuse_answer()
        yield _storable(raw, answer), sample[1]
    _check_type(answer, "vector")


@lru_cache(maxsize=TIMES_MAX)
def to_time(milliseconds: int) -> datetime:
    """Return a UTC time, exact to the millisecond; what one scrape saw shares it."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def to_seconds(at: datetime) -> int:
    """Return whole Unix seconds, rounded down.

    Raises:
        ValueError: The time has no zone.
    """
    if at.tzinfo is None:
        raise ValueError("A time needs a zone.")
    return (at - _EPOCH) // timedelta(seconds=1)


def read_count(text: str) -> int:
    """Return what a server counted.

    Raises:
        SourceUnavailableError: `bad_answer` when it is no whole number.
    """
    value = _number(text)
    if value is None or value < 0 or value != int(value):
        _refuse_answer()
    return int(value)


@lru_cache(maxsize=MEMO_MAX)
def read_units(text: str) -> int | None:
    """Return a count of units: whole, not negative, believable; None when it is none."""
    value = _number(text)
    if value is None or not 0 <= value <= UNKNOWN_UNITS_MAX or value != int(value):
        return None
    return int(value)


def read_timestamp(text: str, within: Range) -> datetime | None:
    """Return the time a value means in Unix seconds; None before 2000 or after the query."""
    # Nearly all are whole seconds, which need no decimal arithmetic.
    value = int(text) if _PLAIN_SECONDS.fullmatch(text) else _number(text)
    if value is None or not EARLIEST_SECONDS <= value <= within.asked_seconds + SKEW_SECONDS_MAX:
        return None
    if isinstance(value, int):
        return datetime.fromtimestamp(value, UTC)
    return to_time(int(value * 1000))


def shown(text: str) -> str:
    """Return a value as it is quoted to people: cut, without control characters."""
    return repr(text[:SHOWN_CHARACTERS])


def _number(text: str) -> Decimal | None:
    """Return a finite value; None for any other text."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def read_decimal(text: str) -> Decimal:
    """Return a value as Prometheus writes it; NaN and infinities are numbers here.

    Raises:
        SourceUnavailableError: `bad_sample` when it is no number.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        raise SourceUnavailableError(
            f"A value is no number: {text[:32]!r}.", reason="bad_sample"
        ) from None


def read_float(text: str) -> float:
    """Return a value as Prometheus calculated it.

    Raises:
        SourceUnavailableError: `bad_sample` when it is no number.
    """
    try:
        return float(text)
    except ValueError:
        raise SourceUnavailableError(
            f"A value is no number: {text[:32]!r}.", reason="bad_sample"
        ) from None


def _check_type(answer: QueryResponse, expected: str) -> None:
    if answer.result_type != expected:
        raise SourceUnavailableError(f"The answer is no {expected}.", reason="wrong_result_type")


def _parts(row: object, key: str) -> tuple[dict[str, str], list[Any]]:
    if not isinstance(row, dict):
        _refuse_answer()
    labels, samples = row.get("metric"), row.get(key)
    if not isinstance(labels, dict) or not isinstance(samples, list):
        _refuse_answer()
    if not all(isinstance(text, str) for text in labels.values()):
        _refuse_answer()
    return labels, samples


def _storable(labels: Mapping[str, str], answer: QueryResponse) -> Mapping[str, str]:
    """Return labels with U+FFFD for what no database keeps.

    A tenant chooses some of them, such as the image of a container, so one must not cost the rest.
    """
    if not answer.has_escapes or not _UNSTORABLE.search("".join(labels.values())):
        return labels
    return {key: _UNSTORABLE.sub(_REPLACEMENT, value) for key, value in labels.items()}


def checked_metric(labels: Mapping[str, str], names: Names) -> str:
    """Return our name of the metric a row is of."""
    metric = names.ours.get(labels.get("__name__", ""))
    if metric is None:
        _refuse_answer()
    return metric


def _refuse_answer() -> NoReturn:
    raise SourceUnavailableError("The answer is not shaped as one.", reason="bad_answer")


def impossible(what: str, text: str) -> str:
    """Return the sentence about a value that cannot be."""
    return f"Its {what} cannot be {shown(text)}."


def disagreement(what: str, texts: Iterable[str]) -> str:
    """Return the sentence about series that contradict each other."""
    return f"Its series disagree about its {what}: {', '.join(sorted(texts))}."
