"""A finished month, and the commands that archive, detach and restore it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from metering.models import DeviceWindow, MeteringWindow, UsageRecord
from metering.services.efficiency.deriving import write_cluster_health
from tenants.domain.archives import ArchiveMonth
from tests.support.builders import AT, MONTH_START

LABEL = f"{MONTH_START:%Y-%m}"


@contextmanager
def signed_in(url: str) -> Iterator[None]:
    """Let commands within sign in to the database as the role of a URL."""
    settings = connections["default"].settings_dict
    own = {name: settings[name] for name in ("USER", "PASSWORD")}
    parts = psycopg.conninfo.conninfo_to_dict(url)
    connections.close_all()
    settings.update(USER=parts["user"], PASSWORD=parts["password"])
    try:
        yield
    finally:
        connections.close_all()
        settings.update(own)


def run(command: str, *arguments: str, table: str = "usage", label: str = LABEL) -> str:
    """Run a command about a month, and return what it printed."""
    printed = StringIO()
    call_command(command, label, "--table", table, *arguments, stdout=printed)
    return printed.getvalue()


def archive(root: Path, table: str = "usage") -> str:
    """Archive the month."""
    return run("archive_month", "--to", str(root), table=table)


def move(command: str, root: Path, table: str = "usage", reason: str = "Kept one year.") -> str:
    """Detach or restore the month."""
    return run(command, "--from", str(root), "--by", "frank", "--reason", reason, table=table)


def refusal(command: str, root: Path, table: str = "usage", **options: str) -> str:
    """Return why a command is refused."""
    call = partial(archive, root, table)
    if command != "archive_month":
        call = partial(move, command, root, table, **options)
    with pytest.raises(CommandError) as refused:
        call()
    return str(refused.value)


def usage_rows() -> list[Any]:
    """Return every usage record."""
    return list(UsageRecord.objects.order_by("pk").values())


def finish_month() -> None:
    """End the device figures of the month's hours, which never come, and derive its credits."""
    DeviceWindow.objects.update(state="unavailable", sealed_at=AT)
    for window_id in MeteringWindow.objects.values_list("pk", flat=True):
        write_cluster_health(window_id=window_id, at=AT)


def detach_rows(owner: psycopg.Connection, table: str, partitioned: str) -> None:
    """Take the partition of the month away, and register that it is archived."""
    month = ArchiveMonth.parse(LABEL)
    partition = f"{partitioned}_{month.ending}"
    owner.execute(f"ALTER TABLE {partitioned} DETACH PARTITION {partition}".encode())
    owner.execute(
        "INSERT INTO tenants_archivedmonth (table_name, label, begin_at, end_at, row_count, sums,"
        " manifest_sha256, windows_sha256, location, detached_at, detached_by, reason, restored_by,"
        " restore_reason) VALUES (%s, %s, %s, %s, 2, '{}', '', '', '', now(), '', '', '', '')",
        [table, LABEL, month.begin_at, month.end_at],
    )


def attach_rows(owner: psycopg.Connection, partitioned: str) -> None:
    """Put the partition of the month back, and register that it is restored."""
    month = ArchiveMonth.parse(LABEL)
    owner.execute(
        f"ALTER TABLE {partitioned} ATTACH PARTITION {partitioned}_{month.ending}"
        f" FOR VALUES FROM ('{month.begin_at}') TO ('{month.end_at}')".encode()
    )
    owner.execute("UPDATE tenants_archivedmonth SET restored_at = now()")
