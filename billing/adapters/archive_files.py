"""Files of an archived month: Parquet of a table, CSV of its windows, and the manifest.

An archive is written into a folder whose name ends in `.partial`, read back, and renamed when it is
complete: a folder with the name of an archive has all of it. Memory holds a row group of each side.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from billing.adapters.focus_files import Sink, csv_tables
from tenants.domain.archives import (
    MANIFEST,
    ArchivedColumn,
    ArchivedFile,
    ArchiveDiffersError,
    ArchiveManifest,
)

READ_BYTES: Final = 1024 * 1024
GROUP_ROWS: Final = 4 * 1024
"""Of a row group, some 3 MiB in memory: two are compared, while one is decoded."""
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_INTEGERS: Final = {"bigint": pa.int64(), "integer": pa.int32(), "smallint": pa.int16()}
_TIME: Final = pa.timestamp("us", tz="UTC")
Progress = Callable[[int], None]
"""Takes how many rows are done."""
FilesCheck = Callable[[Path, ArchiveManifest], None]
"""Holds the files of a folder to its manifest, and refuses others."""


def begin_folder(folder: Path) -> Path:
    """Return an empty folder beside an archive's, in which it is written.

    Raises:
        ArchiveDiffersError: The archive is there already.
    """
    if folder.exists():
        raise ArchiveDiffersError(
            f"{folder} exists.", remedy="Use it, or remove it to archive the month anew."
        )
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    return partial


def finish_folder(partial: Path, manifest: ArchiveManifest) -> Path:
    """Write the manifest, and give the folder the archive's name once all is on the disk."""
    _write(partial / MANIFEST, [manifest.text().encode()])
    _sync_folder(partial)
    folder = partial.with_name(partial.name.removesuffix(".partial"))
    partial.rename(folder)
    _sync_folder(folder.parent)
    return folder


def write_lines(path: Path, lines: Iterable[bytes]) -> ArchivedFile:
    """Write a file of bytes as they are."""
    return _write(path, lines)


def write_table(
    path: Path, blocks: Iterator[bytes], columns: Sequence[ArchivedColumn], *, progress: Progress
) -> ArchivedFile:
    """Write CSV with a header as Parquet: decimals as decimal128, times in UTC, zstd."""
    return _write(path, _parquet(blocks, columns, progress))


def _parquet(
    blocks: Iterator[bytes], columns: Sequence[ArchivedColumn], progress: Progress
) -> Iterator[bytes]:
    schema, sink, rows = _schema(columns), Sink(), 0
    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in _tables(blocks, columns):
            writer.write_table(table)
            rows += table.num_rows
            pa.default_memory_pool().release_unused()
            progress(rows)
            yield from sink.take()
    yield from sink.take()


def read_manifest(folder: Path) -> tuple[ArchiveManifest, str]:
    """Return the manifest of an archive, and its SHA-256.

    Raises:
        ArchiveDiffersError: It is missing, or none.
    """
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
        return ArchiveManifest.parse(content.decode()), hashlib.sha256(content).hexdigest()
    except (OSError, UnicodeDecodeError) as error:
        raise ArchiveDiffersError(f"{path} is missing or cannot be read.") from error


def require_files(folder: Path, manifest: ArchiveManifest) -> None:
    """Read the files of an archive, and refuse one that is not as it was written.

    Raises:
        ArchiveDiffersError: It is missing, shorter, or another.
    """
    for file in manifest.files:
        path = folder / file.name
        try:
            found = _digest(path)
        except OSError as error:
            raise ArchiveDiffersError(f"{path} is missing or cannot be read.") from error
        if found != file:
            raise ArchiveDiffersError(
                f"{path} was altered: {found.bytes} bytes with the SHA-256 {found.sha256}, and not"
                f" {file.bytes} with {file.sha256}."
            )


def require_sizes(folder: Path, manifest: ArchiveManifest) -> None:
    """Refuse an archive of which a file is missing or has another size; none is read.

    Raises:
        ArchiveDiffersError: So it is.
    """
    for file in manifest.files:
        path = folder / file.name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise ArchiveDiffersError(f"{path} is missing or cannot be read.") from error
        if size != file.bytes:
            raise ArchiveDiffersError(f"{path} was altered: {size} bytes, and not {file.bytes}.")


def require_same_rows(
    path: Path,
    blocks: Iterator[bytes],
    columns: Sequence[ArchivedColumn],
    *,
    progress: Progress,
) -> int:
    """Compare each row of a Parquet file with CSV of the database; return how many there are.

    Raises:
        ArchiveDiffersError: A row differs, or one of them has more.
    """
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


def read_rows(path: Path, columns: Sequence[ArchivedColumn]) -> Iterator[bytes]:
    """Yield the rows of a Parquet file as CSV without a header, as PostgreSQL reads it.

    Raises:
        ArchiveDiffersError: It cannot be read, or has other columns.
    """
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


def _write(path: Path, blocks: Iterable[Any]) -> ArchivedFile:
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for block in blocks:
            file.write(block)
            digest.update(block)
            size += len(block)
        file.flush()
        os.fsync(file.fileno())
    return ArchivedFile(path.name, size, digest.hexdigest())


def _digest(path: Path) -> ArchivedFile:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
            size += len(block)
    return ArchivedFile(path.name, size, digest.hexdigest())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
