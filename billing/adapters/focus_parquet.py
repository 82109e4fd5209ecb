"""Parquet of FOCUS files and archives: from CSV as it streams, and rows read back as texts.

Arrow takes 54 MiB of memory, so only what writes or reads Parquet imports this. Memory holds some
MiB of CSV and one row group. Source: Apache Parquet, Apache Arrow.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from billing.adapters.focus_files import Sink
from billing.domain.exports.blocks import join_blocks
from billing.domain.exports.errors import FocusFileError
from billing.domain.exports.focus import DECIMAL_DIGITS, ColumnType, FocusColumn

BLOCK_BYTES: Final = 1024 * 1024
"""Of CSV that Arrow parses at once; a quarter of it took 40% longer."""
BLOCKS_AHEAD: Final = 8
"""Read while Arrow works, so that the database does not wait: 24 were not faster."""
GROUP_ROWS: Final = 16 * 1024
"""Of a row group, some 12 MiB in memory: with twice as many a million rows took 301 MiB."""
READ_ROWS: Final = 8192


def encode_parquet(blocks: Iterator[bytes], columns: Sequence[FocusColumn]) -> Iterator[bytes]:
    """Yield a Parquet file of CSV: decimals as decimal128, times in UTC.

    Args:
        blocks: The header, and then whole rows.
        columns: Of the header, in its order.
    """
    schema = pa.schema([pa.field(column.name, _type(column)) for column in columns])
    next(blocks)
    sink = Sink()
    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for group in csv_tables(blocks, schema):
            writer.write_table(group)
            yield from sink.take()
    yield from sink.take()


def csv_tables(
    blocks: Iterator[bytes], schema: pa.Schema, *, group_rows: int = GROUP_ROWS
) -> Iterator[pa.Table]:
    """Yield rows of CSV, without its header, as tables of a row group each."""
    tables: list[pa.Table] = []
    for chunk in _read_ahead(join_blocks(blocks, BLOCK_BYTES)):
        tables.append(_table(chunk, schema))
        if sum(table.num_rows for table in tables) >= group_rows:
            yield pa.concat_tables(tables)
            tables.clear()
    if tables:
        yield pa.concat_tables(tables)


def _read_ahead(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield blocks, of which a thread reads the next ones; it has ended when the caller has."""
    with ThreadPoolExecutor(1, "read-ahead") as pool:
        ahead = deque(pool.submit(next, blocks, None) for _ in range(BLOCKS_AHEAD))
        while (block := ahead.popleft().result()) is not None:
            ahead.append(pool.submit(next, blocks, None))
            yield block


def _table(chunk: bytes, schema: pa.Schema) -> pa.Table:
    """Return whole rows of CSV as a table, parsed as one block: then values may have newlines."""
    return pyarrow.csv.read_csv(
        pa.BufferReader(chunk),
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, block_size=len(chunk) + 1, column_names=schema.names
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


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


def read_parquet(path: Path) -> tuple[tuple[str, ...], Iterator[Mapping[str, str | None]]]:
    """Return the columns of a file, and its rows as texts, read as they are used.

    Raises:
        FocusFileError: It is no Parquet.
    """
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise FocusFileError(f"{path} cannot be read: {error}.") from error
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
