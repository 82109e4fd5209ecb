"""A large month takes no more memory than a small one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from embedded.postgres import APP, OWNER, EmbeddedPostgres
from metering.models import UsageRecord
from metering.selectors.collection.record_digest import DIGEST_OF_LINES, RECORD_LINE
from metering.selectors.collection.usage_facts import usage_statements
from tests.architecture.source import ROOT
from tests.support.config.archives import LABEL, finish_month
from tests.support.config.planted import verify
from tests.support.sampling import soaked

MEMORY_MAX_KIB = 300 * 1024
MORE = usage_statements(
    """
SELECT window_id, window_start, cluster_id, organization_id, project_id, owner, namespace, pod_name,
       md5(n::text) AS pod_uid, resource, node, size, price_group, sharing_mode, share_numerator,
       share_denominator, units, begin_at, end_at, unit_seconds, end_kind, catalogue_version,
       revision, split_among, slack_seconds, correction_id
  FROM (SELECT * FROM metering_usage ORDER BY id LIMIT 1) one,
       generate_series(1, %s) AS n
"""
)
SEALED = f"""
UPDATE metering_meteringwindow w SET (record_count, record_digest) = (
  SELECT count(*), {DIGEST_OF_LINES}
    FROM (SELECT u.pod_uid, u.resource, u.revision, {RECORD_LINE} AS line
            FROM metering_usage u WHERE u.window_id = w.id AND u.revision = 0) lines)
"""  # noqa: S608 - Constants.


MEASURED = """
import re, sys
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
print(re.search("VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1])
"""
"""What the kernel notes of an ended process is at least the memory of the process that began it."""


def run_and_measure(url: str, *arguments: str) -> int:
    """Run a command in a process of its own; return its largest memory in KiB."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURED, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "DATABASE_URL": url,
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(done.stdout.split()[-1])


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("rows", [soaked(100_000)])
def test_memory_stays_flat_and_every_row_comes_back(
    rows: int,
    tmp_path: Path,
    owner: psycopg.Connection,
    postgres: EmbeddedPostgres,
    committed_db: str,
) -> None:
    finish_month()
    for table in ("metering_usagerecord", "metering_meteringwindow"):
        owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    owner.execute("SET enable_nestloop = off")  # There are no statistics of facts yet.
    for statement in MORE:
        owner.execute(statement.encode(), [rows])
    owner.execute(SEALED.encode())
    for table in ("metering_usagerecord", "metering_meteringwindow"):
        owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    as_app = postgres.url(role=APP, database=committed_db)
    as_owner = postgres.url(role=OWNER, database=committed_db)
    known = [LABEL, "--table", "usage"]
    by = ["--from", str(tmp_path), "--by", "frank", "--reason", "Size."]

    began = time.monotonic()
    peaks = [
        run_and_measure(as_app, "archive_month", *known, "--to", str(tmp_path)),
        run_and_measure(as_owner, "detach_month", *known, *by),
        run_and_measure(as_owner, "restore_month", *known, *by),
    ]

    sys.stdout.write(f"{rows:,} rows: {time.monotonic() - began:.1f} s, {peaks} KiB\n")
    assert max(peaks) < MEMORY_MAX_KIB
    assert UsageRecord.objects.count() == rows + 3
    assert "has records" not in verify()
