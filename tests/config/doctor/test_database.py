"""The doctor's checks of PostgreSQL, each with a server on which it finds something."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import psycopg
import pytest
from django.db import connection, connections

from config.doctor import database
from config.doctor.checks import installation_checks
from config.doctor.findings import CheckResult, CheckState

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
Check = Callable[[], Iterable[CheckResult]]


def found_by(check: Check) -> CheckResult:
    (result,) = check()
    return result


@pytest.mark.django_db
def test_a_database_as_it_is_migrated_has_no_problem() -> None:
    sound = [
        database.check_server,
        database.check_migrations,
        database.check_role,
        database.check_triggers,
        database.check_objects,
        database.check_timeouts,
        database.check_clocks,
        database.check_pooler,
    ]

    results = [found_by(check) for check in sound]

    assert [one.check for one in results if one.state != CheckState.OK] == []
    assert results[0].found.startswith("PostgreSQL 18.")
    assert results[-1].found == "DATABASE_URL names PostgreSQL itself; no pooler is between."


@pytest.mark.django_db
def test_what_is_not_done_yet_is_a_warning() -> None:
    never, months = (
        found_by(database.check_verification),
        found_by(lambda: database.check_partitions(at=datetime(2031, 1, 31, tzinfo=UTC))),
    )

    assert (never.state, never.found) == ("warning", "The database was never verified.")
    assert never.remedy == "Run `manage.py verify`, or let beat start it."
    assert (months.state, months.found) == (
        "warning",
        "metering_usagerecord_2031_02 is missing: usage of next month cannot be stored.",
    )


@pytest.mark.parametrize(
    ("statement", "check", "sentence"),
    [
        (
            "DELETE FROM django_migrations WHERE app = 'billing' AND name = '0001_tables'",
            database.check_migrations,
            "Migrations are not applied: billing.0001_tables.",
        ),
        (
            "ALTER TABLE django_migrations RENAME TO others",
            database.check_migrations,
            "No migration is applied.",
        ),
        (
            "ALTER TABLE billing_invoice DISABLE TRIGGER billing_invoice_refuses_update",
            database.check_triggers,
            (
                "Ledger triggers are not ENABLE ALWAYS: billing_invoice_refuses_update."
                " Find out who did it."
            ),
        ),
        (
            "GRANT TRUNCATE ON billing_invoice TO gpu_ledger_runtime",
            database.check_objects,
            (
                "Objects of the database that differ from this version's: 1. The privilege"
                " TRUNCATE of gpu_ledger_runtime on billing_invoice is not ours."
            ),
        ),
        (
            "ALTER TABLE billing_taxrate OWNER TO gpu_ledger_app",
            database.check_role,
            "DATABASE_URL names a role that owns tables and could unfreeze ledgers.",
        ),
        (
            "INSERT INTO tenants_processclock VALUES ('worker-7/12', 400, clock_timestamp())",
            database.check_clocks,
            "Processes that are off: worker-7/12 by 400 s.",
        ),
    ],
)
def test_a_changed_database_is_a_problem_with_a_remedy(
    superuser_url: str, statement: str, check: Check, sentence: str
) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(statement.encode())

    result = found_by(check)

    assert (result.state, result.found) == ("problem", sentence)
    assert result.remedy.endswith(".")
    assert result.page.startswith("docs/")


def test_a_role_without_timeouts_is_named_with_its_command(
    superuser_url: str, committed_db: str
) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            f"ALTER ROLE gpu_ledger_app IN DATABASE {committed_db} SET lock_timeout = 0".encode()
        )
    connections["default"].close()

    result = found_by(database.check_timeouts)

    assert result.state == "problem"
    assert result.found == "A lock or a statement may last for ever here."
    assert result.remedy == (
        "As a superuser run: ALTER ROLE gpu_ledger_app SET lock_timeout = '2s';"
    )


@pytest.mark.django_db
def test_an_old_server_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "VERSION_MIN", 99)

    result = found_by(database.check_server)

    assert result.state == "problem"
    assert result.found.endswith("answers; 99 is the oldest that works.")


@pytest.mark.django_db
def test_without_a_database_only_what_needs_none_is_checked() -> None:
    given = connection.settings_dict["PORT"]
    connection.settings_dict["PORT"] = "1"
    try:
        names = [name for check in installation_checks(at=NOW) for name in check.names]
        result = found_by(database.check_server)
    finally:
        connection.settings_dict["PORT"] = given

    assert names == ["database", "broker", "workers", "beat"]
    assert result.state == "problem"
    assert result.found == "PostgreSQL does not answer (OperationalError)."
    assert connection.settings_dict["PASSWORD"] not in result.found
