"""Files of an archived month: Parquet of a table, CSV of its windows, and the manifest.

An archive is written into a folder whose name ends in `.partial`, read back, and renamed when it is
complete: a folder with the name of an archive has all of it.
"""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tenants.domain.archives import (
    MANIFEST,
    ArchivedColumn,
    ArchivedFile,
    ArchiveDiffersError,
    ArchiveManifest,
)

READ_BYTES: Final = 1024 * 1024
MANIFEST_BYTES_MAX: Final = 1024 * 1024
"""A manifest has some 5 KiB, and is read at once."""
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
    from billing.adapters.archive_tables import encode_table  # noqa: PLC0415 - Loads Arrow.

    return _write(path, encode_table(blocks, columns, progress))


def require_same_rows(
    path: Path, blocks: Iterator[bytes], columns: Sequence[ArchivedColumn], *, progress: Progress
) -> int:
    """Compare each row of a Parquet file with CSV of the database; return how many there are.

    Raises:
        ArchiveDiffersError: A row differs, or one of them has more.
    """
    from billing.adapters.archive_tables import compare_rows  # noqa: PLC0415 - Loads Arrow.

    return compare_rows(path, blocks, columns, progress)


def read_rows(path: Path, columns: Sequence[ArchivedColumn]) -> Iterator[bytes]:
    """Return the rows of a Parquet file as CSV without a header, as PostgreSQL reads it.

    Raises:
        ArchiveDiffersError: It cannot be read, or has other columns.
    """
    from billing.adapters.archive_tables import decode_rows  # noqa: PLC0415 - Loads Arrow.

    return decode_rows(path, columns)


def read_manifest(folder: Path) -> tuple[ArchiveManifest, str]:
    """Return the manifest of an archive, and its SHA-256.

    Raises:
        ArchiveDiffersError: It is missing, or none.
    """
    path = folder / MANIFEST
    try:
        if _size(path) > MANIFEST_BYTES_MAX:
            raise ArchiveDiffersError(f"{path} is too long for a manifest.")
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
            size = _size(path)
        except OSError as error:
            raise ArchiveDiffersError(f"{path} is missing or cannot be read.") from error
        if size != file.bytes:
            raise ArchiveDiffersError(f"{path} was altered: {size} bytes, and not {file.bytes}.")


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


def _size(path: Path) -> int:
    """Return how long a file is.

    Raises:
        OSError: There is none, or it is a pipe or a device, of which reading may never end.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return found.st_size


def _digest(path: Path) -> ArchivedFile:
    _size(path)
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
