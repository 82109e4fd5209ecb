"""FOCUS files: Parquet from CSV as the database streams it, and rows of either read back.

Arrow reads CSV in blocks and writes row groups: memory holds one of each. Source: Apache Parquet,
Apache Arrow.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from billing.domain.exports.errors import FocusFileError
from billing.domain.exports.focus import DECIMAL_DIGITS, ColumnType, FocusColumn, FocusFormat

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""Of CSV that Arrow parses at once; more was not faster, and takes more memory."""
CSV_BLOCK_BYTES: Final = 256 * 1024
"""Of what is handed on at once: the database sends row by row."""
READ_ROWS: Final = 8192
FIELD_CHARACTERS_MAX: Final = 1_000_000
_MAGIC: Final = b"PAR1"


def to_csv(blocks: Iterator[bytes], columns: Sequence[FocusColumn]) -> Iterator[bytes]:
    """Yield the same CSV in larger blocks."""
    del columns
    reader = _BlockReader(blocks)
    return iter(lambda: reader.read(CSV_BLOCK_BYTES), b"")


def to_parquet(blocks: Iterator[bytes], columns: Sequence[FocusColumn]) -> Iterator[bytes]:
    """Yield a Parquet file of CSV with a header: decimals as decimal128, times in UTC."""
    schema = pa.schema([pa.field(column.name, _type(column)) for column in columns])
    sink = _Sink()
    reader = pyarrow.csv.open_csv(
        _BlockReader(blocks),
        read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
            yield from sink.take()
    yield from sink.take()


ENCODERS: Final = {FocusFormat.CSV: to_csv, FocusFormat.PARQUET: to_parquet}


def _type(column: FocusColumn) -> pa.DataType:
    match column.type:
        case ColumnType.DECIMAL:
            return pa.decimal128(DECIMAL_DIGITS, column.decimals)
        case ColumnType.INTEGER:
            return pa.int64()
        case ColumnType.DATE_TIME:
            return pa.timestamp("s", tz="UTC")
        case _:
            return pa.string()


def read_focus(path: Path) -> tuple[tuple[str, ...], Iterator[Mapping[str, str | None]]]:
    """Return the columns of a CSV or Parquet file, and its rows as texts, read as they are used.

    Raises:
        FocusFileError: It is neither.
    """
    try:
        with path.open("rb") as file:
            is_parquet = file.read(len(_MAGIC)) == _MAGIC
        return _read_parquet(path) if is_parquet else _read_csv(path)
    except (OSError, pa.ArrowInvalid, UnicodeDecodeError, StopIteration) as error:
        raise FocusFileError(f"{path} cannot be read: {error or 'it is empty'}.") from error


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


def _read_parquet(path: Path) -> tuple[tuple[str, ...], Iterator[Mapping[str, str | None]]]:
    file = pyarrow.parquet.ParquetFile(path)
    return tuple(file.schema_arrow.names), _parquet_rows(file)


def _parquet_rows(file: pyarrow.parquet.ParquetFile) -> Iterator[Mapping[str, str | None]]:
    names = file.schema_arrow.names
    for batch in file.iter_batches(batch_size=READ_ROWS):
        columns = [_texts(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def _texts(column: pa.Array) -> list[str | None]:
    """Return the values of a column as CSV has them; a time without a zone has no Z."""
    if pa.types.is_timestamp(column.type):
        ending = "Z" if column.type.tz == "UTC" else ""
        return [
            None if value is None else f"{value:%Y-%m-%dT%H:%M:%S}{ending}"
            for value in column.to_pylist()
        ]
    if pa.types.is_decimal(column.type):
        return [None if value is None else f"{value:f}" for value in column.to_pylist()]
    return [None if value is None else str(value) for value in column.to_pylist()]


class _BlockReader(io.RawIOBase):
    """A file of blocks: Arrow and others read as many bytes as they want."""

    def __init__(self, blocks: Iterator[Any]) -> None:
        """Read from blocks."""
        self._blocks = blocks
        self._rest = bytearray()

    def readable(self) -> bool:
        """Say so."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most so many bytes; none at the end."""
        rest = self._rest
        while size < 0 or len(rest) < size:
            block = next(self._blocks, None)
            if block is None:
                break
            rest += block
        taken = bytes(rest) if size < 0 else bytes(rest[:size])
        del rest[: len(taken)]
        return taken


class _Sink(io.RawIOBase):
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
