"""FOCUS files as CSV or Parquet, made of CSV as the database streams it, and rows of either."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from billing.domain.exports.blocks import join_blocks
from billing.domain.exports.errors import FocusFileError
from billing.domain.exports.focus import FocusColumn, FocusFormat

FIELD_CHARACTERS_MAX: Final = 1_000_000
_MAGIC: Final = b"PAR1"


def to_csv(blocks: Iterator[bytes], columns: Sequence[FocusColumn]) -> Iterator[bytes]:
    """Yield the same CSV in larger blocks."""
    del columns
    return join_blocks(blocks)


def to_parquet(blocks: Iterator[bytes], columns: Sequence[FocusColumn]) -> Iterator[bytes]:
    """Yield a Parquet file of CSV; see `billing.adapters.focus_parquet`."""
    from billing.adapters.focus_parquet import encode_parquet  # noqa: PLC0415 - Loads Arrow.

    return encode_parquet(blocks, columns)


ENCODERS: Final = {FocusFormat.CSV: to_csv, FocusFormat.PARQUET: to_parquet}


def read_focus(path: Path) -> tuple[tuple[str, ...], Iterator[Mapping[str, str | None]]]:
    """Return the columns of a CSV or Parquet file, and its rows as texts, read as they are used.

    Raises:
        FocusFileError: It is neither.
    """
    try:
        with path.open("rb") as file:
            is_parquet = file.read(len(_MAGIC)) == _MAGIC
        if not is_parquet:
            return _read_csv(path)
    except StopIteration as error:
        raise FocusFileError(f"{path} cannot be read: it is empty.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise FocusFileError(f"{path} cannot be read: {error}.") from error
    from billing.adapters.focus_parquet import read_parquet  # noqa: PLC0415 - Loads Arrow.

    return read_parquet(path)


def _read_csv(path: Path) -> tuple[tuple[str, ...], Iterator[Mapping[str, str | None]]]:
    csv.field_size_limit(FIELD_CHARACTERS_MAX)
    file = path.open(encoding="utf-8-sig", newline="")
    reader = csv.reader(file, strict=True)
    header = tuple(next(reader))
    return header, _csv_rows(file, reader, header)


def _csv_rows(
    file: io.TextIOBase, reader: Iterator[list[str]], header: Sequence[str]
) -> Iterator[Mapping[str, str | None]]:
    with file:
        try:
            for number, values in enumerate(reader, 1):
                if len(values) != len(header):
                    raise FocusFileError(
                        f"Row {number} has {len(values)} fields, the header {len(header)}."
                    )
                yield {name: value or None for name, value in zip(header, values, strict=True)}
        except (csv.Error, UnicodeDecodeError) as error:
            raise FocusFileError(f"The CSV breaks off: {error}.") from error


class Sink(io.RawIOBase):
    """A file that is only written to; what was written is taken out in between."""

    def __init__(self) -> None:
        """Begin empty."""
        self._written: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        """Say so."""
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - Anything with bytes in it.
        """Keep the bytes."""
        content = bytes(data)
        self._written.append(content)
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._position

    def take(self) -> Iterator[bytes]:
        """Return what was written since."""
        written, self._written = self._written, []
        return iter(written)
