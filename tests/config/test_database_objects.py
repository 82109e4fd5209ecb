"""The committed list of the database's objects is that of a migrated database.

    GOLDEN=write .venv/bin/pytest tests/config/test_database_objects.py

writes it anew after a migration that changes one of them.
"""

import os

import pytest
from django.db import connection

from config.verification import OBJECTS
from tenants.selectors.database_objects import object_lines

IS_WRITING = os.environ.get("GOLDEN") == "write"


@pytest.mark.django_db
def test_the_list_is_what_the_migrations_make() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions('2026-10-01Z', 2)")
    lines = sorted(object_lines())
    if IS_WRITING:
        OBJECTS.write_text("\n".join(lines) + "\n", encoding="utf-8")

    assert OBJECTS.read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.django_db
def test_what_runs_for_others_looks_names_up_where_its_owner_says() -> None:
    """Else a caller's own search_path gives a trigger another table or function to ask."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.oid::regprocedure::text FROM pg_proc p"
            " WHERE p.pronamespace = 'public'::regnamespace"
            "   AND (p.prosecdef OR p.prorettype = 'trigger'::regtype)"
            "   AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS one"
            "                    WHERE one LIKE 'search_path=%pg_temp')"
        )
        assert cursor.fetchall() == []


@pytest.mark.django_db
def test_the_runtime_role_does_not_say_which_migrations_were_applied() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT has_table_privilege('django_migrations', 'SELECT'),"
            " has_table_privilege('django_migrations', 'INSERT, UPDATE, DELETE, TRUNCATE')"
        )
        assert cursor.fetchone() == (True, False)
