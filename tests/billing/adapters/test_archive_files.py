"""Parquet of an archive: every value comes back as PostgreSQL had it."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from django.db import connection

from billing.adapters.archive_files import (
    begin_folder,
    finish_folder,
    read_manifest,
    read_rows,
    require_files,
    require_same_rows,
    require_sizes,
    write_lines,
    write_table,
)
from tenants.domain.archives import (
    ArchivedColumn,
    ArchivedFile,
    ArchiveDiffersError,
    ArchiveManifest,
)
from tenants.selectors.archives import columns_of, copy_rows

pytestmark = pytest.mark.django_db
MADE = """
CREATE TEMPORARY TABLE kept (
  id bigint, small integer, tiny smallint, name varchar(40), note text, code uuid, is_on boolean,
  price numeric(20,10), share numeric(7,6), at timestamptz)
"""
ROWS: Sequence[tuple[Any, ...]] = (
    (
        1,
        -2,
        3,
        "",
        None,
        "01a221af-f482-7970-9114-69dd4f2f5a3b",
        True,
        Decimal("1234567890.0123456789"),
        Decimal("0.000001"),
        datetime(2025, 9, 1, 0, 0, 0, 1, tzinfo=UTC),
    ),
    (
        2**63 - 1,
        -(2**31),
        -(2**15),
        'a "quoted", text\nof two lines',
        "\\N",
        None,
        False,
        Decimal("-0.0000000001"),
        None,
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ),
    (3, None, None, None, "", None, None, None, Decimal("1.000000"), None),
    (
        4,
        0,
        0,
        "NULL",
        "ü 漢 \t\r end ",
        None,
        True,
        Decimal(0),
        Decimal(0),
        datetime(2100, 1, 1, tzinfo=UTC),
    ),
)


def ignore(_: int) -> None:
    """Show no progress."""


@pytest.fixture
def columns() -> tuple[ArchivedColumn, ...]:
    """Make a table with every type that archived tables have."""
    with connection.cursor() as cursor:
        cursor.execute(MADE)
        cursor.executemany("INSERT INTO kept VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", ROWS)
    return columns_of("kept")


def rows(columns: Sequence[ArchivedColumn], table: str = "kept") -> Iterator[bytes]:
    return copy_rows(table, columns, key="id")


@pytest.fixture
def path(tmp_path: Path, columns: tuple[ArchivedColumn, ...]) -> Path:
    """Write the table."""
    written = tmp_path / "kept.parquet"
    write_table(written, rows(columns), columns, progress=ignore)
    return written


def test_types_are_those_of_the_database(path: Path) -> None:
    schema = pyarrow.parquet.read_schema(path)

    assert [str(field.type) for field in schema] == [
        "int64",
        "int32",
        "int16",
        "string",
        "string",
        "string",
        "string",
        "decimal128(20, 10)",
        "decimal128(7, 6)",
        "timestamp[us, tz=UTC]",
    ]
    compression = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert compression == "ZSTD"


def test_values_are_those_of_the_database(path: Path) -> None:
    table = pyarrow.parquet.read_table(path)

    found = {row["id"]: tuple(row.values()) for row in table.to_pylist()}
    for row in ROWS:
        texts = [{True: "true", False: "false"}.get(row[6], row[6])]
        assert found[row[0]] == (*row[:6], *texts, *row[7:])


def test_the_database_reads_back_what_was_written(
    path: Path, columns: tuple[ArchivedColumn, ...]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE again (LIKE kept)")
        with cursor.copy("COPY again FROM STDIN (FORMAT csv)") as copy:
            for block in read_rows(path, columns):
                copy.write(block)
        cursor.execute("SELECT count(*) FROM (TABLE kept INTERSECT TABLE again) same")
        assert cursor.fetchone() == (len(ROWS),)

    assert require_same_rows(path, rows(columns, "again"), columns, progress=ignore) == len(ROWS)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE kept SET name = NULL WHERE name = ''",
        "UPDATE kept SET note = '' WHERE note IS NULL",
        "UPDATE kept SET price = price + 0.0000000001 WHERE id = 1",
        "UPDATE kept SET at = at + interval '1 microsecond' WHERE id = 1",
        "UPDATE kept SET is_on = NOT is_on WHERE id = 1",
        "UPDATE kept SET id = 5 WHERE id = 3",
        "DELETE FROM kept WHERE id = 4",
        "DELETE FROM kept",
        "INSERT INTO kept SELECT * FROM kept WHERE id = 4",
        "INSERT INTO kept (id) VALUES (9223372036854775807)",
    ],
)
def test_any_other_row_differs(
    change: str, path: Path, columns: tuple[ArchivedColumn, ...]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(change)

    with pytest.raises(ArchiveDiffersError, match=r"kept\.parquet"):
        require_same_rows(path, rows(columns), columns, progress=ignore)


def test_a_file_with_other_columns_is_refused(
    path: Path, columns: tuple[ArchivedColumn, ...]
) -> None:
    with pytest.raises(ArchiveDiffersError, match="other columns than its manifest"):
        list(read_rows(path, columns[:-1]))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all, and long enough for one"])
def test_a_file_that_is_no_parquet_is_refused(
    content: bytes, path: Path, columns: tuple[ArchivedColumn, ...]
) -> None:
    path.write_bytes(content)

    with pytest.raises(ArchiveDiffersError, match="missing or cannot be read"):
        list(read_rows(path, columns))


def test_an_empty_table_has_a_file_with_its_columns(
    tmp_path: Path, columns: tuple[ArchivedColumn, ...]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM kept")
    written = tmp_path / "empty.parquet"

    write_table(written, rows(columns), columns, progress=ignore)

    assert require_same_rows(written, rows(columns), columns, progress=ignore) == 0
    assert pyarrow.parquet.read_table(written).num_rows == 0


def manifest(files: tuple[ArchivedFile, ...]) -> ArchiveManifest:
    return ArchiveManifest(
        table="usage",
        month="2025-09",
        rows=0,
        sums={},
        schema_version="",
        columns=(),
        windows=0,
        audit={},
        files=files,
    )


def test_a_folder_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    partial = begin_folder(tmp_path / "usage-2025-09")
    file = write_lines(partial / "windows.csv", [b"id\n", b"7\n"])
    assert file == ArchivedFile("windows.csv", 5, hashlib.sha256(b"id\n7\n").hexdigest())
    assert not (tmp_path / "usage-2025-09").exists()

    folder = finish_folder(partial, manifest((file,)))

    assert [path.name for path in tmp_path.iterdir()] == ["usage-2025-09"]
    read, digest = read_manifest(folder)
    assert read == manifest((file,))
    assert digest == hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    require_files(folder, read)


def test_what_broke_off_is_begun_anew_and_what_is_whole_is_kept(tmp_path: Path) -> None:
    partial = begin_folder(tmp_path / "usage-2025-09")
    write_lines(partial / "windows.csv", [b"broken off"])

    again = begin_folder(tmp_path / "usage-2025-09")

    assert (again, list(again.iterdir())) == (partial, [])
    finish_folder(again, manifest(()))
    with pytest.raises(ArchiveDiffersError, match=r"usage-2025-09 exists"):
        begin_folder(tmp_path / "usage-2025-09")


@pytest.mark.parametrize("content", [b"id\n8\n", b"id\n7", b"id\n7\n\n", b""])
def test_a_file_of_other_bytes_is_named(content: bytes, tmp_path: Path) -> None:
    partial = begin_folder(tmp_path / "usage-2025-09")
    file = write_lines(partial / "windows.csv", [b"id\n7\n"])
    folder = finish_folder(partial, manifest((file,)))
    (folder / "windows.csv").write_bytes(content)

    with pytest.raises(ArchiveDiffersError, match=r"windows\.csv was altered: \d bytes"):
        require_files(folder, manifest((file,)))


def test_a_missing_file_and_a_missing_manifest_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveDiffersError, match=r"windows\.csv is missing"):
        require_files(tmp_path, manifest((ArchivedFile("windows.csv", 1, ""),)))
    with pytest.raises(ArchiveDiffersError, match=r"manifest\.json is missing"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ArchiveDiffersError, match=r"manifest\.json is missing or cannot be read"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("content", [b"ab", b"abcd", None])
def test_a_file_of_another_size_is_named_without_reading_it(
    content: bytes | None, tmp_path: Path
) -> None:
    file = write_lines(tmp_path / "windows.csv", [b"abc"])
    require_sizes(tmp_path, manifest((file,)))
    (tmp_path / "windows.csv").write_bytes(b"xyz")
    require_sizes(tmp_path, manifest((file,)))

    (tmp_path / "windows.csv").unlink()
    if content is not None:
        (tmp_path / "windows.csv").write_bytes(content)

    with pytest.raises(ArchiveDiffersError, match=r"windows\.csv (was altered|is missing)"):
        require_sizes(tmp_path, manifest((file,)))
