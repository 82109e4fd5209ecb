"""The body of a response as a stream: rows as they arrive, checks of the whole at its end.

An hour of a large cluster is a hundred megabytes of JSON. One row of it is in memory at a time, cut
out where Prometheus' own spelling shows a row's end. The cut is provably right: each part of a row
is a complete JSON value, and no prefix of a JSON object or array is complete, so a part that parses
is the intended part. What is cut out is decoded to its type, which checks it too. A body that is
formatted or shaped differently goes through the standard parser instead, which yields the same
rows.

Use no row before the last one was read: warnings follow the rows.
"""

import codecs
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from tenants.domain.errors import SourceUnavailableError

T = TypeVar("T")
ENVELOPE_CHARS_MAX: Final = 1024 * 1024
"""What stands around the rows: status, warnings, statistics; far less than this."""
ROW_CHARS_MAX: Final = 4 * 1024 * 1024
"""An hour scraped every second is a row of some 100 kB."""
MEMO_MAX: Final = 1024
"""Texts of samples cached at a time. Pods that were there all the hour are spelled alike."""
REPEATS_MIN: Final = MEMO_MAX // 8  # Fewer among so many, and remembering spares nothing.
MISSES_MAX: Final = 16
"""After this many differently formatted rows, rows are no longer cut."""
_RESULT: Final = re.compile(r'"result"\s*:\s*\[')
_SPACES: Final = frozenset(" \t\r\n")
_BEGIN: Final = '{"metric":{'
_MIDDLE: Final = '},"values":[['
_END: Final = "]]}"
_END_BEFORE_ANOTHER: Final = f"{_END},{_BEGIN}"  # Found in a third of the time of `_END`.
_ROWS_HERE: Final = "rows"


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


# Decimal keeps milliseconds exact; NaN and Infinity are no JSON and are refused.
_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)


class VectorRow(msgspec.Struct, gc=False):
    """A row of a vector in the shape that Prometheus documents: labels, and time and value."""

    metric: dict[str, str]
    value: tuple[float, str]


_LABELS: Final = msgspec.json.Decoder(dict[str, str])
_VECTOR: Final = msgspec.json.Decoder(list[VectorRow])


class Cut(NamedTuple, Generic[T]):
    """A row of a matrix in Prometheus' own spelling, with what its samples were read as."""

    labels: Mapping[str, Any]
    samples: T


class QueryResponse:
    """One response; its rows are read once, by `series` or by `rows`.

    Attributes:
        result_type: "matrix", "vector", ...; known after the last row.
        row_count: How many rows it had; known after the last row.
        sha256: Of the whole body as received; known after the last row.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        """Prepare; nothing is read yet."""
        self._body = _Body(chunks)
        self.result_type = ""
        self.row_count = 0
        self.sha256 = ""

    @property
    def has_escapes(self) -> bool:
        r"""Whether any text so far may have been spelled with a `\`."""
        return self._body.has_escapes

    def series(self, read: Callable[[str], T | None]) -> Iterator[Cut[T] | Any]:
        """Yield the rows of a matrix: cut ones where `read` understood them, else parsed JSON.

        Args:
            read: Parses the text of a row's samples, `[[1790845000,"1"],...]`; deterministic; None
                where the text is formatted differently.

        Raises:
            SourceUnavailableError: The body is not a complete response; as for `rows`.
        """
        return self._checked(_Cutter(read).rows)

    def rows(self) -> Iterator[Any]:
        """Yield the rows of any result: `VectorRow` where they are shaped so, else parsed JSON.

        Raises:
            SourceUnavailableError: `truncated` when it is not whole or no JSON, `query_failed`,
                `partial_response` for any warning, `bad_answer` when it holds no result.
        """
        return self._checked(_batches)

    def _checked(self, rows_of: Callable[["_Body"], Iterator[Any]]) -> Iterator[Any]:
        body = self._body
        try:
            before = _take_until_rows(body)
            if before is not None:
                for row in rows_of(body):
                    self.row_count += 1
                    yield row
            after = _take_rest(body)
            payload = _DECODER.decode(
                after if before is None else f'{before}["{_ROWS_HERE}"]{after}'
            )
        except (ValueError, RecursionError) as error:
            raise SourceUnavailableError("The answer is not JSON.", reason="truncated") from error
        self.result_type = _judge(payload, has_rows=before is not None)
        self.sha256 = body.sha256()


class _Body:
    """The text of a body that is still arriving, from where it was read to."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.text = ""
        self.at = 0
        self.has_escapes = False
        self._chunks = iter(chunks)
        self._digest = hashlib.sha256()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_over = False

    def grow(self) -> bool:
        """Forget what was read and take the next chunk; False when there is none."""
        if self._is_over:
            return False
        chunk = next(self._chunks, None)
        self._is_over = chunk is None
        self._digest.update(chunk or b"")
        more = self._decoder.decode(chunk or b"", final=chunk is None)
        self.has_escapes = self.has_escapes or "\\" in more
        self.text = self.text[self.at :] + more
        self.at = 0
        return not self._is_over

    def sha256(self) -> str:
        return self._digest.hexdigest()


def _take_until_rows(body: _Body) -> str | None:
    """Return the text before the rows, None when the body has no result to be streamed."""
    while (found := _RESULT.search(body.text)) is None:
        if len(body.text) > ENVELOPE_CHARS_MAX or not body.grow():
            return None
    body.at = found.end()
    return body.text[: found.end() - 1]


def _take_rest(body: _Body) -> str:
    while body.grow():
        if len(body.text) > ENVELOPE_CHARS_MAX:
            raise ValueError("the answer goes on after its rows")
    return body.text[body.at :]


def _judge(payload: object, *, has_rows: bool) -> str:
    """Return the result type of a valid response."""
    if not isinstance(payload, dict) or payload.get("status") != "success":
        raise SourceUnavailableError("Prometheus reports a failed query.", reason="query_failed")
    # `isPartial` is VictoriaMetrics' name for what Thanos and Mimir put into warnings.
    if payload.get("warnings") or payload.get("infos") or payload.get("isPartial"):
        raise SourceUnavailableError(
            "The answer comes with warnings, so it may be incomplete.", reason="partial_response"
        )
    data = payload.get("data")
    if not has_rows or not isinstance(data, dict) or data.get("result") != [_ROWS_HERE]:
        raise SourceUnavailableError("The answer holds no result.", reason="bad_answer")
    return str(data.get("resultType"))


class _Cutter(Generic[T]):
    """Cuts rows of a matrix out of a body, and caches parsed sample texts."""

    def __init__(self, read: Callable[[str], T | None]) -> None:
        self._read = read
        self._memo: dict[str, T | None] = {}
        self._is_remembering = True
        self._misses = self._repeats = 0

    def rows(self, body: _Body) -> Iterator[Cut[T] | Any]:
        is_first = True
        while _is_row_ahead(body, is_first=is_first):
            cut = self._cut(body) if self._misses < MISSES_MAX else None
            self._misses += cut is None
            yield _parsed(body) if cut is None else cut
            is_first = False

    def _cut(self, body: _Body) -> Cut[T] | None:
        """Return the next row and step over it; None where it is not spelled as expected."""
        marks = _marks(body)
        if marks is None:
            return None
        middle, end = marks
        samples = self._samples(body.text[middle + len(_MIDDLE) - 2 : end + 2])
        if samples is None:
            return None
        head = body.text[body.at + len(_BEGIN) - 1 : middle + 1]
        try:
            labels = _LABELS.decode(head)
        except (ValueError, RecursionError):
            return None
        body.at = end + len(_END)
        return Cut(labels, samples)

    def _samples(self, text: str) -> T | None:
        if not self._is_remembering:
            return self._read(text)
        if text in self._memo:
            self._repeats += 1
            return self._memo[text]
        if len(self._memo) >= MEMO_MAX:
            self._memo.clear()
            self._is_remembering = self._repeats >= REPEATS_MIN
            self._repeats = 0
        found = self._memo[text] = self._read(text)
        return found


def _marks(body: _Body) -> tuple[int, int] | None:
    """Return where labels meet samples and where samples end; None where it is not to be seen.

    Neither mark can stand inside a label's value: a quotation mark in there is escaped.
    """
    while True:
        middle = body.text.find(_MIDDLE, body.at)
        end = body.text.find(_END_BEFORE_ANOTHER, middle)
        if end < 0:
            end = body.text.find(_END, middle)
        if middle >= 0 and end >= 0:
            return (middle, end) if body.text.startswith(_BEGIN, body.at) else None
        if len(body.text) - body.at > ROW_CHARS_MAX or not body.grow():
            return None


def _batches(body: _Body) -> Iterator[Any]:
    """Yield parsed rows, as many at a time as have arrived whole."""
    is_first = True
    while _is_row_ahead(body, is_first=is_first):
        is_first = False
        rows = _batch(body)
        if rows is None:
            yield _parsed(body)
        else:
            yield from rows


def _batch(body: _Body) -> list[Any] | None:
    """Return all rows but the last one that has begun; None where their ends are not to be seen."""
    end = body.text.rfind("]},{", body.at)
    if end < 0:
        return None
    text = f"[{body.text[body.at : end + 2]}]"
    try:
        rows: list[Any] = _VECTOR.decode(text)
    except (ValueError, RecursionError):
        try:
            rows = _DECODER.decode(text)
        except (ValueError, RecursionError):
            return None
    body.at = end + 2
    return rows


def _parsed(body: _Body) -> Any:  # noqa: ANN401 - JSON.
    """Return the next value by the plain parser, however it is spelled."""
    while True:
        try:
            value, body.at = _DECODER.raw_decode(body.text, body.at)
        except (ValueError, RecursionError):
            if len(body.text) - body.at > ROW_CHARS_MAX or not body.grow():
                raise
        else:
            return value


def _is_row_ahead(body: _Body, *, is_first: bool) -> bool:
    """Skip the text between rows, or their end."""
    sign = _next_sign(body)
    if sign == "]":
        body.at += 1
        return False
    if not is_first:
        if sign != ",":
            raise ValueError("rows are not separated")
        body.at += 1
        if _next_sign(body) == "]":
            raise ValueError("a row is missing after a comma")
    return True


def _next_sign(body: _Body) -> str:
    """Step over white space and return what follows, without stepping over it."""
    while True:
        while body.text[body.at : body.at + 1] in _SPACES:
            body.at += 1
        if body.at < len(body.text):
            return body.text[body.at]
        if not body.grow():
            raise ValueError("the rows break off")
