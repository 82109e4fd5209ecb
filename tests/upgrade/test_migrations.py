"""Migrations from an empty database and back, and a database that earlier migrations made."""

import os
import subprocess
import sys
from collections.abc import Sequence

import psycopg
import pytest
from django.db import connection, connections

from embedded.postgres import OWNER, EmbeddedPostgres
from tenants.selectors.database_objects import object_lines
from tests.conftest import ROOT
from tests.support.partitions import PARTITIONS

EARLIER = """
DELETE FROM django_migrations WHERE app IN ('tenants', 'metering', 'quotas', 'billing');
INSERT INTO django_migrations (app, name, applied)
VALUES ('tenants', '0001_initial', now()), ('metering', '0001_initial', now());
"""
REFUSED = (
    "CommandError: An earlier version made this database, and its migrations were replaced:"
    " run `make clean`, or drop the database, then migrate a new one.\n"
)


AS_A_DEPLOYMENT = ("manage.py", "migrate")
QUICKLY = ("-m", "embedded.quick_migrate")


def migrate(
    server: EmbeddedPostgres,
    database: str,
    arguments: Sequence[str] = (),
    *,
    program: Sequence[str] = AS_A_DEPLOYMENT,
) -> "subprocess.CompletedProcess[str]":
    """Migrate in a process of its own, as the owner."""
    connections.close_all()
    return subprocess.run(
        [sys.executable, *program, "--database", "owner", "-v", "0", *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "DATABASE_URL": server.url(database=database),
            "DATABASE_OWNER_URL": server.url(role=OWNER, database=database),
        },
    )


def test_a_database_of_earlier_migrations_is_refused_with_the_remedy(
    postgres: EmbeddedPostgres, committed_db: str, superuser_url: str
) -> None:
    with psycopg.connect(superuser_url) as superuser:
        superuser.execute(EARLIER.encode())
    before = object_lines()

    refused = migrate(postgres, committed_db)

    assert (refused.returncode, refused.stderr) == (1, REFUSED)
    assert object_lines() == before


@pytest.mark.soak
@pytest.mark.seconds(100)
def test_every_migration_goes_back_and_forth(postgres: EmbeddedPostgres, committed_db: str) -> None:
    make_partitions()
    before = object_lines()

    # Functions of quotas read tables of metering, so they go with them, and come after them.
    for app in ("billing", "metering", "quotas", "tenants"):
        # Forth as a deployment does it; back by the same statements, without making classes anew.
        back = migrate(postgres, committed_db, (app, "zero"), program=QUICKLY)
        assert (back.returncode, back.stderr) == (0, "")
    left = object_lines()
    for app in ("quotas", ""):
        forth = migrate(postgres, committed_db, (app,) if app else ())
        assert (forth.returncode, forth.stderr) == (0, "")
    make_partitions()

    assert [line for line in left if line.split()[0] in {"function", "trigger", "view"}] == []
    assert object_lines() == before


def make_partitions() -> None:
    """Make those that every test finds, whose triggers are in no migration."""
    with connection.cursor() as cursor:
        for statement in PARTITIONS:
            cursor.execute(statement)
