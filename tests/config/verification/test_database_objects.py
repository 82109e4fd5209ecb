"""The committed list of the database's objects is that of a migrated database.

    GOLDEN=write .venv/bin/pytest tests/config/verification/test_database_objects.py

writes it anew after a migration that changes one of them.
"""

import os

import psycopg
import pytest
from django.db import connection

from config.verification import OBJECTS
from tenants.selectors.database_objects import object_lines
from tests.support.config.planted import verify

IS_WRITING = os.environ.get("GOLDEN") == "write"


REBUILT = """
SELECT format('ALTER TABLE %1$s DROP CONSTRAINT %2$I, ADD CONSTRAINT %2$I %3$s',
              conrelid::regclass, conname, pg_get_constraintdef(oid))
  FROM pg_constraint
 WHERE contype = 'c' AND connamespace = 'public'::regnamespace AND coninhcount = 0
   AND conislocal AND conrelid <> 0
UNION ALL
SELECT format('DROP TRIGGER %1$I ON %2$s; %3$s; ALTER TABLE %2$s ENABLE ALWAYS TRIGGER %1$I',
              tgname, tgrelid::regclass, pg_get_triggerdef(oid))
  FROM pg_trigger WHERE NOT tgisinternal AND tgqual IS NOT NULL AND tgparentid = 0
"""


def rebuild(owner: psycopg.Connection) -> None:
    """Make expressions anew from what PostgreSQL prints of them, as a restored dump has them."""
    statements = owner.execute(REBUILT.encode()).fetchall()
    assert len(statements) > 40
    for (statement,) in statements:
        owner.execute(statement.encode())


@pytest.mark.usefixtures("committed_db")
def test_the_list_is_what_the_migrations_make_and_what_a_restore_makes_of_it(
    owner: psycopg.Connection,
) -> None:
    owner.execute("SELECT metering_ensure_partitions('2026-10-01Z', 2)")
    owner.execute("SELECT billing_ensure_charge_partitions('{2026-10-01Z,2026-11-01Z}')")
    owner.execute("SELECT metering_ensure_device_partition('2026-10-01Z')")
    migrated = object_lines()
    rebuild(owner)
    lines = sorted(migrated | object_lines())
    if IS_WRITING:
        OBJECTS.write_text("\n".join(lines) + "\n", encoding="utf-8")

    assert OBJECTS.read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.usefixtures("world")
def test_a_restored_database_differs_in_nothing(owner: psycopg.Connection) -> None:
    rebuild(owner)

    assert verify() == ""


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
def test_no_trigger_that_runs_as_the_owner_can_be_put_on_another_table() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.oid::regprocedure::text FROM pg_proc p"
            " WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef"
            "   AND p.prorettype = 'trigger'::regtype AND has_function_privilege(p.oid, 'EXECUTE')"
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


PLANTED = {
    "CREATE RULE quiet AS ON UPDATE TO tenants_apitoken DO INSTEAD NOTHING": (
        "The rule quiet on tenants_apitoken is not ours."
    ),
    "CREATE OR REPLACE VIEW metering_posted_correction AS SELECT id, window_id, window_start,"
    " cluster_id, organization_id, project_id, cause, unit_seconds, record_count,"
    " decided_at AS posted_at FROM metering_usagecorrection WHERE state = 'posted' AND false": (
        "The view v on metering_posted_correction is missing or was replaced."
    ),
    "CREATE POLICY none ON billing_charge USING (false)": (
        "The policy none on billing_charge is not ours."
    ),
    "ALTER TABLE billing_charge ENABLE ROW LEVEL SECURITY": (
        "The row_security enabled on billing_charge is not ours."
    ),
    "ALTER TABLE billing_charge ALTER created_at SET DEFAULT '2020-01-01Z'": (
        "The default created_at on billing_charge is not ours."
    ),
    "CREATE SCHEMA other": "",
    "CREATE FUNCTION other.f() RETURNS int LANGUAGE sql AS 'SELECT 1'": (
        "The function other.f() is not ours."
    ),
    "CREATE FUNCTION other.e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'": (
        "The function other.e() is not ours."
    ),
    "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION other.e()": (
        "The event_trigger e on database is not ours."
    ),
    "ALTER TABLE billing_invoice DISABLE TRIGGER ALL": (
        "The foreign_key_trigger billing_invoice_period_id_"
    ),
}


@pytest.mark.usefixtures("committed_db")
def test_what_changes_the_meaning_of_a_table_is_named(superuser_url: str) -> None:
    assert verify() == ""

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        for statement in PLANTED:
            superuser.execute(statement.encode())
    found = verify()

    for sentence in PLANTED.values():
        assert sentence in found
