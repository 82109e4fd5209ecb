"""Indexes are built beside the work, whatever an earlier try left and however long others read.

After the way back and forth audit entries are what their leaves were made of.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.db import transaction

from embedded.postgres import OWNER, EmbeddedPostgres
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry
from tenants.selectors.audit import leaf_mismatches
from tenants.services.audit import record
from tests.support.builders import AT

HOST = system_actor("tests")
ROOT = Path(__file__).resolve().parents[3]
BEFORE = ("metering 0009", "quotas 0011", "tenants 0006")
"""The last migrations before the indexes."""
INDEXES = {
    "admission_refusal_last": "quotas_admissionrefusal",
    "audit_by_transaction": "tenants_auditentry",
    "claim_consumer_by_pod": "metering_claimconsumer",
    "notification_occurred": "tenants_notification",
    "reservation_released": "quotas_reservation",
}
MIGRATE = """
import sys, django
django.setup()
from django.core.management import call_command
from django.db import connections
for target in sys.argv[1:] or [""]:
    call_command("migrate", *target.split(), database="owner", verbosity=0)
with connections["owner"].cursor() as cursor:
    cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
    print(*cursor.fetchone())
"""
VALID = """
SELECT c.relname, i.indisvalid AND i.indisready, pg_get_indexdef(c.oid)
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = ANY(%s) ORDER BY 1
"""
WAITED = """
SELECT count(*) FROM pg_locks
 WHERE NOT granted AND waitstart < clock_timestamp() - interval '2200 milliseconds'
"""
"""Longer than the service's `lock_timeout` lets anybody wait."""

Row = tuple[str, bool, str]


def migrate(server: EmbeddedPostgres, database: str, *targets: str) -> "subprocess.Popen[str]":
    """Begin to migrate as a deployment does: in a process of its own, as the owner."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", MIGRATE, *targets],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "DATABASE_URL": server.url(database=database),
            "DATABASE_OWNER_URL": server.url(role=OWNER, database=database),
        },
    )


def indexes(url: str) -> list[Row]:
    with psycopg.connect(url) as superuser:
        return superuser.execute(VALID, [list(INDEXES)]).fetchall()


def leave_half_made(url: str) -> None:
    """Break off the build of each index as a `lock_timeout` does: somebody reads meanwhile."""
    with psycopg.connect(url) as reader, psycopg.connect(url, autocommit=True) as builder:
        read(reader)
        builder.execute("SET ROLE gpu_ledger_owner")
        builder.execute("SET lock_timeout = 50")
        for name, table in INDEXES.items():
            with pytest.raises(psycopg.errors.LockNotAvailable):
                builder.execute(f"CREATE INDEX CONCURRENTLY {name} ON {table} (id)".encode())


def read(reader: psycopg.Connection[tuple[object, ...]]) -> None:
    """Keep a snapshot for as long as the transaction lasts."""
    reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    reader.execute("SELECT count(*) FROM django_migrations")


def wait_until_it_has_waited(migrating: "subprocess.Popen[str]", url: str) -> None:
    """Return once it waits for longer than it may by default, or has ended."""
    with psycopg.connect(url, autocommit=True) as looking:
        while migrating.poll() is None and looking.execute(WAITED).fetchone() == (0,):
            with contextlib.suppress(subprocess.TimeoutExpired):
                migrating.wait(timeout=0.05)


@pytest.mark.soak
def test_an_upgrade_outlasts_who_reads_and_makes_anew_what_an_earlier_try_left(
    postgres: EmbeddedPostgres, committed_db: str, superuser_url: str
) -> None:
    made = indexes(superuser_url)
    with transaction.atomic():
        record(actor=HOST, at=AT, action="a:b:c", object_kind="k", object_id="1")
    back = migrate(postgres, committed_db, *BEFORE)
    assert (*back.communicate(timeout=60), back.returncode) == ("2s 0\n", "", 0)
    assert indexes(superuser_url) == []
    leave_half_made(superuser_url)
    assert [row[:2] for row in indexes(superuser_url)] == [(name, False) for name in INDEXES]

    with psycopg.connect(superuser_url) as reader:
        read(reader)
        migrating = migrate(postgres, committed_db)
        wait_until_it_has_waited(migrating, superuser_url)
    told = migrating.communicate(timeout=60)

    assert (*told, migrating.returncode) == ("2s 0\n", "", 0)
    assert indexes(superuser_url) == made
    assert [row[:2] for row in made] == [(name, True) for name in INDEXES]
    assert AuditEntry.objects.exclude(recorded_at=None).count() == 1
    assert leaf_mismatches() == []
