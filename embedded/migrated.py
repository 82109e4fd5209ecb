"""Data of a server with a migrated template, kept for later sessions: migrating takes seconds."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from embedded.postgres import DATABASE, OWNER, EmbeddedPostgres
from embedded.postgres_data import SUPERUSER

TEMPLATE: Final = "gpu_ledger_template"
KEPT: Final = 4
"""Of the last schemas; each takes some 70 MB."""
_SCHEMA: Final = ("*/migrations/*.py", "*/sql/*.sql", "embedded/*.py", "requirements/*.txt")
"""All that makes the data a server starts with."""


def start_migrated(
    server: EmbeddedPostgres, *, checkout: Path, migrate: Callable[[], None]
) -> None:
    """Start a new server that has the database TEMPLATE, migrated.

    Args:
        server: It has no data yet.
        checkout: Its schema names the data that is kept in its `.tools`.
        migrate: Migrates TEMPLATE on the started server, where no data of this schema is kept.
    """
    kept = checkout / ".tools" / "migrated" / _schema_digest(checkout)
    if not kept.exists():
        with _lock(kept.parent.with_suffix(".lock")):
            if not kept.exists():
                _make(server, kept, migrate)
    if not server.data.exists():
        _copy(kept, server.folder)
    server.start()


def start_with_tables(server: EmbeddedPostgres, *, checkout: Path) -> None:
    """Start a new server whose database has all tables, made by their owner."""
    start_migrated(server, checkout=checkout, migrate=lambda: _migrate(server, checkout))
    with psycopg.connect(superuser_url(server), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {DATABASE}")
        server.create_database(connection, DATABASE, template=TEMPLATE)


def _migrate(server: EmbeddedPostgres, checkout: Path) -> None:
    urls = {
        "DATABASE_URL": server.url(database=TEMPLATE),
        "DATABASE_OWNER_URL": server.url(role=OWNER, database=TEMPLATE),
    }
    settings = {"DJANGO_SETTINGS_MODULE": "config.settings.development", "LOG_LEVEL": "WARNING"}
    subprocess.run(
        [sys.executable, "-m", "embedded.quick_migrate", "--database", "owner", "-v", "0"],
        cwd=checkout,
        check=True,
        env=os.environ | settings | urls,
    )


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Let one process at a time migrate: processes that start together would all do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def superuser_url(server: EmbeddedPostgres) -> str:
    """Return the URL under which databases are made."""
    return server.url(role=SUPERUSER, database="postgres")


def _schema_digest(checkout: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _SCHEMA for path in checkout.glob(pattern)):
        digest.update(str(path.relative_to(checkout)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _make(server: EmbeddedPostgres, kept: Path, migrate: Callable[[], None]) -> None:
    """Migrate a template in a new server, end it, and keep a copy of its data."""
    server.start()
    try:
        with psycopg.connect(superuser_url(server), autocommit=True) as connection:
            server.create_database(connection, TEMPLATE)
        migrate()
    finally:
        server.stop()
    folder = kept.parent
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder))
    _copy(server.folder, partial)
    partial.rename(kept)
    newest = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in newest[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a stopped server's folder; owners and modes too, which PostgreSQL insists on."""
    target.mkdir(parents=True, exist_ok=True)
    command = ["cp", "-a", f"{source}/.", f"{target}/"]
    subprocess.run(command, check=True)  # noqa: S603 - Of our own folders.
