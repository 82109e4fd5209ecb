"""Tables of an archived month: Parquet of CSV, compared with the database, and as CSV again.

Arrow takes 54 MiB of memory, so only what writes or reads an archive imports this. Memory holds a
row group of each side.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from billing.adapters.archive_files import Progress
from billing.adapters.focus_files import Sink
from billing.adapters.focus_parquet import csv_tables
from tenants.domain.archives import ArchivedColumn, ArchiveDiffersError

GROUP_ROWS: Final = 4 * 1024
"""Of a row group, some 3 MiB in memory: two are compared, while one is decoded."""
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_INTEGERS: Final = {"bigint": pa.int64(), "integer": pa.int32(), "smallint": pa.int16()}
_TIME: Final = pa.timestamp("us", tz="UTC")


def encode_table(
    blocks: Iterator[bytes], columns: Sequence[ArchivedColumn], progress: Progress
) -> Iterator[bytes]:
    """Yield CSV with a header as Parquet: decimals as decimal128, times in UTC, zstd."""
    schema, sink, rows = _schema(columns), Sink(), 0
    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in _tables(blocks, columns):
            writer.write_table(table)
            rows += table.num_rows
            pa.default_memory_pool().release_unused()
            progress(rows)
            yield from sink.take()
    yield from sink.take()


def compare_rows(
    path: Path, blocks: Iterator[bytes], columns: Sequence[ArchivedColumn], progress: Progress
) -> int:
    """Do `archive_files.require_same_rows`."""
    done = 0
    ours, theirs = _Rows(_batches(path, columns)), _Rows(_tables(blocks, columns))
    while count := min(ours.fill(), theirs.fill()):
        if not ours.take(count).equals(theirs.take(count)):
            raise ArchiveDiffersError(
                f"{path} differs from the database in rows {done + 1} to {done + count}."
            )
        done += count
        progress(done)
        pa.default_memory_pool().release_unused()
    if ours.fill() or theirs.fill():
        raise ArchiveDiffersError(f"{path} has {done} rows of the database, and one of both more.")
    return done


def decode_rows(path: Path, columns: Sequence[ArchivedColumn]) -> Iterator[bytes]:
    """Do `archive_files.read_rows`."""
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    for table in _batches(path, columns):
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(_printable(table), sink, options)
        yield sink.getvalue().to_pybytes()


class _Rows:
    """Tables that follow each other, taken in any number of rows."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._table: pa.Table | None = None

    def fill(self) -> int:
        """Return how many rows are here, 0 at the end."""
        while self._table is None or not self._table.num_rows:
            self._table = next(self._tables, None)
            if self._table is None:
                return 0
        return int(self._table.num_rows)

    def take(self, count: int) -> pa.Table:
        """Return the next rows."""
        assert self._table is not None  # noqa: S101 - After `fill`.
        taken, self._table = self._table.slice(0, count), self._table.slice(count)
        return taken


def _batches(path: Path, columns: Sequence[ArchivedColumn]) -> Iterator[pa.Table]:
    try:
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
            if not file.schema_arrow.equals(_schema(columns)):
                raise ArchiveDiffersError(f"{path} has other columns than its manifest.")
            for batch in file.iter_batches(batch_size=GROUP_ROWS):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise ArchiveDiffersError(f"{path} is missing or cannot be read: {error}.") from error


def _tables(blocks: Iterator[bytes], columns: Sequence[ArchivedColumn]) -> Iterator[pa.Table]:
    """Yield CSV with a header as tables; times come as microseconds since 1970."""
    schema = _schema(columns)
    read = pa.schema(
        [field.with_type(pa.int64()) if field.type == _TIME else field for field in schema]
    )
    next(blocks)
    for table in csv_tables(blocks, read, group_rows=GROUP_ROWS):
        yield table.cast(schema)


def _printable(table: pa.Table) -> pa.Table:
    """Return a table with decimals as text, which the CSV of Arrow has no form for."""
    arrays = [
        pyarrow.compute.cast(column, pa.string()) if pa.types.is_decimal(column.type) else column
        for column in table.columns
    ]
    return pa.table(arrays, names=table.column_names)


def _schema(columns: Sequence[ArchivedColumn]) -> pa.Schema:
    return pa.schema([pa.field(column.name, _type(column.type)) for column in columns])


def _type(name: str) -> pa.DataType:
    if (found := _NUMERIC.fullmatch(name)) is not None:
        return pa.decimal128(int(found[1]), int(found[2]))
    if name == "timestamp with time zone":
        return _TIME
    return _INTEGERS.get(name, pa.string())
